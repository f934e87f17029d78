//! A server that the programs of a machine share: found where it runs, or else started, and left to itself.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::process::Child;

use crate::client::new_id;
use crate::config::SOCKET;
use crate::spawn::{LOG, OwnDir, STARTING, failed, socket_in, started, told, words};
use crate::token::is_held;
use crate::{Client, Error, Spawn};

/// How long the server waits for another client when the last one has gone.
const IDLE: &str = "30s";
/// How long one look at a server may take.
const LOOK: Duration = Duration::from_secs(1);
/// How often a server is started that ends at once.
const STARTS: u32 = 3;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Uses the server of a data directory, or starts one and waits until it answers; several programs share it.
///
/// The server belongs to none of them: it goes on when this program ends, and ends by itself 30 seconds after the last client
/// has gone. It says what it does in `server.log` of the directory. If the path of its socket there had more than 107 bytes, the
/// socket is in a temporary folder, which remains. [`Spawn::connect_or_start`] has the options.
///
/// ```no_run
/// # async fn example() -> Result<(), contextstore_client::Error> {
/// let client = contextstore_client::connect_or_spawn("contexts").await?;
/// let task = client.task_of("17").await?;
/// task.append(contextstore_client::NewMessage::user("hi")).await?;
/// client.close().await?;
/// # Ok(())
/// # }
/// ```
pub async fn connect_or_spawn(data_dir: impl AsRef<Path>) -> Result<Client, Error> {
    Spawn::default().data_dir(data_dir.as_ref()).connect_or_start().await
}

impl Spawn {
    /// Uses the server that holds the data directory, or starts one that is shared, and waits until it answers; see
    /// [`connect_or_spawn`]. Binary, arguments (such as another
    /// `--stop-when-idle`) and environment are for a server that is started. Without a data directory, it
    /// is that of [`Builder::env`](crate::Builder::env): `CONTEXTSTORE_DATA_DIR`, or else `contexts`.
    pub async fn connect_or_start(mut self) -> Result<Client, Error> {
        let given = self.data_dir.take().or_else(|| {
            std::env::var_os("CONTEXTSTORE_DATA_DIR").filter(|dir| !dir.is_empty()).map(Into::into)
        });
        let given = given.unwrap_or_else(|| "contexts".into());
        let data_dir = std::path::absolute(given).map_err(|error| failed("its data directory", &error))?;
        let limit = self.timeout.unwrap_or(STARTING);
        let end = Instant::now() + limit;
        let (mut own, mut starts) = (None::<Started>, 0);
        loop {
            let problem = match self.connect_in(&data_dir).await {
                Ok((client, pid)) => {
                    own.into_iter().for_each(|started| started.leave(pid, &data_dir));
                    return Ok(client);
                }
                Err(error) => error,
            };
            let ended = match &mut own {
                Some(started) => started.child.try_wait().ok().flatten(),
                None => None,
            };
            let log_end = || own.as_ref().map_or_else(|| words(&data_dir.join(LOG)), |own| words(&own.log.0));
            // Looking at the lock takes it for a moment, which can end a server that starts just then: so it is looked at
            // only before a start, and a start is tried again. Who holds the directory is waited for.
            if (own.is_none() || ended.is_some()) && !is_held(&data_dir) {
                if let Some(status) = ended.filter(|_| starts >= STARTS) {
                    let problem = format!("it ended at once ({}): {}", told(status), log_end());
                    return Err(Error::Spawn { problem });
                }
                own = Some(self.start_in(&data_dir)?);
                starts += 1;
            } else if Instant::now() >= end {
                let of = data_dir.display();
                let problem =
                    format!("that of {of} does not answer after {limit:?}: {problem}: {}", log_end());
                return Err(Error::Spawn { problem });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A client of the server that is in a directory now, and the server's process.
    async fn connect_in(&self, data_dir: &Path) -> Result<(Client, u32), Error> {
        let connecting = async {
            let client = self.client.clone().in_data_dir(data_dir).connect().await?;
            let info = client.server_info().await?;
            Ok((client, info.process_id))
        };
        tokio::time::timeout(LOOK, connecting).await.unwrap_or(Err(Error::Deadline { after: LOOK }))
    }

    fn start_in(&self, data_dir: &Path) -> Result<Started, Error> {
        let program = self.program()?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
        made.map_err(|error| failed("its data directory", &error))?;
        // A path that is too long for a socket: its address is written down in the directory.
        let (socket, own) = match socket_in(data_dir) {
            Some(socket) => (socket, None),
            None => {
                let own =
                    OwnDir::make().map_err(|error| failed("no directory could be made for it", &error))?;
                (own.0.join(SOCKET), Some(own))
            }
        };
        let (log, files) = Log::create(data_dir).map_err(|error| failed("its log", &error))?;
        let mut command = self.command(&program, data_dir, &socket, &["--stop-when-idle", IDLE], files);
        Ok(Started { child: started(&program, command.spawn())?, log, own })
    }
}

/// A server that was started, with its log, and the directory of its socket if it has one.
struct Started {
    child: Child,
    log: Log,
    own: Option<OwnDir>,
}

impl Started {
    /// Leaves it to itself; unless it was another server that came first.
    fn leave(self, serving: u32, data_dir: &Path) {
        if self.child.id() == Some(serving) {
            self.log.keep(&data_dir.join(LOG));
            std::mem::forget(self.own);
        }
    }
}

/// The log of a server that starts. It has a name of its own until that server holds the directory, as others may start at
/// the same time; a hidden one, as a server takes no directory that others have put something into.
struct Log(PathBuf);

#[expect(
    clippy::disallowed_methods,
    reason = "the user names the directory, and the file is for this user only"
)]
impl Log {
    fn create(data_dir: &Path) -> io::Result<(Self, (File, File))> {
        let log = Self(data_dir.join(format!(".{LOG}-{}", new_id())));
        let file = File::options().create_new(true).append(true).mode(0o600).open(&log.0)?;
        Ok((log, (file.try_clone()?, file)))
    }

    fn keep(mut self, name: &Path) {
        if std::fs::rename(&self.0, name).is_ok() {
            self.0 = PathBuf::new();
        }
    }
}

impl Drop for Log {
    #[expect(clippy::disallowed_methods, reason = "it was made here, under a name that nobody else has")]
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            drop(std::fs::remove_file(&self.0));
        }
    }
}
