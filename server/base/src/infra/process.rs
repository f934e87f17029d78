//! Programs that the server runs: waiting for one, and ending it with all that it started.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Returns when a child has ended, and leaves it to be waited for: until then its id is nobody else's. Blocks.
pub fn wait(id: u32) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid(id)?), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.map(drop).map_err(io::Error::from),
        }
    }
}

/// Kills a child that leads a group of its own, with everything in it.
pub fn kill_group(id: u32) {
    // It may be gone.
    let _ = pid(id).map(|pid| kill_process_group(pid, Signal::KILL));
}

fn pid(id: u32) -> io::Result<Pid> {
    let found = i32::try_from(id).ok().and_then(Pid::from_raw);
    found.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
