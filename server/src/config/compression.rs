//! The keys `compression.*`: when and how contexts are compressed, and the limits of that work.

use std::time::Duration;

use super::keys::{DAY, GIB, HOUR, Key, SHORT, size, small};
use super::kind::Kind;
use crate::context::BreakerConfig;
use crate::context::limits::{
    MAX_DIRECTIVE_BYTES, MAX_DIRECTIVES, MAX_MESSAGES, MAX_PROMPT_BYTES, MAX_TURNS,
};

/// Limits of compression. [`super::Config::context`] holds the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Compression {
    /// Time-out of a model for one summary.
    pub summary_timeout: Duration,
    /// Concurrent compressions in the background.
    pub max_at_once: usize,
    /// Lifetime of a token of BeginCompaction.
    pub agent_ttl: Duration,
    /// Circuit breaker for a model that fails.
    pub breaker: BreakerConfig,
}

impl Compression {
    /// Returns empty settings, which the defaults then fill.
    pub(super) fn blank() -> Self {
        let breaker = BreakerConfig { failures: 0, pause: Duration::ZERO, longest: Duration::ZERO };
        Self { summary_timeout: Duration::ZERO, max_at_once: 0, agent_ttl: Duration::ZERO, breaker }
    }
}

const SINCE: &str = "0.1.0";

