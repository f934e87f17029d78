//! The server or directory that a command uses: from flags, the environment, and the socket in a data directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use contextstore_client::{Address, Builder, Client, RetryPolicy, Task};
use tokio::runtime::Runtime;

use super::Failure;
use super::reader::runtime;
use crate::model::TaskId;

/// Default data directory.
const DATA_DIR: &str = "contexts";
/// Time-out of a connection; a person waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The flags that select a server. Flags take precedence over the environment, and an address over a data directory.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The address of the server: unix:PATH or tcp:HOST:PORT [env: CONTEXTSTORE_ADDRESS] [default: the address that
    /// the server of the data directory has published there]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    address: Option<String>,
    /// The data directory [env: CONTEXTSTORE_DATA_DIR] [default: contexts]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// The credentials for calls over TCP.
#[derive(Debug, Args)]
pub(super) struct Access {
    /// A file with the token for calls over TCP [env: CONTEXTSTORE_TOKEN_FILE, or the token itself in
    /// CONTEXTSTORE_TOKEN] [default: the token in the data directory, unless only --address is given]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

fn address(text: &str) -> Result<String, contextstore_client::Error> {
    text.parse::<Address>().map(|_| text.to_owned())
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}

impl Target {
    /// Returns the target of the flags and the environment of this process.
    pub(super) fn place(&self) -> Place {
        self.place_in(variable)
    }

    /// Connects to a running server and returns a task to change, under the current lease: a person at a terminal
    /// acts for the holder.
    pub(super) fn held(&self, access: &Access, id: TaskId) -> Result<(Runtime, Task), Failure> {
        let runtime = runtime()?;
        let task = runtime.block_on(async {
            let client = self.place().client(access).connect().await?;
            let lease = client.get_task(id.to_string()).await?.task.and_then(|task| task.lease);
            let generation = lease.map_or(0, |lease| lease.generation);
            Ok::<_, contextstore_client::Error>(client.task_under(id.to_string(), generation))
        })?;
        Ok((runtime, task))
    }

    fn place_in(&self, variable: impl Fn(&str) -> Option<OsString>) -> Place {
        // A directory from a flag takes precedence over an address from the environment.
        let elsewhere = || variable("CONTEXTSTORE_ADDRESS").map(text).filter(|_| self.data_dir.is_none());
        Place {
            address: self.address.clone().or_else(elsewhere),
            data_dir: self.data_dir.clone().or_else(|| variable("CONTEXTSTORE_DATA_DIR").map(PathBuf::from)),
        }
    }
}

/// The target of a command: an address, or a data directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    address: Option<String>,
    data_dir: Option<PathBuf>,
}

impl Place {
    /// Returns the directory to open if no server uses it; `None` for an address.
    pub(super) fn directory(&self) -> Option<&Path> {
        if self.address.is_some() {
            None
        } else {
            Some(self.data_dir.as_deref().unwrap_or(Path::new(DATA_DIR)))
        }
    }

    /// Returns a client without a token and without retries.
    pub(super) fn probe(&self) -> Builder {
        let client = Client::builder().timeout(TIMEOUT).retry(RetryPolicy::none());
        match (&self.address, self.directory()) {
            (Some(address), _) => client.address(address),
            (None, Some(dir)) => client.data_dir(dir),
            (None, None) => client,
        }
    }

    /// Returns a client for all calls.
    pub(super) fn client(&self, access: &Access) -> Builder {
        let client = self.probe().retry(RetryPolicy { attempts: 4, ..RetryPolicy::default() });
        let client = match &self.data_dir {
            Some(dir) => client.data_dir(dir),
            None => client,
        };
        if let Some(file) = &access.token_file {
            client.token_file(file)
        } else if let Some(token) = variable("CONTEXTSTORE_TOKEN") {
            client.token(text(token))
        } else if let Some(file) = variable("CONTEXTSTORE_TOKEN_FILE") {
            client.token_file(file)
        } else {
            client
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(
        address: Option<&str>,
        dir: Option<&str>,
        env: &[(&str, &str)],
    ) -> (Option<String>, Option<PathBuf>) {
        let target = Target { address: address.map(str::to_owned), data_dir: dir.map(PathBuf::from) };
        let found =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        let place = target.place_in(found);
        let directory = place.directory().map(Path::to_owned);
        (place.address, directory)
    }

    #[test]
    fn flags_win_over_the_environment_and_addresses_over_directories() {
        let both = [("CONTEXTSTORE_ADDRESS", "unix:/e"), ("CONTEXTSTORE_DATA_DIR", "/env")];
        let at = |address: &str| (Some(address.to_owned()), None);
        let within = |dir: &str| (None, Some(PathBuf::from(dir)));
        assert_eq!(place(None, None, &[]), within("contexts"));
        assert_eq!(place(None, None, &both[1..]), within("/env"));
        assert_eq!(place(None, None, &both), at("unix:/e"));
        assert_eq!(place(None, Some("/flag"), &both), within("/flag"));
        assert_eq!(place(Some("unix:/f"), None, &both), at("unix:/f"));
        assert_eq!(place(Some("unix:/f"), Some("/flag"), &both), at("unix:/f"));
    }
}
