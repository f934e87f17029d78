//! The keys `prune.*`, `window.*` and `inheritance.*`: which messages leave the view, which stay, and which a
//! successor inherits.

use super::keys::Key;
use super::kind::Kind;
use crate::context::limits::MAX_MESSAGES;
use crate::context::{LEAST_INHERITED_TOKENS, Rank};

const SINCE: &str = "0.1.0";

fn lower(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.to_lowercase()).collect()
}

/// The keys, in the order of the table.
pub(super) const KEYS: [Key; 21] = [
    Key {
        name: "prune.target",
        kind: Kind::Share { set: |c, value| c.context.prune.target = value },
        default: "none",
        since: SINCE,
        about: "The share of the context limit that `prune` leaves, and no more than a step below the threshold. None: what `compression.preset` says, else 0.7. A task may say otherwise",
    },
    Key {
        name: "prune.weights.recency",
        kind: Kind::Number {
            least: 0.0,
            most: 1.0,
            set: |c, value| c.context.prune.recency_weight = Some(value),
        },
        default: "0.3",
        since: SINCE,
        about: "What the place of a message counts. A task may say otherwise",
    },
    Key {
        name: "prune.weights.role",
        kind: Kind::Number {
            least: 0.0,
            most: 1.0,
            set: |c, value| c.context.prune.role_weight = Some(value),
        },
        default: "0.3",
        since: SINCE,
        about: "What the speaker counts. A task may say otherwise",
    },
    Key {
        name: "prune.weights.content",
        kind: Kind::Number {
            least: 0.0,
            most: 1.0,
            set: |c, value| c.context.prune.content_weight = Some(value),
        },
        default: "0.4",
        since: SINCE,
        about: "What the content counts. A task may say otherwise",
    },
    Key {
        name: "prune.rank",
        kind: Kind::Word {
            words: &[
                ("score", |c| c.scoring.rank = Rank::Score),
                ("density", |c| c.scoring.rank = Rank::Density),
            ],
        },
        default: "score",
        since: SINCE,
        about: "What messages are ordered by: their score, or their score for the room that they take (divided by the square root of their tokens)",
    },
    Key {
        name: "prune.roles.user",
        kind: Kind::Number { least: 0.0, most: 1.0, set: |c, value| c.scoring.roles[0] = value },
        default: "1",
        since: SINCE,
        about: "What a user counts as speaker",
    },
    Key {
        name: "prune.roles.assistant",
        kind: Kind::Number { least: 0.0, most: 1.0, set: |c, value| c.scoring.roles[1] = value },
        default: "0.5",
        since: SINCE,
        about: "What an assistant counts",
    },
    Key {
        name: "prune.roles.tool",
        kind: Kind::Number { least: 0.0, most: 1.0, set: |c, value| c.scoring.roles[2] = value },
        default: "0.5",
        since: SINCE,
        about: "What a tool counts",
    },
    Key {
        name: "prune.roles.system",
        kind: Kind::Number { least: 0.0, most: 1.0, set: |c, value| c.scoring.roles[3] = value },
        default: "0.3",
        since: SINCE,
        about: "What a system or developer message counts that may go",
    },
    Key {
        name: "prune.roles.other",
        kind: Kind::Number { least: 0.0, most: 1.0, set: |c, value| c.scoring.roles[4] = value },
        default: "0.5",
        since: SINCE,
        about: "What anybody else counts",
    },
    Key {
        name: "prune.keywords",
        kind: Kind::Texts { count: 256, each: 128, set: |c, words| c.scoring.keywords = lower(&words) },
        default: "error,success,plan,task,duck_call,approval,denied,completed,failed,warning,エラー,成功,計画,タスク,承認,拒否,完了,失敗,警告",
        since: SINCE,
        about: "Words that make the content of a message count more, whether in capitals or not",
    },
    Key {
        name: "prune.short_length",
        kind: Kind::Count { least: 0, most: MAX_MESSAGES, set: |c, value| c.scoring.short_length = value },
        default: "20",
        since: SINCE,
        about: "Characters below which the content counts less",
    },
    Key {
        name: "prune.short_penalty",
        kind: Kind::Number { least: 0.0, most: 1.0, set: |c, value| c.scoring.short_penalty = value },
        default: "0.7",
        since: SINCE,
        about: "What it is multiplied by then",
    },
    Key {
        name: "prune.min_gap_for_summary",
        kind: Kind::Count {
            least: 1,
            most: MAX_MESSAGES,
            set: |c, value| c.scoring.min_gap_for_summary = value,
        },
        default: "5",
        since: SINCE,
        about: "Messages that are missing in one place before they are summarised rather than only counted, when the context is nearly full",
    },
    Key {
        name: "prune.gap.message_chars",
        kind: Kind::Count { least: 1, most: 100_000, set: |c, value| c.scoring.gap_message_chars = value },
        default: "200",
        since: SINCE,
        about: "Characters of each message that such a summary is made of",
    },
    Key {
        name: "prune.gap.max_tokens",
        kind: Kind::Count { least: 1, most: 100_000, set: |c, value| c.scoring.gap_max_tokens = value },
        default: "150",
        since: SINCE,
        about: "Tokens of such a summary, at most",
    },
    Key {
        name: "prune.gap.temperature",
        kind: Kind::Number { least: 0.0, most: 2.0, set: |c, value| c.scoring.gap_temperature = value },
        default: "0.3",
        since: SINCE,
        about: "How freely the LLM writes it",
    },
    Key {
        name: "window.messages",
        kind: Kind::Tokens { set: |c, value| c.context.window.messages = value },
        default: "none",
        since: SINCE,
        about: "Messages at the end that `window` keeps, beside what has to stay, rounded outwards to whole groups. With `window.tokens`, the smaller of the two; with neither, half of the limit. A task may say otherwise",
    },
    Key {
        name: "window.tokens",
        kind: Kind::Tokens { set: |c, value| c.context.window.tokens = value },
        default: "none",
        since: SINCE,
        about: "Tokens that `window` keeps, with what has to stay. A task may say otherwise",
    },
    Key {
        name: "inheritance.enabled",
        kind: Kind::Truth { set: |c, value| c.context.inheritance.enabled = Some(value) },
        default: "true",
        since: SINCE,
        about: "Lets a task that is started with `inherit_mode` AUTO inherit from the newest ended task with the same key. A task can override it",
    },
    Key {
        name: "inheritance.max_summary_tokens",
        kind: Kind::Count {
            least: LEAST_INHERITED_TOKENS,
            most: MAX_MESSAGES,
            set: |c, value| c.context.inheritance.max_summary_tokens = Some(value),
        },
        default: "4000",
        since: SINCE,
        about: "Tokens of what it takes over, at most; never more than a quarter of its context limit, but at least 200. A task may say otherwise",
    },
];
