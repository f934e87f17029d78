//! What several tests of this layer need.

use crate::context::{Policy, ServerPolicy};
use crate::infra::fs::disk::DiskFs;
use crate::infra::fs::{Name, Open, StorePath};
use crate::model::TaskConfig;

use super::MessageFile;

/// Material of lines, in a file that has lost its name.
pub(super) fn material_of(lines: &str) -> MessageFile {
    let place = tempfile::tempdir().unwrap();
    let path = StorePath::ROOT.join(Name::fixed("to_summarize.jsonl"));
    let file = DiskFs::open(place.path()).unwrap().open(&path, Open::New).unwrap();
    file.write_all_at(lines.as_bytes(), 0).unwrap();
    MessageFile::new(file, lines.len() as u64)
}

/// A policy of which nobody says anything.
pub(super) fn policy() -> Policy {
    Policy::resolve(None, &TaskConfig::default(), &ServerPolicy::default())
}
