//! A private server for scripts and tests: started, found ready, and stopped with the program.

use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::client::new_id;
use crate::config::SOCKET;
use crate::{Builder, Client, Error};

/// The variable that names the server's binary.
const BINARY: &str = "CONTEXTSTORE_BINARY";
/// `sockaddr_un` has 108 bytes, the last of them 0.
const LONGEST_SOCKET: usize = 107;
/// How long it may take to start, if nothing is said.
pub(crate) const STARTING: Duration = Duration::from_secs(30);
/// How long it may take to stop in order.
const STOPPING: Duration = Duration::from_secs(15);
/// How long the end of one that was killed is waited for.
const DYING: Duration = Duration::from_secs(1);
/// Bytes of what it said that an error tells.
const TOLD: u64 = 2000;
/// The file with what it says.
pub(crate) const LOG: &str = "server.log";
/// Who holds the leases in a directory of a private server: always the one program whose server it is. Under a name of its
/// own, each start would have to wait for the leases of the one before.
const INSTANCE: &str = "spawned";

/// Starts a private server and waits until it is ready; it ends when the answer is stopped or dropped, and with the program,
/// whatever ends that.
///
/// The binary is that which `CONTEXTSTORE_BINARY` names, or else the `contextstore` on the `PATH`. Its data is in a directory
/// of its own, which is removed with it, but stays behind in the folder for temporary files if this program is killed.
/// [`Spawn`] says more.
///
/// ```no_run
/// # async fn example() -> Result<(), contextstore_client::Error> {
/// let server = contextstore_client::spawn().await?;
/// let task = server.client().task_of("17").await?;
/// task.append(contextstore_client::NewMessage::user("hi")).await?;
/// server.stop().await?;
/// # Ok(())
/// # }
/// ```
pub async fn spawn() -> Result<Spawned, Error> {
    Spawn::default().start().await
}

/// How a private server is started.
///
/// ```no_run
/// # async fn example() -> Result<(), contextstore_client::Error> {
/// use contextstore_client::Spawn;
///
/// let server = Spawn::default().data_dir("contexts").env("CONTEXTSTORE_LEASE__TTL", "10s").start().await?;
/// println!("{}", server.client().server_info().await?.version);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Spawn {
    pub(crate) data_dir: Option<PathBuf>,
    binary: Option<PathBuf>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) client: Builder,
}

impl Spawn {
    /// Where it keeps everything. Without one, that is a directory of its own, which is removed with it.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// The server's binary.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// One more argument of `contextstore serve`.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// One more variable of its environment. Those of this program go to it too, but for those that begin with
    /// `CONTEXTSTORE_`: what they say is meant for other servers.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// How long it may take until it is ready. Without one: 30 seconds.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How its client is made, but for the address.
    pub fn client(mut self, client: Builder) -> Self {
        self.client = client;
        self
    }

    /// Starts it, and waits until it is ready. Must be called within a tokio runtime with I/O and time.
    #[expect(
        clippy::disallowed_methods,
        reason = "in a directory that was made here and is for this user only"
    )]
    pub async fn start(self) -> Result<Spawned, Error> {
        let program = self.program()?;
        let own = OwnDir::make().map_err(|error| failed("no directory could be made for it", &error))?;
        let data_dir = match &self.data_dir {
            Some(given) => {
                std::path::absolute(given).map_err(|error| failed("its data directory", &error))?
            }
            None => own.0.join("data"),
        };
        let socket = socket_in(&data_dir).unwrap_or_else(|| own.0.join(SOCKET));
        let log = own.0.join(LOG);
        let files = File::create_new(&log).and_then(|log| Ok((log.try_clone()?, log)));
        let files = files.map_err(|error| failed("its log", &error))?;
        // The pipe is there before the process: however this program ends, the server's input ends with it.
        let mut command = self.command(&program, &data_dir, &socket, &["--stop-with-stdin"], files);
        command.stdin(Stdio::piped()).kill_on_drop(true);
        let child = started(&program, command.spawn())?;
        let client = self.client.instance_id_or(INSTANCE).socket(socket).connect_lazy()?;
        let mut spawned = Spawned { client, data_dir, child, own };
        spawned.ready(&log, self.timeout.unwrap_or(STARTING)).await?;
        Ok(spawned)
    }

    /// The server's binary.
    pub(crate) fn program(&self) -> Result<PathBuf, Error> {
        match &self.binary {
            Some(binary) => Ok(binary.clone()),
            None => find_binary(|name| std::env::var_os(name).filter(|value| !value.is_empty())),
        }
    }

    /// The server as a command. Of an argument that is given twice the last one counts, so those of the user come last.
    pub(crate) fn command(
        &self,
        program: &Path,
        data_dir: &Path,
        socket: &Path,
        defaults: &[&str],
        (out, err): (File, File),
    ) -> Command {
        let inherited =
            std::env::vars_os().filter(|(name, _)| !name.as_bytes().starts_with(b"CONTEXTSTORE_"));
        let mut address = OsString::from("unix:");
        address.push(socket);
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(data_dir)
            .arg("--listen")
            .arg(address)
            .args(defaults)
            .args(&self.arguments)
            .env_clear()
            .envs(inherited)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // Ctrl-C is for this program, which may still have something to write.
            .process_group(0);
        command
    }
}

