//! The bytes of an output, whether they are stored as they are, packed, or those of a message: read at any place, without
//! what is before it.
//!
//! A packed output is in zstd's seekable format: frames that stand for themselves, and a table of them at the end. So
//! `zstd -d` reads it too.

use std::io;
use std::sync::Arc;

use super::OutputId;
use super::meta::{Checksums, Meta};
use super::tally::{BLOCK, Counted, Tally};
use crate::infra::fs::{File, Fs, Open, StorePath, optional};
use crate::log::read_exact_at;

/// Bytes that a frame of a packed output stands for; the last may stand for less.
pub(super) const FRAME: usize = 256 << 10;
/// A frame that is not data: the table.
pub(super) const TABLE_MAGIC: u32 = 0x184D_2A5E;
/// The end of a seekable file.
pub(super) const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Number of frames, a descriptor, the magic number.
const FOOTER: u64 = 9;
/// Sizes of a frame, packed and not.
const ENTRY: u64 = 8;
/// Bytes that are read at once to look through an output.
const CHUNK: usize = 256 << 10;

/// The bytes of one output.
#[derive(Debug)]
pub struct Content {
    len: u64,
    on_disk: u64,
    from: ContentSource,
    check: Option<ContentCheck>,
}

/// Checks every block of a file before any of it is handed out. Frames of packed outputs have checksums of their own.
#[derive(Debug)]
struct ContentCheck {
    checksums: Checksums,
    /// The block that was read last, and where it begins.
    block: Vec<u8>,
    at: u64,
}

/// The source of bytes.
#[derive(Debug)]
enum ContentSource {
    File(Arc<dyn File>),
    Packed(Packed),
    Memory(Arc<[u8]>),
}

#[derive(Debug)]
struct Packed {
    file: Arc<dyn File>,
    frames: Arc<[PackFrame]>,
    /// The frame that was read last.
    at: usize,
    bytes: Vec<u8>,
}

/// The beginning of a frame, in the file and in the unpacked bytes.
#[derive(Debug, Clone, Copy)]
struct PackFrame {
    at: u64,
    stands_at: u64,
}

impl Content {
    /// Opens an output in a directory; `None` if it is not there.
    pub fn open(fs: &dyn Fs, dir: &StorePath, id: OutputId) -> io::Result<Option<Self>> {
        if let Some(file) = optional(fs.open(&dir.join(id.plain()), Open::Read))? {
            let len = file.len()?;
            return Ok(Some(Self { len, on_disk: len, from: ContentSource::File(file), check: None }));
        }
        optional(fs.open(&dir.join(id.packed()), Open::Read))?.map(Self::packed).transpose()
    }

    fn packed(file: Arc<dyn File>) -> io::Result<Self> {
        let on_disk = file.len()?;
        let torn = || damaged("its table of frames is damaged");
        let mut footer = [0; FOOTER as usize];
        let footer_at = on_disk.checked_sub(FOOTER).ok_or_else(torn)?;
        read_exact_at(file.as_ref(), &mut footer, footer_at)?;
        let count = u64::from(word(&footer, 0));
        if word(&footer, 5) != SEEKABLE_MAGIC || footer[4] != 0 {
            return Err(torn());
        }
        let table_at = footer_at.checked_sub(count * ENTRY).ok_or_else(torn)?;
        let mut table = vec![0; usize::try_from(count * ENTRY).map_err(|_| torn())?];
        read_exact_at(file.as_ref(), &mut table, table_at)?;
        let mut frames = Vec::with_capacity(table.len() / 8 + 1);
        let mut next = PackFrame { at: 0, stands_at: 0 };
        for entry in table.chunks_exact(8) {
            frames.push(next);
            next.at += u64::from(word(entry, 0));
            next.stands_at += u64::from(word(entry, 4));
        }
        frames.push(next);
        // The table has a head of its own.
        if next.at + 8 != table_at {
            return Err(torn());
        }
        let packed = Packed { file, frames: frames.into(), at: usize::MAX, bytes: Vec::new() };
        Ok(Self { len: next.stands_at, on_disk, from: ContentSource::Packed(packed), check: None })
    }

