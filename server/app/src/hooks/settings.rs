//! The settings of the hooks.

use std::time::Duration;

/// What runs when something happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSettings {
    /// A task was started.
    pub started: HookTarget,
    /// A task goes on after a pause.
    pub resumed: HookTarget,
    /// A task was put aside.
    pub paused: HookTarget,
    /// A task ended well.
    pub completed: HookTarget,
    /// A task ended badly.
    pub failed: HookTarget,
    /// A task's context was compressed.
    pub compressed: HookTarget,
    /// For one try.
    pub timeout: Duration,
    /// How often it is tried again.
    pub retries: u32,
    /// Events that wait, at most.
    pub queue: usize,
}

/// What is done when something happens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookTarget {
    /// A program with its arguments; empty: none.
    pub command: Vec<String>,
    /// What is called over HTTP.
    pub url: Option<String>,
}

impl HookSettings {
    /// Before anything is read.
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
