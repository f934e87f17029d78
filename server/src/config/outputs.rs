//! The keys `outputs.*`: previews of tool outputs, and limits for their number.

use std::time::Duration;

use super::keys::Key;
use super::kind::Kind;
use crate::context::limits::{LINE_LENGTH, MAX_TOOL_BYTES, MAX_TOOLS, VIEW_BYTES};

const SINCE: &str = "0.1.0";
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The keys, in the order of the table.
pub(super) const KEYS: [Key; 7] = [
    Key {
        name: "outputs.enabled",
        kind: Kind::Truth { set: |c, value| c.context.outputs.enabled = Some(value) },
        default: "true",
        since: SINCE,
        about: "Whether outputs of tools in the view are trimmed, oldest first, when they pass their budget. A task may say otherwise",
    },
    Key {
        name: "outputs.budget_tokens",
        kind: Kind::Tokens { set: |c, value| c.context.outputs.budget_tokens = value },
        default: "none",
        since: SINCE,
        about: "Tokens that outputs in the view may have together, once the view has half of the context limit; the oldest are trimmed then, to a third of it. None: a quarter of the context limit, at least 20000 and at most 60000, but never over half of the limit. A task may say otherwise",
    },
    Key {
        name: "outputs.max_message_bytes",
        kind: Kind::Bytes {
            least: *VIEW_BYTES.start(),
            most: *VIEW_BYTES.end(),
            set: |c, value| c.context.outputs.max_message_bytes = Some(value),
        },
        default: "50KiB",
        since: SINCE,
        about: "Largest view of one output; the rest is read by its ref. Never over an eighth of `limits.message_bytes`. A task may say otherwise",
    },
    Key {
        name: "outputs.max_line_length",
        kind: Kind::Count {
            least: *LINE_LENGTH.start(),
            most: *LINE_LENGTH.end(),
            set: |c, value| c.context.outputs.max_line_length = Some(value),
        },
        default: "2000",
        since: SINCE,
        about: "Longest line of a view, in characters. A task may say otherwise",
    },
    Key {
        name: "outputs.tail_bytes",
        kind: Kind::Bytes {
            least: 0,
            most: *VIEW_BYTES.end() / 2,
            set: |c, value| c.context.outputs.tail_bytes = Some(value),
        },
        default: "0",
        since: SINCE,
        about: "Bytes of a view that show the end of an output rather than its beginning; at most half of `outputs.max_message_bytes`. A task may say otherwise",
    },
    Key {
        name: "outputs.protected_tools",
        kind: Kind::Texts {
            count: MAX_TOOLS,
            each: MAX_TOOL_BYTES,
            set: |c, value| c.context.outputs.protected_tools = Some(value),
        },
        default: "",
        since: SINCE,
        about: "Tools whose outputs are never trimmed, by name; a compression may cut or summarise them. A task may say otherwise",
    },
    Key {
        name: "outputs.pack_after",
        kind: Kind::Time { least: Duration::ZERO, most: YEAR, set: |c, time| c.outputs.pack_after = time },
        default: "24h",
        since: SINCE,
        about: "How long after it was put last an output of a task that goes on is stored packed (zstd); those of tasks that ended are packed soon. 0s: none is",
    },
];
