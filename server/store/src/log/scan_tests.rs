//! Scanning against a naive split, at the edges of chunks.

use std::io;
use std::sync::Arc;

use super::super::line::{Head, begin, seal};
use super::*;
use crate::infra::fs::File;

/// A file in memory that gives at most so many bytes a read.
#[derive(Debug)]
struct Bytes(Vec<u8>, usize);

impl File for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap().min(self.0.len());
        let count = buf.len().min(self.0.len() - from).min(self.1);
        buf[..count].copy_from_slice(&self.0[from..from + count]);
        Ok(count)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

fn file(bytes: &[u8], at_once: usize) -> Arc<dyn File> {
    Arc::new(Bytes(bytes.to_vec(), at_once))
}

type ViewMessage = Vec<(u64, Result<Vec<u8>, BadLine>)>;

fn forward(bytes: &[u8], at_once: usize) -> ViewMessage {
    let mut lines = Forward::new(file(bytes, at_once), 0, bytes.len() as u64);
    let mut seen = Vec::new();
    while let Some(found) = lines.next().unwrap() {
        seen.push((found.offset, found.bytes.map(<[u8]>::to_vec)));
    }
    seen
}

fn naive(bytes: &[u8]) -> ViewMessage {
    let mut seen = Vec::new();
    let mut at = 0;
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = part.strip_suffix(b"\n").map(<[u8]>::to_vec).ok_or(BadLine::Torn);
        seen.push((at, line));
        at += part.len() as u64;
    }
    seen
}

#[test]
fn both_ways_see_the_lines_that_a_split_sees() {
    let long = vec![b'x'; CHUNK * 2 + 17];
    let texts: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\n".to_vec(),
        b"\n\n".to_vec(),
        b"one\n".to_vec(),
        b"one\ntwo\nthree\n".to_vec(),
        [&vec![b'a'; CHUNK - 1][..], b"\n", b"b\n"].concat(),
        [&vec![b'a'; CHUNK][..], b"\n", b"b\n"].concat(),
        [b"s\n", &long[..], b"\n", &long[..], b"\nend\n"].concat(),
    ];
    for text in &texts {
        for at_once in [1 << 20, 7, CHUNK - 1] {
            if at_once == 7 && text.len() > 1000 {
                continue;
            }
            assert_eq!(forward(text, at_once), naive(text));
            let mut back = Backward::new(file(text, at_once), text.len() as u64);
            let mut seen = Vec::new();
            while let Some((offset, line)) = back.previous().unwrap() {
                seen.push((offset, Ok(line)));
            }
            seen.reverse();
            assert_eq!(seen, naive(text));
        }
    }
}

#[test]
fn what_has_no_line_end_is_torn() {
    assert_eq!(forward(b"one\ntw", 3), naive(b"one\ntw"));
}

#[test]
fn a_run_longer_than_any_line_is_passed_over() {
    let bytes = [&vec![0; MAX_LINE_BYTES + CHUNK][..], b"\nafter\n"].concat();
    let seen = forward(&bytes, 1 << 20);
    assert_eq!(seen[0], (0, Err(BadLine::TooLong)));
    assert_eq!(seen[1].1, Ok(b"after".to_vec()));
}

fn log_line(number: u64, durable_to: u64) -> Vec<u8> {
    let mut line =
        begin(LogKind::Tools, Head::Record { number, after: None }, chrono::DateTime::UNIX_EPOCH, durable_to);
    seal(&mut line);
    line
}

#[test]
fn damage_was_acknowledged_if_a_later_line_knew_it() {
    let first = log_line(1, 0);
    let second = log_line(2, 0);
    let behind = (first.len() + second.len()) as u64;
    let verdict = |bytes: &[u8], known| {
        check_tail(LogKind::Tools, &file(bytes, 1 << 20), first.len() as u64, bytes.len() as u64, known)
            .unwrap()
    };
    let torn = [&first[..], &second[..second.len() / 2]].concat();
    assert_eq!(verdict(&torn, 0), TailVerdict::Cut);
    assert_eq!(verdict(&torn, behind), TailVerdict::Acknowledged);
    let hole = vec![0; second.len()];
    let unaware = [&first[..], &hole, b"\n", &log_line(3, first.len() as u64)].concat();
    assert_eq!(verdict(&unaware, 0), TailVerdict::Cut);
    let aware = [&first[..], &hole, b"\n", &log_line(3, behind)].concat();
    assert_eq!(verdict(&aware, 0), TailVerdict::Acknowledged);
    // The damage may have taken the line end with it.
    let hidden = [&first[..], &hole, &log_line(3, behind)].concat();
    assert_eq!(verdict(&hidden, 0), TailVerdict::Acknowledged);
}
