//! Keeps the processors from going to sleep while something is measured.
//!
//! A processor of a virtual machine that has nothing to do is given back to the host, and getting it again takes tens of
//! microseconds. A call that does nothing is over before anybody sleeps; one that waits for the disk pays for it at every
//! step: the disk's interrupt, the server, the client. Loops that run only when nobody else wants to make a
//! processor stay, and so tell this from what the server does itself.

use std::process::{Child, Command, Stdio};

/// One loop for each processor, as long as this lives.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    pub(crate) fn keep() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = || {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("chrt, of util-linux")
        };
        Self((0..processors).map(|_| spin()).collect())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
