//! `contextstore config`: prints the configuration and the source of each value.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use serde_json::Value;

use super::Failure;
use crate::compress::prompt;
use crate::config::{self, Flags, Listen, Setting, TcpAuth};

/// The flags that configure a server.
#[derive(Debug, Args)]
pub(super) struct ConfigFlags {
    /// The configuration file [env: CONTEXTSTORE_CONFIG=]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory [default: contexts]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// An address of the service, can be repeated: unix:PATH or tcp:HOST:PORT on loopback [default:
    /// unix:DATA_DIR/contextstore.sock and tcp:127.0.0.1:50551]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Listen>,
    /// The address of /metrics and /healthz: HOST:PORT on loopback [default: none]
    #[arg(long, value_name = "ADDRESS", value_parser = config::loopback)]
    admin_listen: Option<SocketAddr>,
    /// The credentials of a call over TCP [default: token]
    #[arg(long, value_name = "token|none")]
    tcp_auth: Option<TcpAuth>,
}

impl From<ConfigFlags> for Flags {
    fn from(flags: ConfigFlags) -> Self {
        let ConfigFlags { config, data_dir, listen, admin_listen, tcp_auth } = flags;
        Self { config, data_dir, listen, admin_listen, tcp_auth }
    }
}

/// Prints every key with its effective value and the source of the value: default, file, environment or flag.
///
/// If the configuration is invalid, the command reports every problem and exits with 2.
#[derive(Debug, Args)]
pub(super) struct Config {
    #[command(flatten)]
    flags: ConfigFlags,
    /// The output format; yaml is a valid configuration file
    #[arg(long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
    /// Print the reference of all keys (docs/CONFIG.md) instead
    #[arg(long, conflicts_with_all = ["output", "config", "data_dir", "listen", "admin_listen", "tcp_auth"])]
    markdown: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Yaml,
    Json,
}

impl Config {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        if self.markdown {
            out.write_all(config::markdown().as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let settings: Vec<Setting> = config::Config::describe(&self.flags.into())?;
        match self.output {
            Output::Yaml => {
                out.write_all(config::yaml(&settings).as_bytes())?;
                out.write_all(built_in(&settings).as_bytes())?;
            }
            Output::Json => writeln!(out, "{:#}", with_built_in(config::json(&settings)))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds the built-in context lengths of models as comments.
fn built_in(settings: &[Setting]) -> String {
    let unset =
        |key: &str| settings.iter().any(|setting| setting.key == key && setting.value.json == Value::Null);
    let mut text = String::new();
    for (key, words) in prompt::defaults().into_iter().filter(|(key, _)| unset(key)) {
        text.push_str(&format!("\n# {key} is none: these words are used.\n"));
        for line in words.lines() {
            text.push_str(format!("#   {line}").trim_end());
            text.push('\n');
        }
    }
    text
}

/// Adds the built-in context lengths to the JSON output: `built_in` beside a null value.
fn with_built_in(mut settings: Value) -> Value {
    for setting in settings.as_array_mut().into_iter().flatten() {
        let words = prompt::defaults().into_iter().find(|(key, _)| setting["key"] == *key);
        if let Some((_, words)) = words.filter(|_| setting["value"].is_null()) {
            setting["built_in"] = words.into();
        }
    }
    settings
}