    /// Bytes that were read already, as those of a message.
    pub fn here(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, on_disk: 0, from: ContentSource::Memory(bytes.into()), check: None }
    }

    /// Checks all that is read from now on by the checksums of its blocks, if there are any.
    pub fn check_by(&mut self, meta: &Meta) {
        let check = |checksums| ContentCheck { checksums, block: Vec::new(), at: u64::MAX };
        self.check = meta.checksums().map(check);
    }

    /// Reads without checks from now on: for one who checks the whole.
    pub fn uncheck(&mut self) {
        self.check = None;
    }

    /// Bytes of the output.
    #[expect(clippy::len_without_is_empty, reason = "an output without bytes is one like any other")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of its file.
    pub fn on_disk(&self) -> u64 {
        self.on_disk
    }

    /// Returns whether it is stored packed.
    pub fn is_packed(&self) -> bool {
        matches!(self.from, ContentSource::Packed(_))
    }

    /// Reads up to `buf.len()` bytes; 0 only at the end.
    pub fn read_at(&mut self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.len {
            return Ok(0);
        }
        let bytes = match (&mut self.from, &mut self.check) {
            (ContentSource::File(file), Some(check)) => check.bytes_at(file.as_ref(), self.len, offset)?,
            (ContentSource::File(file), None) => {
                let most = usize::try_from(self.len - offset).unwrap_or(usize::MAX).min(buf.len());
                return match file.read_at(&mut buf[..most], offset)? {
                    0 if most > 0 => Err(damaged("it is shorter than it was")),
                    read => Ok(read),
                };
            }
            (ContentSource::Packed(packed), _) => packed.bytes_at(offset)?,
            (ContentSource::Memory(bytes), _) => &bytes[usize::try_from(offset).unwrap_or(usize::MAX)..],
        };
        let read = bytes.len().min(buf.len());
        buf[..read].copy_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Looks through the whole of it.
    pub fn count(&mut self) -> io::Result<Counted> {
        let mut tally = Tally::default();
        let mut buf = vec![0; CHUNK];
        loop {
            match self.read_at(&mut buf, tally.bytes())? {
                0 => return Ok(tally.finish()),
                read => tally.push(&buf[..read]),
            }
        }
    }
}

impl ContentCheck {
    /// The bytes from an offset on, up to the end of the block that they are in.
    fn bytes_at(&mut self, file: &dyn File, len: u64, offset: u64) -> io::Result<&[u8]> {
        let at = offset - offset % BLOCK as u64;
        if self.at != at {
            // Nothing is there until all of it is.
            self.at = u64::MAX;
            let size = usize::try_from(len - at).unwrap_or(usize::MAX).min(BLOCK);
            self.block.resize(size, 0);
            read_exact_at(file, &mut self.block, at)?;
            if self.checksums.of(at / BLOCK as u64)? != Some(crc32fast::hash(&self.block)) {
                return Err(damaged(&format!("the bytes from {at} on are not what was put")));
            }
            self.at = at;
        }
        let skipped = usize::try_from(offset - at).unwrap_or(usize::MAX);
        Ok(self.block.get(skipped..).unwrap_or_default())
    }
}

impl Packed {
    /// The bytes from an offset on, up to the end of the frame that they are in.
    fn bytes_at(&mut self, offset: u64) -> io::Result<&[u8]> {
        let behind = self.frames.partition_point(|frame| frame.stands_at <= offset);
        let at = behind.saturating_sub(1);
        let (Some(frame), Some(next)) = (self.frames.get(at), self.frames.get(at + 1)) else {
            return Err(damaged("its table of frames is damaged"));
        };
        if self.at != at {
            // Nothing is there until all of it is.
            self.at = usize::MAX;
            let stands = usize::try_from(next.stands_at - frame.stands_at).unwrap_or(usize::MAX);
            let packed = usize::try_from(next.at - frame.at).unwrap_or(usize::MAX);
            // A table that is damaged may ask for anything.
            if stands > FRAME || packed > 2 * FRAME {
                return Err(damaged("its table of frames is damaged"));
            }
            let mut bytes = vec![0; packed];
            read_exact_at(self.file.as_ref(), &mut bytes, frame.at)?;
            self.bytes.clear();
            self.bytes.reserve(stands);
            let unpacked = zstd::bulk::Decompressor::new()
                .and_then(|mut unpacker| unpacker.decompress_to_buffer(&bytes, &mut self.bytes));
            if unpacked.map_err(|error| damaged(&error.to_string()))? != stands {
                return Err(damaged("a frame is shorter than it was"));
            }
            self.at = at;
        }
        let skipped = usize::try_from(offset - frame.stands_at).unwrap_or(usize::MAX);
        Ok(self.bytes.get(skipped..).unwrap_or_default())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Bytes that are not what was put.
pub(super) fn damaged(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
