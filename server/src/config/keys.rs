//! The table of keys, joined from the sections' files, and the environment variables that are not keys.

use std::time::Duration;

use super::kind::Kind;
use super::{LogFormat, TcpAuth, compression, hooks, llm, masking, outputs, prune};
use crate::model::{Durability, TokenCounter};

/// A configuration key.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// `section.key`, as in the file.
    pub(super) name: &'static str,
    /// The accepted values, and the field that the key sets.
    pub(super) kind: Kind,
    /// The default, as written in the file.
    pub(super) default: &'static str,
    /// The version that introduced the key.
    pub(super) since: &'static str,
    /// The description, in one line.
    pub(super) about: &'static str,
}

const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const SHORT: Duration = Duration::from_millis(100);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

/// Limit of counts: fits into every integer type in use, and exceeds any machine.
const MANY: u64 = 1 << 16;

/// All keys, in the order of the documentation.
pub(super) const KEYS: &[Key] = &joined();

const LISTS: [&[Key]; 13] = [
    OWN,
    &compression::KEYS,
    &prune::KEYS,
    &outputs::KEYS,
    LAST,
    &masking::KEYS,
    &hooks::KEYS,
    llm::KEYS[0],
    llm::KEYS[1],
    llm::KEYS[2],
    llm::KEYS[3],
    llm::KEYS[4],
    llm::KEYS[5],
];

const fn joined() -> [Key; count()] {
    let mut keys = [OWN[0]; count()];
    let (mut at, mut list) = (0, 0);
    while list < LISTS.len() {
        let mut from = 0;
        while from < LISTS[list].len() {
            keys[at] = LISTS[list][from];
            at += 1;
            from += 1;
        }
        list += 1;
    }
    keys
}

const fn count() -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < LISTS.len() {
        sum += LISTS[at].len();
        at += 1;
    }
    sum
}

const OWN: &[Key] = &[
    Key {
        name: "data_dir",
        kind: Kind::Path { set: |c, path| c.data_dir = path },
        default: "contexts",
        since: "0.1.0",
        about: "The data directory. Made if it is not there; one server at a time uses it",
    },
    Key {
        name: "listen",
        kind: Kind::Addresses { set: |c, list| c.listen = list },
        default: "",
        since: "0.1.0",
        about: "Where the service listens. Empty: `unix:DATA_DIR/contextstore.sock` and `tcp:127.0.0.1:50551`",
    },
    Key {
        name: "admin_listen",
        kind: Kind::Address { set: |c, address| c.admin_listen = address },
        default: "none",
        since: "0.1.0",
        about: "Where `/metrics` and `/healthz` are served over HTTP",
    },
    Key {
        name: "tcp_auth",
        kind: Kind::Word {
            words: &[("token", |c| c.tcp_auth = TcpAuth::Token), ("none", |c| c.tcp_auth = TcpAuth::None)],
        },
        default: "token",
        since: "0.1.0",
        about: "What a call over TCP must carry: the token in the file `token` of the data directory, or nothing",
    },
    Key {
        name: "tcp_token_file",
        kind: Kind::File { set: |c, path| c.tcp_token_file = path },
        default: "none",
        since: "0.1.0",
        about: "A file that holds the token for calls over TCP: at least 16 visible ASCII characters. Without one, every \
                start makes a new token. Refused if everybody may read it, or if it belongs to another user than the \
                server's or root",
    },
    Key {
        name: "durability",
        kind: Kind::Word {
            words: &[
                ("group", |c| c.durability = Durability::Group),
                ("each", |c| c.durability = Durability::Each),
                ("process", |c| c.durability = Durability::Process),
            ],
        },
        default: "group",
        since: "0.1.0",
        about: "When a record is acknowledged: on disk by a shared sync, on disk by a sync of its own, or in the \
                cache of the system, which a power cut loses. A task may say otherwise",
    },
    Key {
        name: "models",
        kind: Kind::Table { set: |c, table| c.models = table },
        default: "none",
        since: "0.1.0",
        about: "How many tokens models take, by name, or by the start of a name and `*`: what a task's `context_length` \
                does not say. Well-known models need not stand here. In a variable: `NAME=TOKENS,…`",
    },
    Key {
        name: "limits.message_bytes",
        kind: Kind::Bytes {
            least: KIB,
            most: 31 * MIB,
            set: |c, bytes| c.limits.message_bytes = size(bytes),
        },
        default: "16MiB",
        since: "0.1.0",
        about: "Largest message",
    },
    Key {
        name: "limits.bytes_in_flight",
        kind: Kind::Bytes {
            least: MIB,
            most: 64 * GIB,
            set: |c, bytes| c.limits.bytes_in_flight = size(bytes),
        },
        default: "256MiB",
        since: "0.1.0",
        about: "Of all requests that are being worked on; at least `limits.message_bytes`. Messages of up to 64 KiB have 8 MiB more",
    },
    Key {
        name: "limits.streams_per_connection",
        kind: Kind::Count {
            least: 1,
            most: MANY,
            set: |c, count| c.limits.streams_per_connection = small(count),
        },
        default: "256",
        since: "0.1.0",
        about: "Calls at once on one connection",
    },
    Key {
        name: "limits.connections",
        kind: Kind::Count { least: 1, most: MANY, set: |c, count| c.limits.connections = size(count) },
        default: "1024",
        since: "0.1.0",
        about: "Connections at once, on each address. One on which nobody calls who may call ends after ten seconds",
    },
    Key {
        name: "limits.read_streams",
        kind: Kind::Count { least: 1, most: MANY, set: |c, count| c.limits.read_streams = size(count) },
        default: "512",
        since: "0.1.0",
        about: "Streaming reads at once",
    },
    Key {
        name: "limits.open_tasks",
        kind: Kind::Count { least: 1, most: MANY, set: |c, count| c.limits.open_tasks = size(count) },
        default: "2048",
        since: "0.1.0",
        about: "Tasks kept open at once; each takes up to seven file handles. Fewer are kept open where the system \
                allows too few",
    },
    Key {
        name: "limits.task_bytes",
        kind: Kind::Bytes { least: 0, most: u64::MAX, set: |c, bytes| c.limits.task_bytes = bytes },
        default: "0",
        since: "0.1.0",
        about: "Largest task, counting its logs and its view; 0: no limit",
    },
    Key {
        name: "limits.store_bytes",
        kind: Kind::Bytes { least: 0, most: u64::MAX, set: |c, bytes| c.limits.store_bytes = bytes },
        default: "0",
        since: "0.1.0",
        about: "All tasks together on disk, with all their files; 0: no limit",
    },
    Key {
        name: "limits.read_idle",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.limits.read_idle = time },
        default: "1m",
        since: "0.1.0",
        about: "How long a reader may take nothing of a stream before the call ends",
    },
    Key {
        name: "lease.ttl",
        kind: Kind::Time { least: SHORT, most: DAY, set: |c, time| c.lease.ttl = time },
        default: "30s",
        since: "0.1.0",
        about: "How long a lease lives without being renewed",
    },
    Key {
        name: "catalog.busy_timeout",
        kind: Kind::Time { least: Duration::ZERO, most: HOUR, set: |c, time| c.catalog.busy_timeout = time },
        default: "30s",
        since: "0.1.0",
        about: "How long SQLite waits for another process that uses `tasks.db`, each time",
    },
    Key {
        name: "catalog.retries",
        kind: Kind::Count { least: 0, most: 100, set: |c, count| c.catalog.retries = small(count) },
        default: "3",
        since: "0.1.0",
        about: "How often a busy catalog is tried again, after pauses that grow",
    },
    Key {
        name: "server.drain",
        kind: Kind::Time { least: Duration::ZERO, most: HOUR, set: |c, time| c.server.drain = time },
        default: "10s",
        since: "0.1.0",
        about: "How long calls may go on after the server was told to stop",
    },
    Key {
        name: "server.keepalive_interval",
        kind: Kind::Time { least: SHORT, most: HOUR, set: |c, time| c.server.keepalive_interval = time },
        default: "20s",
        since: "0.1.0",
        about: "How often a quiet connection is asked whether it lives",
    },
    Key {
        name: "server.keepalive_timeout",
        kind: Kind::Time { least: SHORT, most: HOUR, set: |c, time| c.server.keepalive_timeout = time },
        default: "10s",
        since: "0.1.0",
        about: "How long it may take to answer",
    },
];

