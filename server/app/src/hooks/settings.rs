//! The settings of the hooks.

use std::time::Duration;

/// The hooks of each event, and their limits.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSettings {
    /// A task was started.
    pub started: HookTarget,
    /// A task was resumed.
    pub resumed: HookTarget,
    /// A task was paused.
    pub paused: HookTarget,
    /// A task was completed.
    pub completed: HookTarget,
    /// A task failed.
    pub failed: HookTarget,
    /// A task's context was compressed.
    pub compressed: HookTarget,
    /// Time-out of one try.
    pub timeout: Duration,
    /// Retries per event.
    pub retries: u32,
    /// Most events that wait.
    pub queue: usize,
}

/// The program and the URL for one kind of event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookTarget {
    /// A program with its arguments; empty for none.
    pub command: Vec<String>,
    /// The URL that receives a POST.
    pub url: Option<String>,
}

impl HookSettings {
    /// Returns settings without hooks, which the configuration then fills.
    pub fn blank() -> Self {
        Self {
            started: HookTarget::default(),
            resumed: HookTarget::default(),
            paused: HookTarget::default(),
            completed: HookTarget::default(),
            failed: HookTarget::default(),
            compressed: HookTarget::default(),
            timeout: Duration::ZERO,
            retries: 0,
            queue: 0,
        }
    }
}