/// The keys, in the order of the table.
pub(super) const KEYS: [Key; 28] = [
    Key {
        name: "compression.enabled",
        kind: Kind::Truth { set: |c, value| c.context.compression.enabled = Some(value) },
        default: "true",
        since: SINCE,
        about: "Whether contexts are compressed at all, other than by Compress. A task may say otherwise",
    },
    Key {
        name: "compression.auto",
        kind: Kind::Truth { set: |c, value| c.context.compression.auto = Some(value) },
        default: "true",
        since: SINCE,
        about: "Whether they are compressed without being asked when it is due; if not, that is only reported. A task may say otherwise",
    },
    Key {
        name: "compression.strategy",
        kind: Kind::Word {
            words: &[
                ("summarize", |c| c.context.compression.strategy = Some("summarize".to_owned())),
                ("compact", |c| c.context.compression.strategy = Some("compact".to_owned())),
                ("prune", |c| c.context.compression.strategy = Some("prune".to_owned())),
                ("window", |c| c.context.compression.strategy = Some("window".to_owned())),
            ],
        },
        default: "summarize",
        since: SINCE,
        about: "How a context is compressed. A task may say otherwise",
    },
    Key {
        name: "compression.threshold",
        kind: Kind::Share { set: |c, value| c.context.compression.threshold = value },
        default: "none",
        since: SINCE,
        about: "The share of the context limit at which compression is due. None: what `compression.complexity` or `compression.preset` says, else 0.7, for `compact` and `prune` 0.8. A task may say otherwise; one that names only a `strategy` gets that strategy's own",
    },
    Key {
        name: "compression.token_threshold",
        kind: Kind::Tokens { set: |c, value| c.context.compression.token_threshold = value },
        default: "none",
        since: SINCE,
        about: "Tokens at which compression is due; wins over the share. A task may say otherwise",
    },
    Key {
        name: "compression.max_request_bytes",
        kind: Kind::Bytes {
            least: 0,
            most: 64 * GIB,
            set: |c, value| c.context.compression.max_request_bytes = Some(value),
        },
        default: "28MiB",
        since: SINCE,
        about: "Bytes that a request to a provider may have: when a view is larger, its oldest images and files become notes. 0: no limit. A task may say otherwise",
    },
    Key {
        name: "compression.keep_recent_messages",
        kind: Kind::Count {
            least: 0,
            most: MAX_MESSAGES,
            set: |c, value| c.context.compression.keep_recent_messages = Some(value),
        },
        default: "5",
        since: SINCE,
        about: "Messages at the end that `summarize` keeps, rounded outwards to whole groups of calls and results. A task may say otherwise",
    },
    Key {
        name: "compression.min_messages",
        kind: Kind::Count {
            least: 1,
            most: MAX_MESSAGES,
            set: |c, value| c.context.compression.min_messages = Some(value),
        },
        default: "5",
        since: SINCE,
        about: "Messages that there must be to summarise, at least: fewer stay, whatever the goal, unless the context is over its limit: then one is enough. A task may say otherwise",
    },
    Key {
        name: "compression.complexity",
        kind: Kind::Word {
            words: &[
                ("none", |c| c.context.compression.complexity = None),
                ("simple", |c| c.context.compression.complexity = Some("simple".to_owned())),
                ("medium", |c| c.context.compression.complexity = Some("medium".to_owned())),
                ("complex", |c| c.context.compression.complexity = Some("complex".to_owned())),
            ],
        },
        default: "none",
        since: SINCE,
        about: "Sets the threshold if none is given: 0.5, 0.7 or 0.85. A task may say otherwise",
    },
    Key {
        name: "compression.preset",
        kind: Kind::Word {
            words: &[
                ("none", |c| c.context.compression.preset = None),
                ("balanced", |c| c.context.compression.preset = Some("balanced".to_owned())),
                ("conservative", |c| c.context.compression.preset = Some("conservative".to_owned())),
                ("aggressive", |c| c.context.compression.preset = Some("aggressive".to_owned())),
            ],
        },
        default: "none",
        since: SINCE,
        about: "For what is not given otherwise, and never in the place of a limit that is known: context limit, threshold and `prune.target` of 8000, 0.8, 0.7 (balanced), 6000, 0.6, 0.5 (conservative) or 12000, 0.9, 0.8 (aggressive). A task may say otherwise",
    },
    Key {
        name: "compression.summarizer",
        kind: Kind::Word {
            words: &[
                ("auto", |c| c.context.compression.summarizer = Some("auto".to_owned())),
                ("llm", |c| c.context.compression.summarizer = Some("llm".to_owned())),
                ("extractive", |c| c.context.compression.summarizer = Some("extractive".to_owned())),
            ],
        },
        default: "auto",
        since: SINCE,
        about: "Who summarises: the LLM if `compression.provider` or `llm.provider` names one, else the built-in summariser; or always the one or the other. A task may say otherwise",
    },
    Key {
        name: "compression.provider",
        kind: Kind::Word {
            words: &[
                ("none", |c| c.context.compression.provider = None),
                ("openai", |c| c.context.compression.provider = Some("openai".to_owned())),
                ("openai_responses", |c| {
                    c.context.compression.provider = Some("openai_responses".to_owned())
                }),
                ("anthropic", |c| c.context.compression.provider = Some("anthropic".to_owned())),
                ("ollama", |c| c.context.compression.provider = Some("ollama".to_owned())),
                ("lmstudio", |c| c.context.compression.provider = Some("lmstudio".to_owned())),
            ],
        },
        default: "none",
        since: SINCE,
        about: "The provider that summarises. None: the task's own if `llm.provider` is set, or that. A task may say otherwise",
    },
    Key {
        name: "compression.model",
        kind: Kind::Name { set: |c, value| c.context.compression.model = value },
        default: "none",
        since: SINCE,
        about: "The model that summarises. None: the task's own, or `llm.providers.*.model`. A task may say otherwise",
    },
    Key {
        name: "compression.summary_prompt",
        kind: Kind::Text {
            most: MAX_PROMPT_BYTES,
            set: |c, value| c.context.compression.summary_prompt = value,
        },
        default: "none",
        since: SINCE,
        about: "What the summariser is asked, instead of the built-in words. A task may say otherwise",
    },
    Key {
        name: "compression.final_summary_prompt",
        kind: Kind::Text {
            most: MAX_PROMPT_BYTES,
            set: |c, value| c.context.compression.final_summary_prompt = value,
        },
        default: "none",
        since: SINCE,
        about: "The same for the summary of a task that ends. A task may say otherwise",
    },
    Key {
        name: "compression.summary_directives",
        kind: Kind::Texts {
            count: MAX_DIRECTIVES,
            each: MAX_DIRECTIVE_BYTES,
            set: |c, value| c.context.compression.summary_directives = Some(value),
        },
        default: "",
        since: SINCE,
        about: "Added to what a model that summarises is asked, one by one. A task may say otherwise",
    },
    Key {
        name: "compression.retain_prompt",
        kind: Kind::Text {
            most: MAX_PROMPT_BYTES,
            set: |c, value| c.context.compression.retain_prompt = value,
        },
        default: "none",
        since: SINCE,
        about: "With `compact`: asks a model that summarises for what is to be kept word for word. A task may say otherwise",
    },
    Key {
        name: "compression.retain_directives",
        kind: Kind::Texts {
            count: MAX_DIRECTIVES,
            each: MAX_DIRECTIVE_BYTES,
            set: |c, value| c.context.compression.retain_directives = Some(value),
        },
        default: "",
        since: SINCE,
        about: "Added to that, one by one. A task may say otherwise",
    },
    Key {
        name: "compression.retain_last_turns",
        kind: Kind::Count {
            least: 0,
            most: MAX_TURNS,
            set: |c, value| c.context.compression.retain_last_turns = Some(value),
        },
        default: "1",
        since: SINCE,
        about: "With `compact`: turns at the end that stay. A task may say otherwise",
    },
    Key {
        name: "compression.structured",
        kind: Kind::Truth { set: |c, value| c.context.compression.structured = Some(value) },
        default: "false",
        since: SINCE,
        about: "Whether summaries are told by fixed sections, too: goal, decisions, changes, files, errors, pending. A task may say otherwise",
    },
    Key {
        name: "compression.keep_plan",
        kind: Kind::Truth { set: |c, value| c.context.compression.keep_plan = Some(value) },
        default: "false",
        since: SINCE,
        about: "Whether the newest plan stays in the view, word for word up to a quarter of the limit, as it is when the view is compressed. A task may say otherwise",
    },
    Key {
        name: "compression.summary_tokens",
        kind: Kind::Tokens { set: |c, value| c.context.compression.summary_tokens = value },
        default: "none",
        since: SINCE,
        about: "Most tokens of a summary. None: a third of what it stands for, at most a tenth of the limit or 4000 tokens, whichever is more, and no more than the goal leaves room for. A task may say otherwise",
    },
    Key {
        name: "compression.summary_timeout",
        kind: Kind::Time { least: SHORT, most: HOUR, set: |c, time| c.compression.summary_timeout = time },
        default: "2m",
        since: SINCE,
        about: "How long a summary by a model may take, with waiting for others and a second question; then the built-in summariser steps in",
    },
    Key {
        name: "compression.max_at_once",
        kind: Kind::Count { least: 1, most: 64, set: |c, count| c.compression.max_at_once = size(count) },
        default: "2",
        since: SINCE,
        about: "Compressions in the background at once; others wait",
    },
    Key {
        name: "compression.agent_ttl",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.compression.agent_ttl = time },
        default: "10m",
        since: SINCE,
        about: "How long the token of BeginCompaction is good",
    },
    Key {
        name: "compression.breaker.failures",
        kind: Kind::Count {
            least: 1,
            most: 100,
            set: |c, count| c.compression.breaker.failures = small(count),
        },
        default: "3",
        since: SINCE,
        about: "How often in a row an LLM may fail to summarise before it is not asked for a while",
    },
    Key {
        name: "compression.breaker.pause",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.compression.breaker.pause = time },
        default: "30s",
        since: SINCE,
        about: "How long it is not asked, at first; twice as long after each further failure",
    },
    Key {
        name: "compression.breaker.longest",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.compression.breaker.longest = time },
        default: "10m",
        since: SINCE,
        about: "How long it is not asked, at most",
    },
];
