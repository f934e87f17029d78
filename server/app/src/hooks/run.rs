//! Running a program for an event: without a shell, with the event on its standard input.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Failed;
use crate::infra::process;

/// Bytes that are told of what a program said last.
const MAX_SAID: usize = 1 << 10;
/// How long somebody else may keep the error output of a program that has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// A program with everything that it started. If it is dropped, they are killed.
struct Running {
    child: Child,
    ended: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            process::kill_group(self.child.id());
        }
    }
}

/// Runs a program and waits until it has ended. One that takes longer than `limit` is killed.
pub(super) async fn run(command: &[String], input: &[u8], limit: Duration) -> Result<(), Failed> {
    let failed = |why: String| Failed { why, may_pass: true };
    let (child, stdin, stderr) =
        start(command).map_err(|error| failed(format!("it cannot be run: {error}")))?;
    let mut running = Running { child, ended: false };
    let input = input.to_vec();
    let mut said = tokio::spawn(async move { tokio::join!(feed(stdin, &input), listen(stderr)).1 });
    let id = running.child.id();
    let mut exit = spawn_blocking(move || process::wait(id));
    let in_time = timeout(limit, &mut exit).await.is_ok();
    if !in_time {
        process::kill_group(id);
        let _ = exit.await;
    }
    // It has ended, and was not waited for, so that its id was nobody else's until now.
    running.ended = true;
    let status = running.child.wait();
    let last = timeout(LAST_WORDS, &mut said).await;
    said.abort();
    let last = last.ok().and_then(Result::ok).unwrap_or_default();
    let last = if last.is_empty() { last } else { format!(": {last}") };
    match status {
        Ok(_) if !in_time => Err(failed(format!("it was killed after {limit:?}{last}"))),
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("it ended with {status}{last}"))),
        Err(error) => Err(failed(format!("it cannot be waited for: {error}"))),
    }
}

fn start(command: &[String]) -> io::Result<(Child, pipe::Sender, pipe::Receiver)> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (input, stdin) = io::pipe()?;
    let (stderr, output) = io::pipe()?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(output)
        // What it starts can be ended with it.
        .process_group(0)
        .spawn()?;
    Ok((child, pipe::Sender::from_owned_fd(stdin.into())?, pipe::Receiver::from_owned_fd(stderr.into())?))
}

async fn feed(mut stdin: pipe::Sender, input: &[u8]) {
    // A program need not read what it is told.
    let _ = stdin.write_all(input).await;
}

/// The last that a program says, on one line.
async fn listen(mut stderr: pipe::Receiver) -> String {
    let (mut last, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        last.extend_from_slice(&chunk[..read]);
        last.drain(..last.len().saturating_sub(MAX_SAID));
    }
    let words = String::from_utf8_lossy(&last);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
