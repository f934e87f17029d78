//! What is refused, and the words for it.

use super::super::keys::KEYS;
use super::super::older::{GONE, RENAMED};
use super::*;

/// A key that stands where its variable or its address should is refused, and told to nobody.
#[test]
fn what_may_be_a_secret_is_not_repeated() {
    for (key, value) in [
        ("api_key_env", "sk-proj-secret"),
        ("api_key_env", "${THE_KEY}"),
        ("base_url", "https://me:sk-proj-secret@host/v1"),
        ("base_url", "https://host/v1?key=sk-proj-secret"),
        ("base_url", "ftp://host/sk-proj-secret"),
        ("base_url", "sk-proj-secret"),
    ] {
        let yaml = format!("llm: {{providers: {{openai: {{{key}: \"{value}\"}}}}}}");
        let error = load(Flags::default(), &yaml, &[("THE_KEY", "sk-proj-secret")]).unwrap_err();
        let words = format!("{error} {error:?}");
        assert!(words.contains(key) && !words.contains("secret"), "{words}");
    }
}

#[test]
fn unknown_keys_are_named_with_the_nearest_known_one() {
    for (yaml, words) in [
        (
            "limits:\n  mesage_bytes: 1",
            ":2: there is no key limits.mesage_bytes; did you mean limits.message_bytes?",
        ),
        ("datadir: x", ":1: there is no key datadir; did you mean data_dir?"),
        ("message_bytes: 1MiB", ":1: there is no key message_bytes; did you mean limits.message_bytes?"),
        ("server:\n  ttl: 1s", ":2: there is no key server.ttl; did you mean lease.ttl?"),
        (
            "context:\n  compression:\n    token_threshold: 1",
            ":3: there is no key context.compression.token_threshold; did you mean compression.token_threshold?",
        ),
        ("data_dir:\n  path: x", ":2: there is no key data_dir.path; did you mean data_dir?"),
        ("zebra: 1", ":1: there is no key zebra"),
        ("zebra: {}", ":1: there is no key zebra"),
    ] {
        assert_eq!(wrong_in_file(yaml), words);
    }
    for (name, words) in [
        (
            "CONTEXTSTORE_LIMITS_OPEN_TASKS",
            "there is no key limits_open_tasks; did you mean CONTEXTSTORE_LIMITS__OPEN_TASKS?",
        ),
        ("CONTEXTSTORE_DATADIR", "there is no key datadir; did you mean CONTEXTSTORE_DATA_DIR?"),
        ("CONTEXTSTORE_TOKENFILE", "there is no key tokenfile; did you mean CONTEXTSTORE_TOKEN_FILE?"),
        ("CONTEXTSTORE_BASE_DIR", "base_dir has another name here: use CONTEXTSTORE_DATA_DIR"),
        ("CONTEXTSTORE_QQQQQ", "there is no key qqqqq"),
    ] {
        assert_eq!(wrong_in_environment(name, "1"), format!("{name}: {words}"));
    }
}