/// A server that belongs to this program. Made by [`spawn`] and [`Spawn`]. One that is dropped is killed, which its data
/// survives if it has a directory that stays.
pub struct Spawned {
    client: Client,
    data_dir: PathBuf,
    child: Child,
    own: OwnDir,
}

impl Spawned {
    /// A client of it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where it keeps everything.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Its process; `None` once that has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// A file with what it says. Removed with it.
    pub fn log(&self) -> PathBuf {
        self.own.0.join(LOG)
    }

    /// Waits for what was appended without waiting, as [`Client::close`] does, stops the server in order, and removes its
    /// data if no directory was given. Fails, when that is done, if messages were not appended.
    pub async fn stop(mut self) -> Result<(), Error> {
        let closed = self.client.close().await;
        // The end of its input asks it to end.
        drop(self.child.stdin.take());
        if tokio::time::timeout(STOPPING, self.child.wait()).await.is_err() {
            drop(self.child.kill().await);
        }
        closed
    }

    async fn ready(&mut self, log: &Path, timeout: Duration) -> Result<(), Error> {
        let end = Instant::now() + timeout;
        loop {
            let error = match self.is_it().await {
                Ok(true) => return Ok(()),
                Ok(false) => "another server is there".to_owned(),
                Err(error) => error.to_string(),
            };
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_none() && Instant::now() < end {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            let what = match ended {
                Some(status) => format!("it ended at once ({})", told(status)),
                None => format!("it is not ready after {timeout:?}: {error}"),
            };
            return Err(Error::Spawn { problem: format!("{what}: {}", words(log)) });
        }
    }

    /// Whether the server that answers is this one: another may be there whose directory it is.
    async fn is_it(&self) -> Result<bool, Error> {
        self.client.wait_until_ready(Duration::from_millis(200)).await?;
        Ok(Some(self.client.server_info().await?.process_id) == self.child.id())
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        drop(self.child.start_kill());
        // What it writes at its end would keep its directory from being removed.
        let end = Instant::now() + DYING;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl fmt::Debug for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned")
            .field("client", &self.client)
            .field("data_dir", &self.data_dir)
            .field("pid", &self.child.id())
            .finish_non_exhaustive()
    }
}

/// A directory that is removed when it is dropped.
pub(crate) struct OwnDir(pub(crate) PathBuf);

impl OwnDir {
    pub(crate) fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("contextstore-{}", new_id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for OwnDir {
    #[expect(clippy::disallowed_methods, reason = "it was made here, under a name that nobody else has")]
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The server's binary, by the environment.
fn find_binary(var: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    let problem = |problem: String| Error::Spawn { problem };
    if let Some(named) = var(BINARY).map(PathBuf::from) {
        return if can_be_run(&named) {
            Ok(named)
        } else {
            Err(problem(format!("{BINARY} is {}, which is no program that can be run", named.display())))
        };
    }
    let path = var("PATH").unwrap_or_default();
    // An empty part of it would be the current directory, which nobody has chosen.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let found = folders.map(|folder| folder.join("contextstore")).find(|file| can_be_run(file));
    found.ok_or_else(|| problem(format!("{BINARY} is not set, and there is no `contextstore` on the PATH")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program may be a link; whether it runs is seen when it is run"
)]
fn can_be_run(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The usual socket of a data directory, if a server can listen there.
pub(crate) fn socket_in(data_dir: &Path) -> Option<PathBuf> {
    let socket = data_dir.join(SOCKET);
    (socket.as_os_str().len() <= LONGEST_SOCKET && socket.to_str().is_some()).then_some(socket)
}

pub(crate) fn started(program: &Path, child: io::Result<Child>) -> Result<Child, Error> {
    child.map_err(|error| failed(&format!("{} cannot be run", program.display()), &error))
}

/// The end of what the server said.
#[expect(clippy::disallowed_methods, reason = "it was made here, and what is read is bounded")]
pub(crate) fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TOLD)))?;
    let mut said = Vec::new();
    file.take(TOLD).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The same in an error.
pub(crate) fn words(log: &Path) -> String {
    let said = tail(log).unwrap_or_default();
    if said.trim().is_empty() { "it said nothing".to_owned() } else { said.trim().to_owned() }
}

pub(crate) fn told(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

pub(crate) fn failed(what: &str, error: &io::Error) -> Error {
    Error::Spawn { problem: format!("{what}: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T: fmt::Debug>(answer: Result<T, Error>) -> String {
        answer.unwrap_err().to_string()
    }

    #[test]
    fn the_binary_is_found_by_the_environment() {
        let none = said(find_binary(|_| None));
        assert!(none.contains("CONTEXTSTORE_BINARY is not set"), "{none}");
        let var = |value: &'static str| move |name: &str| (name == BINARY).then(|| OsString::from(value));
        assert!(said(find_binary(var("/proc/self/status"))).contains("which is no program"));
        assert!(said(find_binary(var("/"))).contains("which is no program"));
        assert_eq!(find_binary(var("/bin/sh")).unwrap(), Path::new("/bin/sh"));
    }

    #[tokio::test]
    async fn one_that_does_not_start_says_why() {
        let missing = said(Spawn::default().binary("/gone/contextstore").start().await);
        assert!(missing.contains("/gone/contextstore cannot be run"), "{missing}");
        // A shell takes `serve` for a script that is not there.
        let ended = said(Spawn::default().binary("/bin/sh").start().await);
        assert!(ended.contains("it ended at once (exit code") && ended.contains("serve"), "{ended}");
    }
}
