//! The token that calls over TCP carry. One in a file is read for every call: a server that starts makes a new one.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::config::{ADDRESSES, read_small};
use crate::reach::no_server;
use crate::{Address, Error};

/// Names in a data directory.
const TOKEN: &str = "token";
const LOCK: &str = "LOCK";

/// Adds the token to every call.
#[derive(Clone, Default)]
pub struct Auth {
    token: Token,
}

#[derive(Clone, Default)]
enum Token {
    /// The server asks for none.
    #[default]
    None,
    Text(MetadataValue<Ascii>),
    File(PathBuf),
    /// The token of a server on this machine, sent only while one holds the directory and says that it listens at this
    /// address: somebody else may listen on the port of one that is dead.
    DataDir(PathBuf, Address),
}

impl Auth {
    /// A token that never changes.
    pub(crate) fn text(token: &str) -> Result<Self, Error> {
        let header = bearer(token).map_err(|problem| Error::config("token", problem))?;
        Ok(Self { token: Token::Text(header) })
    }

    /// A file, which must hold a token from the start.
    pub(crate) fn file(path: PathBuf) -> Result<Self, Error> {
        read(&path).map_err(|problem| Error::config("token_file", problem))?;
        Ok(Self { token: Token::File(path) })
    }

    /// The data directory of a server on this machine.
    pub(crate) fn data_dir(path: PathBuf, address: Address) -> Self {
        Self { token: Token::DataDir(path, address) }
    }

    pub(crate) fn has_token(&self) -> bool {
        !matches!(self.token, Token::None)
    }

    fn header(&self) -> Result<Option<MetadataValue<Ascii>>, Status> {
        match &self.token {
            Token::None => Ok(None),
            Token::Text(header) => Ok(Some(header.clone())),
            Token::File(path) => read(path)
                .map(Some)
                .map_err(|problem| Status::unauthenticated(format!("token_file {problem}"))),
            Token::DataDir(dir, address) => {
                let checked = check_held(dir).and_then(|()| check_listed(dir, address));
                checked.and_then(|()| read(&dir.join(TOKEN))).map(Some).map_err(|problem| {
                    no_server(format!("the token of {} is not sent: it {problem}", dir.display()))
                })
            }
        }
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("has_token", &self.has_token()).finish()
    }
}

impl Interceptor for Auth {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = self.header()? {
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}

/// The header with a token, which may end with a line end.
fn bearer(token: &str) -> Result<MetadataValue<Ascii>, String> {
    let token = token.strip_suffix('\n').map_or(token, |line| line.strip_suffix('\r').unwrap_or(line));
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("is empty or has characters other than visible ASCII".to_owned());
    }
    let mut header = MetadataValue::try_from(format!("Bearer {token}")).map_err(|error| error.to_string())?;
    header.set_sensitive(true);
    Ok(header)
}

fn read(path: &Path) -> Result<MetadataValue<Ascii>, String> {
    let text =
        read_small(path).map_err(|error| format!("has no token to read in {}: {error}", path.display()))?;
    bearer(&text).map_err(|problem| format!("has no token in {}: it {problem}", path.display()))
}

/// Fails unless the server of a data directory says that it listens at an address.
fn check_listed(dir: &Path, address: &Address) -> Result<(), String> {
    let listed = read_small(&dir.join(ADDRESSES)).unwrap_or_default();
    let mut known = listed.lines().filter_map(|line| line.parse::<Address>().ok());
    if known.any(|known| known.is_at(address)) {
        Ok(())
    } else {
        Err(format!("has a server, but its {ADDRESSES} do not name {address}"))
    }
}

/// Whether a server holds a data directory.
pub(crate) fn is_held(dir: &Path) -> bool {
    check_held(dir).is_ok()
}

/// Fails unless a server holds the lock of a data directory.
#[expect(clippy::disallowed_methods, reason = "the user names the directory, and nothing is read")]
fn check_held(dir: &Path) -> Result<(), String> {
    let held = File::open(dir.join(LOCK)).and_then(|lock| match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match held {
        Ok(true) => Ok(()),
        Ok(false) => Err("has no running server".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("has no running server".to_owned()),
        Err(error) => Err(format!("has a lock that cannot be checked: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(auth: &Auth) -> Result<String, String> {
        let request = auth.clone().call(Request::new(())).map_err(|status| status.message().to_owned())?;
        let header = request.metadata().get("authorization");
        Ok(header.map_or_else(String::new, |header| header.to_str().unwrap().to_owned()))
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of its own")]
    fn a_token_goes_out_only_while_a_server_holds_the_directory() {
        let dir = std::env::temp_dir().join(format!("contextstore-client-{}-held", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(TOKEN), "first-token\n").unwrap();
        let auth = Auth::data_dir(dir.clone(), "tcp:localhost:7600".parse().unwrap());
        assert!(sent(&auth).unwrap_err().ends_with("it has no running server"));
        let lock = File::create(dir.join(LOCK)).unwrap();
        assert!(sent(&auth).unwrap_err().ends_with("it has no running server"));
        lock.try_lock().unwrap();
        assert!(sent(&auth).unwrap_err().ends_with("its addresses do not name tcp:localhost:7600"));
        std::fs::write(dir.join(ADDRESSES), "unix:/s\ntcp:127.0.0.1:7601\n").unwrap();
        assert!(sent(&auth).is_err());
        std::fs::write(dir.join(ADDRESSES), "unix:/s\ntcp:127.0.0.1:7600\n").unwrap();
        assert_eq!(sent(&auth).unwrap(), "Bearer first-token");
        std::fs::write(dir.join(TOKEN), "second-token\n").unwrap();
        assert_eq!(sent(&auth).unwrap(), "Bearer second-token");
        drop(lock);
        assert!(sent(&auth).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