#[test]
fn names_of_older_designs_are_refused_with_the_name_of_today() {
    let words = wrong_in_file("context_storage:\n  base_dir: logs/contexts");
    assert_eq!(words, ":2: context_storage.base_dir has another name here: use data_dir");
    let words = wrong_in_file("db_timeout: 60");
    assert_eq!(words, ":1: db_timeout has another name here: use catalog.busy_timeout");
    let words = wrong_in_file("compression:\n  thresholdRatio: 0.8");
    assert_eq!(words, ":2: compression.thresholdRatio has another name here: use compression.threshold");
    let words = wrong_in_file("compression:\n  keep_recent: 10");
    assert_eq!(
        words,
        ":2: compression.keep_recent has another name here: use compression.keep_recent_messages"
    );
    let words = wrong_in_file("prune:\n  recency_weight: 0.3");
    assert_eq!(words, ":2: prune.recency_weight has another name here: use prune.weights.recency");
    let words = wrong_in_file("toolOutputCache:\n  contextBudgetTokens: 30000");
    assert_eq!(
        words,
        ":2: toolOutputCache.contextBudgetTokens has another name here: use outputs.budget_tokens"
    );
    let words = wrong_in_file("toolOutputCache: {enabled: true}");
    assert_eq!(words, ":1: toolOutputCache.enabled has another name here: use outputs.enabled");
    let words = wrong_in_file("retention_days: 5");
    assert_eq!(words, ":1: retention_days is not a setting here: this version has nothing that it would set");
    for (old, now) in RENAMED {
        assert!(names::find(now).is_some(), "{old} is sent to {now}, which is no key");
    }
    for old in RENAMED.iter().map(|(old, _)| old).chain(GONE.iter().map(|(old, _)| old)) {
        let is_key = KEYS.iter().any(|key| key.name.rsplit('.').next() == Some(old));
        assert!(!is_key, "{old} is a key");
    }
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (yaml, words) in [
        ("limits: {message_bytes: 1023}", "limits.message_bytes must be a size from 1KiB to 31MiB"),
        ("limits: {message_bytes: 32MiB}", "limits.message_bytes must be a size from 1KiB to 31MiB"),
        ("limits: {connections: 0}", "limits.connections must be a number from 1 to 65536"),
        ("limits: {connections: -1}", "limits.connections must be a whole number"),
        ("limits: {connections: 1.5}", "limits.connections must be a whole number"),
        (
            "limits: {read_idle: 60}",
            "limits.read_idle must be a time such as 500ms, 30s or 10m (ms, s, m, h)",
        ),
        ("limits: {read_idle: 1ms}", "limits.read_idle must be a time from 100ms to 24h"),
        (
            "limits: {task_bytes: 1MB}",
            "limits.task_bytes must be a size such as 64KiB, 16MiB or 1048576 (B, KiB, MiB, GiB, TiB)",
        ),
        ("catalog: {retries: 101}", "catalog.retries must be a number from 0 to 100"),
        (
            "compression: {threshold: 0}",
            "compression.threshold must be a number over 0 and at most 1, or `none`",
        ),
        (
            "compression: {threshold: 70}",
            "compression.threshold must be a number over 0 and at most 1, or `none`",
        ),
        (
            "compression: {threshold: NaN}",
            "compression.threshold must be a number over 0 and at most 1, or `none`",
        ),
        (
            "compression: {token_threshold: 0}",
            "compression.token_threshold must be a number from 1, or `none`",
        ),
        (
            "compression: {strategy: zip}",
            "compression.strategy must be `summarize`, `compact`, `prune` or `window`, not \"zip\"",
        ),
        ("compression: {auto: maybe}", "compression.auto must be `true` or `false`"),
        (
            "compression: {keep_recent_messages: 1000001}",
            "compression.keep_recent_messages must be a number from 0 to 1000000",
        ),
        (
            "compression: {complexity: hard}",
            "compression.complexity must be `none`, `simple`, `medium` or `complex`, not \"hard\"",
        ),
        (
            "compression: {summary_prompt: ' '}",
            "compression.summary_prompt must be text of at most 16KiB, or `none`",
        ),
        (
            "compression: {summary_directives: [a, '']}",
            "compression.summary_directives must be a list of at most 64 texts of at most 1KiB each",
        ),
        ("prune: {weights: {role: 1.5}}", "prune.weights.role must be a number from 0 to 1"),
        ("prune: {weights: {role: NaN}}", "prune.weights.role must be a number from 0 to 1"),
        ("prune: {roles: 5}", "prune.roles is a section: its keys stand below it, indented"),
        ("models: {a: 0}", "models has \"a=0\", whose number is not a whole one from 1"),
        ("models: {a: [1]}", "models has \"a\" without one value"),
        ("models: [a]", "models has \"a\", which is no NAME=NUMBER"),
        ("models: 'a=1,a=2'", "models has \"a\" twice"),
        ("masking: {rules: {jwt: 7}}", "masking.rules has \"jwt\", which must be on or off"),
        ("masking: {rules: 'jwt=on,jwt=off'}", "masking.rules has \"jwt\" twice"),
        ("masking: {custom: {x: 'a*'}}", "masking.custom has \"x\", whose pattern matches the empty text"),
        (
            "masking: {allow: ['/(/']}",
            "masking.allow has \"/(/\", which is not a regular expression: unclosed group",
        ),
        (
            "hooks: {failed: {url: 'https://me:secret@host'}}",
            "hooks.failed.url must be `http://HOST` or `https://HOST`, with a path and a query, without a user, or `none`",
        ),
        (
            "compression: {breaker: {longest: 1s}}",
            "compression.breaker.longest must be at least compression.breaker.pause",
        ),
        ("outputs: {max_message_bytes: 1000}", "outputs.max_message_bytes must be a size from 1KiB to 1MiB"),
        ("outputs: {max_line_length: 39}", "outputs.max_line_length must be a number from 40 to 1000000"),
        (
            "outputs: {max_message_bytes: 4KiB, tail_bytes: 2049}",
            "outputs.tail_bytes must be at most half of outputs.max_message_bytes",
        ),
        (
            "outputs: {protected_tools: ['']}",
            "outputs.protected_tools must be a list of at most 64 texts of at most 1KiB each",
        ),
        ("tcp_auth: maybe", "tcp_auth must be `token` or `none`, not \"maybe\""),
        ("data_dir: 007", "data_dir must be text: write it in quotes if 7 is meant"),
        ("data_dir: ''", "data_dir must be a path"),
        ("data_dir: [a]", "data_dir must be one value, not a list"),
        ("data_dir:", "data_dir has no value: remove the line, or give it one"),
        ("limits: 5", "limits is a section: its keys stand below it, indented"),
        ("listen: [5]", "listen must be a list of texts"),
        ("listen: [tcp: '127.0.0.1:1']", "listen must be a list of texts"),
    ] {
        assert_eq!(wrong_in_file(yaml), format!(":1: {words}"));
    }
    let unknown = wrong_in_file("masking: {rules: {x: off}}");
    assert!(unknown.starts_with(":1: masking.rules has \"x\", which is no rule; they are "), "{unknown}");
    let words = wrong_in_environment("CONTEXTSTORE_LEASE__TTL", "");
    assert_eq!(words, "CONTEXTSTORE_LEASE__TTL: lease.ttl is empty: unset it, or give it a value");
    let words = wrong_in_file("limits:\n  bytes_in_flight: 8MiB");
    assert!(words.starts_with(":2: limits.bytes_in_flight must be at least limits.message_bytes"), "{words}");
}

