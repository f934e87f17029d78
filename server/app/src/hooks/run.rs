//! Runs a program for an event, without a shell and with the event on its standard input.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::FailedTry;
use crate::infra::process;

/// Bytes of a program's last error output that are logged.
const MAX_STDERR: usize = 1 << 10;
/// Time to read the error output after the program ended, while a child of it may hold the pipe open.
const STDERR_GRACE: Duration = Duration::from_millis(100);

/// A program and its children. Dropping it kills them.
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

/// Runs a program until it ends. After `limit` it is killed.
pub(super) async fn run(command: &[String], input: &[u8], limit: Duration) -> Result<(), FailedTry> {
    let failed = |why: String| FailedTry { why, may_pass: true };
    let (child, stdin, stderr) =
        start(command).map_err(|error| failed(format!("it cannot be run: {error}")))?;
    let mut running = Running { child, ended: false };
    let input = input.to_vec();
    let mut stderr_text = tokio::spawn(async move { tokio::join!(feed(stdin, &input), listen(stderr)).1 });
    let id = running.child.id();
    let mut exit = spawn_blocking(move || process::wait(id));
    let in_time = timeout(limit, &mut exit).await.is_ok();
    if !in_time {
        process::kill_group(id);
        let _ = exit.await;
    }
    // Only now can the system reuse the process id.
    running.ended = true;
    let status = running.child.wait();
    let last = timeout(STDERR_GRACE, &mut stderr_text).await;
    stderr_text.abort();
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
        // Its children can be killed with it.
        .process_group(0)
        .spawn()?;
    Ok((child, pipe::Sender::from_owned_fd(stdin.into())?, pipe::Receiver::from_owned_fd(stderr.into())?))
}

async fn feed(mut stdin: pipe::Sender, input: &[u8]) {
    // A program need not read its input.
    let _ = stdin.write_all(input).await;
}

/// Returns the last error output on one line.
async fn listen(mut stderr: pipe::Receiver) -> String {
    let (mut last, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        last.extend_from_slice(&chunk[..read]);
        last.drain(..last.len().saturating_sub(MAX_STDERR));
    }
    let words = String::from_utf8_lossy(&last);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
