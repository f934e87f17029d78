//! Small files at the top of a data directory, for callers on this machine: the token, and where the server listens.

use uuid::Uuid;

use super::files::{self, Sync};
use super::{Store, layout};
use crate::infra::fs::StorePath;
use crate::model::StoreError;

impl Store {
    /// The token that callers over TCP must carry; made when it is first asked for.
    pub fn token(&self) -> Result<String, StoreError> {
        let fs = self.shared.env.fs.as_ref();
        let path = StorePath::ROOT.join(layout::TOKEN);
        if let Some(found) = files::read_small(fs, &path, 4096)? {
            let token = String::from_utf8_lossy(&found).trim().to_owned();
            if token.len() >= 16 && token.bytes().all(|byte| byte.is_ascii_graphic()) {
                let private = fs.make_private(&path);
                private.map_err(|error| StoreError::io(format!("making {path} private"), error))?;
                return Ok(token);
            }
            let problem = "is no token: at least 16 visible ASCII characters, or remove it".to_owned();
            return Err(StoreError::BadDataDir { path: path.to_string(), problem });
        }
        // Each has 122 random bits of the system's generator.
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        files::replace(fs, &path, format!("{token}\n").as_bytes(), Sync::Contents)?;
        Ok(token)
    }

    /// Writes down where the server listens; none: nowhere any more.
    pub fn note_addresses(&self, addresses: &[String]) -> Result<(), StoreError> {
        let fs = self.shared.env.fs.as_ref();
        let path = StorePath::ROOT.join(layout::ADDRESSES);
        if addresses.is_empty() {
            let removed = files::remove_if_there(fs, &path);
            return removed.map_err(|error| StoreError::io(format!("removing {path}"), error));
        }
        let text: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        files::replace(fs, &path, text.as_bytes(), Sync::No)
    }
}
