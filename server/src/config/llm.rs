//! The keys `llm.*`: providers, addresses, API keys and time-outs of the LLM gateway.

use std::time::Duration;

use super::keys::Key;
use super::kind::Kind;
use crate::model::Provider;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const SINCE: &str = "0.1.0";

/// The keys for all providers.
const SHARED: [Key; 6] = [
    Key {
        name: "llm.provider",
        kind: Kind::Word {
            words: &[
                ("none", |c| c.llm.provider = None),
                ("openai", |c| c.llm.provider = Some(Provider::OpenAi)),
                ("openai_responses", |c| c.llm.provider = Some(Provider::OpenAiResponses)),
                ("anthropic", |c| c.llm.provider = Some(Provider::Anthropic)),
                ("ollama", |c| c.llm.provider = Some(Provider::Ollama)),
                ("lmstudio", |c| c.llm.provider = Some(Provider::LmStudio)),
            ],
        },
        default: "none",
        since: SINCE,
        about: "Who Chat asks if neither the call nor the task says",
    },
    Key {
        name: "llm.connect_timeout",
        kind: Kind::Time { least: SHORT, most: HOUR, set: |c, time| c.llm.connect_timeout = time },
        default: "10s",
        since: SINCE,
        about: "How long making a connection to a provider may take",
    },
    Key {
        name: "llm.first_byte_timeout",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.llm.first_byte_timeout = time },
        default: "5m",
        since: SINCE,
        about: "How long a provider may take to begin its answer, from the last byte of the request that it took",
    },
    Key {
        name: "llm.idle_timeout",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.llm.idle_timeout = time },
        default: "2m",
        since: SINCE,
        about: "How long a provider may say nothing in the middle of an answer",
    },
    Key {
        name: "llm.retries",
        kind: Kind::Count {
            least: 0,
            most: 10,
            set: |c, count| c.llm.retries = u32::try_from(count).unwrap_or(u32::MAX),
        },
        default: "3",
        since: SINCE,
        about: "How often a request is sent again that failed in a way that may pass, before anything of an answer \
                came; after pauses that grow, or that the provider asks for",
    },
    Key {
        name: "llm.max_retry_after",
        kind: Kind::Time { least: Duration::ZERO, most: HOUR, set: |c, time| c.llm.max_retry_after = time },
        default: "30s",
        since: SINCE,
        about: "The longest pause that a provider may ask for; if it asks for more, the caller is told",
    },
];

const SHORT: Duration = Duration::from_millis(100);

/// Returns the keys of one provider.
macro_rules! provider_keys {
    ($word:literal, $provider:expr, $url:literal, $key:literal) => {
        [
            Key {
                name: concat!("llm.providers.", $word, ".base_url"),
                kind: Kind::Url { set: |c, url| c.llm.providers[$provider as usize].base_url = url },
                default: $url,
                since: SINCE,
                about: "What comes before the path of the API",
            },
            Key {
                name: concat!("llm.providers.", $word, ".api_key_env"),
                kind: Kind::Variable { set: |c, name| c.llm.providers[$provider as usize].api_key_env = name },
                default: $key,
                since: SINCE,
                about: "The variable of the server's environment that holds the API key; `none`: no key is sent",
            },
            Key {
                name: concat!("llm.providers.", $word, ".api_key_file"),
                kind: Kind::File { set: |c, path| c.llm.providers[$provider as usize].api_key_file = path },
                default: "none",
                since: SINCE,
                about: "A file that holds the API key, read for each request; wins over the variable. Refused if \
                        everybody may read it, or if it belongs to another user than the server's or root",
            },
            Key {
                name: concat!("llm.providers.", $word, ".model"),
                kind: Kind::Name { set: |c, name| c.llm.providers[$provider as usize].model = name },
                default: "none",
                since: SINCE,
                about: "The model that is asked if neither the call nor the task says",
            },
            Key {
                name: concat!("llm.providers.", $word, ".max_output_tokens"),
                kind: Kind::Tokens {
                    set: |c, tokens| c.llm.providers[$provider as usize].max_output_tokens = tokens,
                },
                default: "none",
                since: SINCE,
                about: "Most tokens of an answer, if the call does not say",
            },
            Key {
                name: concat!("llm.providers.", $word, ".context_length"),
                kind: Kind::Tokens {
                    set: |c, tokens| c.llm.providers[$provider as usize].context_length = tokens,
                },
                default: "none",
                since: SINCE,
                about: "Tokens that models of this provider take, where neither the task nor `models` says it; wins over what is published of a model",
            },
            Key {
                name: concat!("llm.providers.", $word, ".timeout"),
                kind: Kind::Time {
                    least: SECOND,
                    most: DAY,
                    set: |c, time| c.llm.providers[$provider as usize].timeout = time,
                },
                default: "15m",
                since: SINCE,
                about: "How long one answer may take, with all tries",
            },
        ]
    };
}

const OPENAI: [Key; 7] =
    provider_keys!("openai", Provider::OpenAi, "https://api.openai.com/v1", "OPENAI_API_KEY");
const OPENAI_RESPONSES: [Key; 7] = provider_keys!(
    "openai_responses",
    Provider::OpenAiResponses,
    "https://api.openai.com/v1",
    "OPENAI_API_KEY"
);
const ANTHROPIC: [Key; 7] =
    provider_keys!("anthropic", Provider::Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY");
const OLLAMA: [Key; 7] = provider_keys!("ollama", Provider::Ollama, "http://127.0.0.1:11434", "none");
const LMSTUDIO: [Key; 7] = provider_keys!("lmstudio", Provider::LmStudio, "http://127.0.0.1:1234/v1", "none");

/// All keys of the gateway, in the order of the table.
pub(super) const KEYS: [&[Key]; 6] = [&SHARED, &OPENAI, &OPENAI_RESPONSES, &ANTHROPIC, &OLLAMA, &LMSTUDIO];
