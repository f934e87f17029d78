//! The outputs of tools: kept whole in `outputs/` of a task's directory, each under a name made of its content, with a
//! sparse index of its lines beside it. How they are written, shown, read, searched and packed.
//!
//! Knows files and bytes. When an output may be put or go, and under which lock, is the store's.

mod content;
mod decode;
mod grep;
mod id;
mod media;
mod meta;
mod pack;
mod read;
mod tally;
mod view;

pub use content::Content;
pub use grep::{BadPattern, Found, Grep, GrepOptions, LEAST_TIME, Matches, Searched};
pub use id::{OutputId, OutputName};
pub use media::MediaKind;
pub use meta::{Meta, OutputHead, Written};
pub use pack::{PACK_FROM, pack};
pub use read::{Lines, Raw, Step};
pub use tally::{Counted, Tally};
pub use view::{View, ViewLimits, ViewMaker};

use crate::infra::fs::Name;

/// The beginning of the name of a file that is being written.
const PUT: &str = "put-";
/// The ending of the name of a packed output.
const PACKED: &str = ".zst";
/// The ending of the name of an output's index.
const META: &str = ".meta";

/// The kind of a file in `outputs/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The bytes of an output.
    Plain(OutputId),
    /// The same, packed.
    Packed(OutputId),
    /// Its index.
    Meta(OutputId),
    /// Something that is being written, or that a call which broke off has left.
    Put,
}

impl Entry {
    /// Returns what a name stands for; `None` for what is nobody's.
    pub fn of(name: &Name) -> Option<Self> {
        let name = name.as_str();
        if name.starts_with(PUT) {
            return Some(Self::Put);
        }
        if let Some(id) = name.strip_suffix(PACKED) {
            return OutputId::parse(id).map(Self::Packed);
        }
        if let Some(id) = name.strip_suffix(META) {
            return OutputId::parse(id).map(Self::Meta);
        }
        OutputId::parse(name).map(Self::Plain)
    }
}

/// The names of two new files: of bytes and of their index, while they are written.
pub fn put_names() -> (Name, Name) {
    let name = Name::from(uuid::Uuid::now_v7()).with_prefix(PUT);
    let meta = name.with_suffix(META);
    (name, meta)
}
