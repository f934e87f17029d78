//! Packing an output that is not read much any more: zstd, in frames that stand for themselves.

use std::io;

use super::OutputId;
use super::content::{Content, FRAME, SEEKABLE_MAGIC, TABLE_MAGIC, damaged};
use super::tally::Tally;
use crate::infra::fs::File;

/// Outputs that are smaller stay as they are: a file takes a block anyway.
pub const PACK_FROM: u64 = 16 << 10;
/// Much of what can be gained, at a speed that does not matter.
const LEVEL: i32 = 3;

/// Writes an output packed to a new file and syncs it. It is looked at on the way: what is not what was put is not packed.
pub fn pack(content: &mut Content, id: OutputId, to: &dyn File) -> io::Result<u64> {
    let mut packer = zstd::bulk::Compressor::new(LEVEL)?;
    packer.include_checksum(true)?;
    let (mut tally, mut table, mut at) = (Tally::default(), Vec::new(), 0);
    let mut frame = vec![0; FRAME];
    loop {
        let mut filled = 0;
        while filled < frame.len() {
            match content.read_at(&mut frame[filled..], tally.bytes() + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        if filled == 0 {
            break;
        }
        tally.push(&frame[..filled]);
        let packed = packer.compress(&frame[..filled])?;
        to.write_all_at(&packed, at)?;
        at += packed.len() as u64;
        for size in [packed.len(), filled] {
            let size = u32::try_from(size).map_err(|_| damaged("a frame is too large"))?;
            table.extend_from_slice(&size.to_le_bytes());
        }
    }
    if !id.is_of(&tally.finish().hash) {
        return Err(damaged("its hash is another than its name"));
    }
    let count = u32::try_from(table.len() / 8).map_err(|_| damaged("it has too many frames"))?;
    let size = u32::try_from(table.len() + 9).map_err(|_| damaged("it has too many frames"))?;
    let mut end = Vec::with_capacity(table.len() + 17);
    end.extend_from_slice(&TABLE_MAGIC.to_le_bytes());
    end.extend_from_slice(&size.to_le_bytes());
    end.extend_from_slice(&table);
    end.extend_from_slice(&count.to_le_bytes());
    end.push(0);
    end.extend_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
    to.write_all_at(&end, at)?;
    to.sync_data()?;
    Ok(at + end.len() as u64)
}
