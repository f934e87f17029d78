//! Small files at the top of a data directory, for callers on this machine: the token, and where the server listens.

use uuid::Uuid;

use super::files::{self, Sync};
use super::{Store, layout};
use crate::infra::fs::StorePath;
use crate::infra::net::user_id;
use crate::model::StoreError;

/// The problem of a text that is not a token.
pub const NOT_A_TOKEN: &str = "is no token: at least 16 visible ASCII characters";

/// Returns whether a text can be a token.
pub fn is_token(text: &str) -> bool {
    text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Store {
    /// The token that callers over TCP must carry from now on: the one that is configured, or a new one. Where nothing can
    /// be written it is the one that is there.
    pub fn renew_token(&self, configured: Option<String>) -> Result<String, StoreError> {
        let fs = self.shared.env.fs.as_ref();
        let path = StorePath::ROOT.join(layout::TOKEN);
        let bad = |problem| StoreError::BadDataDir { path: path.to_string(), problem };
        let stat = fs.stat(&path).map_err(|error| StoreError::io(format!("looking at {path}"), error))?;
        if let Some(owner) = stat.map(|stat| stat.owner).filter(|owner| *owner != user_id()) {
            return Err(bad(format!("belongs to user {owner}, not to the user of the server: remove it")));
        }
        // Each has 122 random bits of the system's generator.
        let random = || format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let is_configured = configured.is_some();
        let token = configured.unwrap_or_else(random);
        match files::replace(fs, &path, format!("{token}\n").as_bytes(), Sync::Contents) {
            Ok(()) => Ok(token),
            Err(error) if self.read_only().is_some() && !is_configured => {
                let found = files::read_small(fs, &path, 4096)?.ok_or(error)?;
                let token = String::from_utf8_lossy(&found).trim().to_owned();
                if is_token(&token) { Ok(token) } else { Err(bad(NOT_A_TOKEN.to_owned())) }
            }
            Err(error) if self.read_only().is_some() => {
                tracing::warn!(%error, "the token could not be written to the data directory");
                Ok(token)
            }
            Err(error) => Err(error),
        }
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
