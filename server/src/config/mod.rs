//! The configuration of a server: defaults, then a YAML file, then the environment, then flags.
//!
//! The table in `keys.rs` is the single source of names, kinds, ranges, defaults and descriptions. Every source
//! passes through it as text and becomes a valid [`Config`], or a [`ConfigError`] that lists every problem.

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

/// The configuration of a server. Immutable and valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The configured addresses of the service. If empty, [`Config::listeners`] returns the defaults.
    pub listen: Vec<Listen>,
    /// The address for metrics and health over HTTP.
    pub admin_listen: Option<SocketAddr>,
    /// The credentials that a call over TCP must carry.
    pub tcp_auth: TcpAuth,
    /// The file with a fixed token; without one, every start makes a new token.
    pub tcp_token_file: Option<PathBuf>,
    /// The default durability of a record before it is acknowledged.
    pub durability: Durability,
    /// Limits for one caller and for all callers together.
    pub limits: Limits,
    /// Settings of leases.
    pub lease: Lease,
    /// Settings of `tasks.db`.
    pub catalog: Catalog,
    /// Settings of connections and of shutdown.
    pub server: Server,
    /// Context lengths by model name, or by the start of a name and `*`.
    pub models: Vec<(String, u64)>,
    /// Compression settings of tasks that set none.
    pub context: Settings,
    /// Scoring of `prune`.
    pub scoring: Scoring,
    /// Limits of compression.
    pub compression: Compression,
    /// Token counting.
    pub tokens: Tokens,
    /// The log of the process.
    pub log: Log,
    /// Storage of tool outputs.
    pub outputs: Outputs,
    /// Masking of secrets.
    pub masking: Masking,
    /// Hooks for events of tasks.
    pub hooks: HookSettings,
    /// Settings of the LLM gateway.
    pub llm: LlmSettings,
}

/// The credentials that a call over TCP must carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpAuth {
    /// The token in the data directory.
    Token,
    /// No credentials.
    None,
}

/// Error for a word that is no [`TcpAuth`].
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
    /// Returns the word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::None => "none",
        }
    }
}

/// Limits for one caller and for all callers together.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Largest message, in bytes.
    pub message_bytes: usize,
    /// Bytes of all requests in progress.
    pub bytes_in_flight: usize,
    /// Concurrent calls per connection.
    pub streams_per_connection: u32,
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrent streaming reads.
    pub read_streams: usize,
    /// Tasks that stay open at the same time.
    pub open_tasks: usize,
    /// Bytes of one task; 0 for no limit.
    pub task_bytes: u64,
    /// Bytes of all tasks; 0 for no limit.
    pub store_bytes: u64,
    /// Time after which a call ends whose reader takes nothing.
    pub read_idle: Duration,
}

/// Settings of leases.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// Lifetime of a lease that is not renewed.
    pub ttl: Duration,
}

/// Settings of `tasks.db`.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    /// Time that SQLite waits for another process, per try.
    pub busy_timeout: Duration,
    /// Retries for a busy catalog.
    pub retries: u32,
}

/// Settings of connections and of shutdown.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Time that running calls have to end after the server starts to stop.
    pub drain: Duration,
    /// Interval of keepalive pings on a quiet connection.
    pub keepalive_interval: Duration,
    /// Time-out of a keepalive ping.
    pub keepalive_timeout: Duration,
}

/// Storage of tool outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// Time from the last write of an output until it is compressed on disk; zero for never.
    pub pack_after: Duration,
}

/// Token counting.
#[derive(Debug, Clone, PartialEq)]
pub struct Tokens {
    /// The counter for tasks that set none.
    pub counter: TokenCounter,
}

/// The log of the process.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// Format of a line.
    pub format: LogFormat,
    /// Filter, in the syntax of tracing.
    pub level: String,
}

impl Config {
    /// Default TCP port of the service.
    pub const DEFAULT_PORT: u16 = 50551;

    /// Returns the configuration of this process: its environment, overridden by its flags.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        Self::load_with(flags, std::env::vars_os()).map(|(config, _)| config)
    }

    /// Returns every key with its effective value and the source of that value, in the order of the table.
    pub fn describe(flags: &Flags) -> Result<Vec<Setting>, ConfigError> {
        Self::load_with(flags, std::env::vars_os()).map(|(_, settings)| settings)
    }

    /// Returns the addresses of the service: the configured ones, or the socket in the data directory and a loopback
    /// port.
    pub fn listeners(&self) -> Vec<Listen> {
        if !self.listen.is_empty() {
            return self.listen.clone();
        }
        let port = SocketAddr::from((Ipv4Addr::LOCALHOST, Self::DEFAULT_PORT));
        vec![Listen::Unix(self.data_dir.join("contextstore.sock")), Listen::Tcp(port)]
    }

    /// Returns an empty configuration. The defaults of the table fill every field.
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
