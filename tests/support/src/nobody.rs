//! Calls of somebody else: a thread with another user's id, which is what the server sees of a caller.

use std::future::Future;
use std::thread;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Whether this process may be somebody else: it must be root.
pub fn is_possible() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs something as the user `nobody`.
pub fn as_nobody<T: Send + 'static>(act: impl Future<Output = T> + Send + 'static) -> T {
    let run = move || {
        // These are the thread's own; the rest of the process stays who it is.
        let (user, group) = (Uid::from_raw(65534), Gid::from_raw(65534));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        // One thread, so that all that is done is done by this one.
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(act)
    };
    thread::spawn(run).join().unwrap()
}
