//! Searching an output over gRPC beside ripgrep on the same file.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use contextstore_client::{Grep, Outputs, PutOutput};
use tokio::runtime::Runtime;

use crate::measure;
use crate::report::{Cell, Sample};
use crate::server::{self, Server};
use crate::targets::{Bound, Target};

/// Bytes of the output.
const BYTES: u64 = 256 << 20;
/// What is looked for, and how it is told: something rare, what a debugger looks for, and very much.
const PATTERNS: [(&str, &str); 3] = [
    ("request 1234567 ", "one line"),
    (r"(?i)error: .*\bpart[0-9]{3}\b", "one in a thousand lines, by a pattern"),
    ("took [0-9]*7 ms", "one in ten lines"),
];

/// Each pattern is searched for by both in turns.
pub(crate) fn targets(runtime: &Runtime, server: &Server, place: &Path, rounds: usize) -> Vec<Target> {
    let found = Command::new("rg").arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("rg is not installed; grep is left out");
        return Vec::new();
    }
    eprintln!("an output of {} MiB", BYTES >> 20);
    let path = place.join("output.log");
    write(&path);
    let (outputs, id) = runtime.block_on(async {
        let task = server::start(&server.client().await, "group").await;
        let outputs = task.outputs();
        let kept = outputs.put(PutOutput::default(), fs::read(&path).unwrap()).await.unwrap();
        (outputs, kept.r#ref.unwrap().id)
    });
    let target = |(pattern, what): (&'static str, &str)| {
        let (handle, outputs, id, path) =
            (runtime.handle().clone(), outputs.clone(), id.clone(), path.clone());
        let run = move || {
            let (ours, lines) = handle.block_on(over_rpc(&outputs, &id, pattern));
            let (theirs, same) = ripgrep(&path, pattern);
            assert_eq!(lines, same, "lines with {pattern}");
            Sample::new(ours / theirs, f64::NAN)
        };
        let mut cells = [Cell::new(0, String::new(), run)];
        measure(&mut cells, rounds);
        let what = format!("grep over gRPC ÷ rg --no-mmap -n, {} MiB, {what}", BYTES >> 20);
        Target { number: 12, what, bound: Bound::AtMost(1.25), rounds: cells[0].rates(), limit: None }
    };
    PATTERNS.into_iter().map(target).collect()
}

/// A log as servers write it.
fn write(path: &Path) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let (mut written, mut number) = (0, 0_u64);
    while written < BYTES {
        number += 1;
        let level = if number.is_multiple_of(1000) { "ERROR: no answer from" } else { "INFO: answered by" };
        let line = format!(
            "2026-03-0{} request {number} {level} part{:03} of build/{:08x}, which took {} ms\n",
            number % 9 + 1,
            number % 1000,
            number.wrapping_mul(2_654_435_761) as u32,
            number % 97
        );
        out.write_all(line.as_bytes()).unwrap();
        written += line.len() as u64;
    }
    out.flush().unwrap();
}

/// Seconds and lines.
async fn over_rpc(outputs: &Outputs, id: &str, pattern: &str) -> (f64, u64) {
    let began = Instant::now();
    let grep = Grep { ref_id: id.to_owned(), pattern: pattern.to_owned(), ..Grep::default() };
    let (mut batches, mut lines) = (outputs.grep(grep), 0);
    while let Some(batch) = batches.try_next().await.unwrap() {
        lines += batch.lines.len() as u64;
    }
    (began.elapsed().as_secs_f64(), lines)
}

/// The same of ripgrep, whose lines are read as they come.
fn ripgrep(path: &Path, pattern: &str) -> (f64, u64) {
    let began = Instant::now();
    let mut child = Command::new("rg")
        .args(["--no-config", "--no-mmap", "-n", "-e", pattern])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut lines, mut piece) = (0, vec![0; 64 << 10]);
    let mut out = child.stdout.take().unwrap();
    loop {
        let read = out.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        lines += piece[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    assert!(child.wait().unwrap().success());
    (began.elapsed().as_secs_f64(), lines)
}