#[test]
fn the_service_listens_on_this_machine_only() {
    for (address, words) in [
        (
            "tcp:0.0.0.0:50551",
            "0.0.0.0:50551 needs TLS, which this version does not have; listen on loopback (127.0.0.1, [::1])",
        ),
        (
            "tcp:[::]:1",
            "[::]:1 needs TLS, which this version does not have; listen on loopback (127.0.0.1, [::1])",
        ),
        (
            "tcp:127.0.0.1",
            "must have a host and a port: an IP address or localhost, such as 127.0.0.1:50551 or [::1]:50551",
        ),
        (
            "tcp:example.org:1",
            "must have a host and a port: an IP address or localhost, such as 127.0.0.1:50551 or [::1]:50551",
        ),
        ("127.0.0.1:1", "must be unix:PATH or tcp:HOST:PORT"),
        ("unix:", "must have a path after unix:, without zero bytes"),
    ] {
        let parsed: Result<Listen, _> = address.parse();
        assert_eq!(parsed.unwrap_err().to_string(), words);
        let said = wrong_in_file(&format!("listen: ['{address}']"));
        assert_eq!(said, format!(":1: listen has \"{address}\", which {words}"));
    }
    let flags = Flags { listen: vec![Listen::Tcp("10.0.0.1:1".parse().unwrap())], ..Flags::default() };
    let words = problems(load(flags, "", &[])).remove(0);
    assert!(
        words.starts_with("--listen: listen has \"tcp:10.0.0.1:1\", which 10.0.0.1:1 needs TLS"),
        "{words}"
    );
    let words = wrong_in_file("admin_listen: 10.0.0.1:9464");
    assert!(words.starts_with(":1: admin_listen 10.0.0.1:9464 needs TLS"), "{words}");
    let words = wrong_in_file("listen: [unix:a, unix:a]");
    assert_eq!(words, ":1: listen has unix:a twice");
    assert_eq!(from_yaml("listen: [tcp:127.0.0.1:0, tcp:127.0.0.1:0]").listen.len(), 2);
    assert_eq!(from_yaml("listen: 'unix:a, tcp:localhost:0'").listen.len(), 2);
    assert_eq!(from_yaml("admin_listen: none").admin_listen, None);
    for address in ["unix:/run/a b.sock", "tcp:127.0.0.1:0", "tcp:[::1]:50551"] {
        assert_eq!(address.parse::<Listen>().unwrap().to_string(), address);
    }
}

