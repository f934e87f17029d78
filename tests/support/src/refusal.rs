//! A server that cannot start, and what it says.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::DEADLINE;

/// What a server says that cannot start. It must end by itself, with the code for that.
pub fn cannot_start(data: &Path, arguments: &[&str]) -> String {
    let mut child = Command::new(crate::program("contextstore"))
        .args(["serve", "--data-dir"])
        .arg(data)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(2), "{said}");
    said
}
