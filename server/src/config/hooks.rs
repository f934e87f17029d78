//! The keys `hooks.*`: programs and URLs for events of tasks, and their limits.

use super::keys::{HOUR, Key, SHORT, size, small};
use super::kind::Kind;

const SINCE: &str = "0.1.0";

/// Returns the keys of one event.
macro_rules! hook_keys {
    ($event:ident, $when:literal) => {
        [
            Key {
                name: concat!("hooks.", stringify!($event), ".command"),
                kind: Kind::Texts { count: 64, each: 4096, set: |c, list| c.hooks.$event.command = list },
                default: "",
                since: SINCE,
                about: concat!("A program with its arguments, run without a shell, ", $when),
            },
            Key {
                name: concat!("hooks.", stringify!($event), ".url"),
                kind: Kind::Call { set: |c, url| c.hooks.$event.url = url },
                default: "none",
                since: SINCE,
                about: concat!("Where the event is posted to ", $when),
            },
        ]
    };
}

const STARTED: [Key; 2] = hook_keys!(started, "when a task was started");
const RESUMED: [Key; 2] = hook_keys!(resumed, "when a task goes on after a pause");
const PAUSED: [Key; 2] = hook_keys!(paused, "when a task was put aside");
const COMPLETED: [Key; 2] = hook_keys!(completed, "when a task ended well");
const FAILED: [Key; 2] = hook_keys!(failed, "when a task ended badly");
const COMPRESSED: [Key; 2] = hook_keys!(compressed, "when a task's context was compressed");

/// The keys, in the order of the table.
pub(super) const KEYS: [Key; 15] = [
    STARTED[0],
    STARTED[1],
    RESUMED[0],
    RESUMED[1],
    PAUSED[0],
    PAUSED[1],
    COMPLETED[0],
    COMPLETED[1],
    FAILED[0],
    FAILED[1],
    COMPRESSED[0],
    COMPRESSED[1],
    Key {
        name: "hooks.timeout",
        kind: Kind::Time { least: SHORT, most: HOUR, set: |c, time| c.hooks.timeout = time },
        default: "10s",
        since: SINCE,
        about: "How long one try of a hook may take; then its program is killed, or its call given up",
    },
    Key {
        name: "hooks.retries",
        kind: Kind::Count { least: 0, most: 100, set: |c, count| c.hooks.retries = small(count) },
        default: "3",
        since: SINCE,
        about: "How often a hook that failed is tried again, after pauses that grow",
    },
    Key {
        name: "hooks.queue",
        kind: Kind::Count { least: 1, most: 1 << 20, set: |c, count| c.hooks.queue = size(count) },
        default: "1024",
        since: SINCE,
        about: "Events that wait for their hooks, at most; what comes when that many wait is dropped, and counted",
    },
];