#[test]
fn the_path_of_a_socket_has_the_length_that_the_system_takes() {
    let longest = format!("unix:/{}", "x".repeat(MAX_SOCKET_PATH - 1));
    assert!(longest.parse::<Listen>().is_ok());
    let error = format!("{longest}x").parse::<Listen>().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "is too long: the socket's path /{} has 108 bytes, and the system takes at most 107",
            "x".repeat(107)
        )
    );

    // The socket that is taken where nothing is configured is in the data directory.
    let at =
        |dir: &str, listen: &str| load(Flags::default(), &format!("data_dir: {dir}\nlisten: {listen}"), &[]);
    let longest = "d".repeat(MAX_SOCKET_PATH - "/contextstore.sock".len());
    let (config, _) = at(&longest, "[]").unwrap();
    let port = Listen::Tcp("127.0.0.1:50551".parse().unwrap());
    assert_eq!(config.listeners(), [Listen::Unix(format!("{longest}/contextstore.sock").into()), port]);
    let words = problems(at(&format!("{longest}d"), "[]")).remove(0);
    assert!(words.starts_with(":1: data_dir is too long: the socket's path ddd"), "{words}");
    let (config, _) = at(&format!("{longest}d"), "['unix:s']").unwrap();
    assert_eq!(config.listeners(), [Listen::Unix("s".into())]);
}

#[test]
fn a_file_is_one_map_of_keys_without_doubles() {
    for empty in ["", "# nothing\n", "---\n", "limits:\n", "limits: {}\nlog: null\n"] {
        assert_eq!(from_yaml(empty), defaults(), "{empty:?}");
    }
    for (yaml, words) in [
        ("data_dir: a\ndata_dir: b", "duplicate mapping key: data_dir"),
        ("limits: {open_tasks: 1, open_tasks: 1}", "duplicate mapping key: open_tasks"),
        ("- a", "must be a map of keys to values"),
        ("data_dir", "must be a map of keys to values"),
        ("data_dir: [", "line 1, column"),
        ("data_dir: a\n---\ndata_dir: b", "only single YAML document expected"),
        ("? [a]\n: b", "line 1"),
    ] {
        let said = wrong_in_file(yaml);
        assert!(said.contains(words), "{yaml:?}: {said}");
        assert!(!said.contains('\n') && !said.contains("Options"), "{said}");
    }
    let deep: String = (0..20).map(|level| format!("{:level$}a:\n", "")).collect();
    let said = wrong_in_file(&deep);
    assert!(said.contains("depth"), "{said}");
    let large = format!("# {}\n", "x".repeat(1 << 20));
    assert!(wrong_in_file(&large).contains("more than 1048576 bytes"));
    let bomb = "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: [*b, *b]\n";
    assert_eq!(problems(load(Flags::default(), bomb, &[])).len(), 3);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let environment = [("CONTEXTSTORE_LEASE__TTL", "soon"), ("CONTEXTSTORE_NONSENSE", "1")];
    let error = load(Flags::default(), "tcp_auth: x\nfoo: 1\nlog: {level: loud}", &environment).unwrap_err();
    assert_eq!(error.problems.len(), 5, "{error}");
    let words = error.to_string();
    assert!(words.starts_with("configuration: 5 problems\n  /"), "{words}");
    assert!(words.contains("\n  CONTEXTSTORE_LEASE__TTL: lease.ttl must be a time"), "{words}");
}