const LAST: &[Key] = &[
    Key {
        name: "tokens.counter",
        kind: Kind::Word {
            words: &[
                ("fitted", |c| c.tokens.counter = TokenCounter::Fitted),
                ("heuristic", |c| c.tokens.counter = TokenCounter::Heuristic),
                ("o200k", |c| c.tokens.counter = TokenCounter::O200k),
                ("cl100k", |c| c.tokens.counter = TokenCounter::Cl100k),
            ],
        },
        default: "fitted",
        since: "0.1.0",
        about: "How tokens are counted: estimated without tables, by the length alone, or exactly by an encoding of \
                OpenAI's, which takes about 12 MB of memory once a task uses it. A task may say otherwise",
    },
    Key {
        name: "log.format",
        kind: Kind::Word {
            words: &[
                ("text", |c| c.log.format = LogFormat::Text),
                ("json", |c| c.log.format = LogFormat::Json),
            ],
        },
        default: "text",
        since: "0.1.0",
        about: "What a line of the log on stderr looks like",
    },
    Key {
        name: "log.level",
        kind: Kind::Filter { set: |c, filter| c.log.level = filter },
        default: "info",
        since: "0.1.0",
        about: "What is logged. `CONTEXTSTORE_LOG` wins",
    },
];

/// The ranges of the keys keep counts far below the limits of these types.
pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Environment variables with our prefix that are not keys, with their purpose.
pub(super) const OTHER_VARIABLES: &[(&str, &str)] = &[
    ("CONTEXTSTORE_CONFIG", "The configuration file; `--config` wins"),
    ("CONTEXTSTORE_LOG", "What is logged, by the server and by every other command; wins over `log.level`"),
    ("CONTEXTSTORE_ADDRESS", "Clients and commands: where the server is"),
    ("CONTEXTSTORE_TOKEN", "Clients and commands: the token for TCP"),
    ("CONTEXTSTORE_TOKEN_FILE", "Clients and commands: the file that holds the token"),
    ("CONTEXTSTORE_BINARY", "Clients: the server that `spawn` starts"),
    ("CONTEXTSTORE_CA_FILE", "Clients: who has signed the server's certificate"),
    ("CONTEXTSTORE_CERT_FILE", "Clients: a certificate of their own"),
    ("CONTEXTSTORE_KEY_FILE", "Clients: the key of that certificate"),
    ("CONTEXTSTORE_FAKE_LLM", "Tests and examples: the program that plays a model"),
    ("CONTEXTSTORE_BIN", "Tests of the clients: the server to run"),
    ("CONTEXTSTORE_TEST_LONG", "Tests: run at full size"),
];
