//! Tells those who follow a task's logs that there may be more to see.

use tokio::sync::watch;

/// One for all logs of a task. It says nothing but "look again", so it cannot fall behind.
#[derive(Debug)]
pub struct Signal(watch::Sender<()>);

impl Default for Signal {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Signal {
    /// Wakes everybody who waits.
    pub fn notify(&self) {
        self.0.send_replace(());
    }

    /// From now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}
