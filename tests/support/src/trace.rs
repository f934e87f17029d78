//! A server whose system calls are made to fail, or to take their time, while it runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A sabotage that goes on until it is dropped.
pub struct Sabotage {
    strace: Child,
}

impl Sabotage {
    /// Does to a process what strace's `inject` says, in calls on a file only if one is named.
    pub fn begin(pid: u32, inject: &str, file: Option<&Path>) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", "/dev/null", "-e", "signal=none"]);
        let (calls, _) = inject.split_once(':').unwrap();
        strace.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={inject}")]);
        if let Some(file) = file {
            strace.arg("-P").arg(file);
        }
        strace.args(["-p", &pid.to_string()]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut strace = strace.spawn().unwrap_or_else(|error| {
            panic!("strace cannot be run ({error}); `make setup` installs what is missing")
        });
        let mut said = String::new();
        let mut errors = BufReader::new(strace.stderr.take().unwrap());
        // It says so when it has hold of the process.
        while !said.contains(" attached") {
            let read = errors.read_line(&mut said).unwrap();
            assert!(read > 0, "strace ended: {said}");
        }
        // Nobody reads what it says later; that must not stop it.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { strace }
    }
}

impl Drop for Sabotage {
    fn drop(&mut self) {
        let pid = i32::try_from(self.strace.id()).ok().and_then(Pid::from_raw).unwrap();
        // It lets go of the process in order.
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.strace.wait();
    }
}
