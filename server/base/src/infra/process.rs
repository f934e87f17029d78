//! Child processes: waiting for one, and killing one with all its descendants.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Blocks until a child has ended, without reaping it: until it is reaped, its id is not reused.
pub fn wait(id: u32) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid(id)?), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.map(drop).map_err(io::Error::from),
        }
    }
}

/// Kills the process group of a child that leads one.
pub fn kill_group(id: u32) {
    // The group may be gone already.
    let _ = pid(id).map(|pid| kill_process_group(pid, Signal::KILL));
}

fn pid(id: u32) -> io::Result<Pid> {
    let found = i32::try_from(id).ok().and_then(Pid::from_raw);
    found.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
