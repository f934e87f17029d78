//! The configuration of a server: defaults, then a YAML file, then the environment, then flags.
//!
//! The table in `keys.rs` is the one source: names, kinds, ranges, defaults and descriptions. What is read from
//! anywhere goes through it as text, and comes out as a [`Config`] that is valid as a whole, or as a
//! [`ConfigError`] that names everything that is wrong.

mod compression;
mod error;
mod file;
mod hooks;
mod keys;
mod kind;
mod listen;
mod llm;
mod load;
mod masking;
mod names;
mod older;
mod outputs;
mod parse;
mod prune;
mod show;
#[cfg(test)]
mod tests;
mod units;
mod value;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::context::{Scoring, Settings};
use crate::model::{Durability, TokenCounter};

pub use crate::telemetry::LogFormat;
pub use compression::Compression;
pub use contextstore_app::hooks::{HookSettings, HookTarget};
pub use contextstore_llm::{LlmSettings, ProviderSettings};
pub use error::{ConfigError, Origin, Problem};
pub use listen::{BadListen, Listen, MAX_SOCKET_PATH, loopback};
pub use load::{Flags, Setting};
pub use masking::Masking;
pub use show::{json, markdown, yaml};
pub(crate) use units::duration as parse_duration;
pub use value::Shown;

/// What a server is told. Immutable and valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where the service listens; empty: [`Config::listeners`] says.
    pub listen: Vec<Listen>,
    /// Where metrics and health are served over HTTP, if anywhere.
    pub admin_listen: Option<SocketAddr>,
    /// What a call over TCP must carry.
    pub tcp_auth: TcpAuth,
    /// The file that holds the token, if it is not made anew by every start.
    pub tcp_token_file: Option<PathBuf>,
    /// How far a record must have come before it is acknowledged, unless its task says otherwise.
    pub durability: Durability,
    /// What one caller, and all together, may take.
    pub limits: Limits,
    /// Who works on a task.
    pub lease: Lease,
    /// `tasks.db`.
    pub catalog: Catalog,
    /// Connections and the stop.
    pub server: Server,
    /// Tokens that models take, by name, or by the start of a name and `*`.
    pub models: Vec<(String, u64)>,
    /// How contexts are kept small, for tasks that say nothing else.
    pub context: Settings,
    /// How `prune` scores.
    pub scoring: Scoring,
    /// What compressing may take.
    pub compression: Compression,
    /// How tokens are counted.
    pub tokens: Tokens,
    /// The log of the process.
    pub log: Log,
    /// The outputs of tools on disk.
    pub outputs: Outputs,
    /// What is replaced before it is written.
    pub masking: Masking,
    /// Who is told what happens to tasks.
    pub hooks: HookSettings,
    /// Who is asked for an answer, and how.
    pub llm: LlmSettings,
}

/// What a call over TCP must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpAuth {
    /// The token of the data directory.
    Token,
    /// Nothing.
    None,
}

/// Why a word is no [`TcpAuth`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be token or none")]
pub struct BadTcpAuth;

impl FromStr for TcpAuth {
    type Err = BadTcpAuth;

    fn from_str(word: &str) -> Result<Self, BadTcpAuth> {
        [Self::Token, Self::None].into_iter().find(|auth| auth.as_str() == word).ok_or(BadTcpAuth)
    }
}

impl TcpAuth {
    /// As it is configured.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::None => "none",
        }
    }
}

/// What one caller, and all together, may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Largest message.
    pub message_bytes: usize,
    /// Of all requests that are being worked on.
    pub bytes_in_flight: usize,
    /// Calls at once on one connection.
    pub streams_per_connection: u32,
    /// Connections at once.
    pub connections: usize,
    /// Streaming reads at once.
    pub read_streams: usize,
    /// Tasks kept open at once.
    pub open_tasks: usize,
    /// Of one task; 0: no limit.
    pub task_bytes: u64,
    /// Of all tasks; 0: no limit.
    pub store_bytes: u64,
    /// How long a reader may take nothing before its call ends.
    pub read_idle: Duration,
}

/// Who works on a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// How long a lease lives without being renewed.
    pub ttl: Duration,
}

/// `tasks.db`.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    /// How long SQLite waits for another process, each time.
    pub busy_timeout: Duration,
    /// How often a busy catalog is tried again.
    pub retries: u32,
}

/// Connections and the stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// How long calls may go on after the server was told to stop.
    pub drain: Duration,
    /// How often a quiet connection is asked whether it lives.
    pub keepalive_interval: Duration,
    /// How long it may take to answer.
    pub keepalive_timeout: Duration,
}

/// The outputs of tools on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// How long after it was put last an output is packed; zero: never.
    pub pack_after: Duration,
}

/// How tokens are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Tokens {
    /// Unless a task says otherwise.
    pub counter: TokenCounter,
}

/// The log of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// What is logged: a filter in the syntax of tracing.
    pub level: String,
}

impl Config {
    /// The port of the service where nothing else is configured.
    pub const DEFAULT_PORT: u16 = 50551;

    /// The configuration of this process: its environment, under the flags it was given.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        Self::load_with(flags, std::env::vars_os()).map(|(config, _)| config)
    }

    /// Every key with its value in force and where that comes from, in the order of the table.
    pub fn describe(flags: &Flags) -> Result<Vec<Setting>, ConfigError> {
        Self::load_with(flags, std::env::vars_os()).map(|(_, settings)| settings)
    }

    /// Where the service listens: what is configured, or the socket in the data directory and a loopback port.
    pub fn listeners(&self) -> Vec<Listen> {
        if !self.listen.is_empty() {
            return self.listen.clone();
        }
        let port = SocketAddr::from((Ipv4Addr::LOCALHOST, Self::DEFAULT_PORT));
        vec![Listen::Unix(self.data_dir.join("contextstore.sock")), Listen::Tcp(port)]
    }

    /// Before anything is read. Every field is in the table, whose defaults come first.
    fn blank() -> Self {
        Self {
            data_dir: PathBuf::new(),
            listen: Vec::new(),
            admin_listen: None,
            tcp_auth: TcpAuth::Token,
            tcp_token_file: None,
            durability: Durability::Group,
            limits: Limits {
                message_bytes: 0,
                bytes_in_flight: 0,
                streams_per_connection: 0,
                connections: 0,
                read_streams: 0,
                open_tasks: 0,
                task_bytes: 0,
                store_bytes: 0,
                read_idle: Duration::ZERO,
            },
            lease: Lease { ttl: Duration::ZERO },
            catalog: Catalog { busy_timeout: Duration::ZERO, retries: 0 },
            server: Server {
                drain: Duration::ZERO,
                keepalive_interval: Duration::ZERO,
                keepalive_timeout: Duration::ZERO,
            },
            models: Vec::new(),
            context: Settings::default(),
            scoring: Scoring::default(),
            compression: Compression::blank(),
            tokens: Tokens { counter: TokenCounter::Fitted },
            log: Log { format: LogFormat::Text, level: String::new() },
            outputs: Outputs { pack_after: Duration::ZERO },
            masking: Masking::blank(),
            hooks: HookSettings::blank(),
            llm: LlmSettings::blank(),
        }
    }
}
