//! Files of the operator that hold a secret: an API key, a token.

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::net::user_id;

/// Largest file of a secret.
const MAX_BYTES: u64 = 16 << 10;

/// Reads a private file: owned by this user or root, and not readable by everyone.
#[expect(clippy::disallowed_methods, reason = "a file of the operator, outside the data directory")]
pub fn read(path: &Path) -> io::Result<String> {
    let file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.permissions().mode();
    if mode & 0o007 != 0 {
        let problem = format!("everybody may read or write it (mode {:o}); make it 0600", mode & 0o777);
        return Err(io::Error::other(problem));
    }
    let (owner, user) = (metadata.uid(), user_id());
    if owner != user && owner != 0 {
        let problem = format!("it belongs to user {owner}; it must belong to user {user} or root");
        return Err(io::Error::other(problem));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}
