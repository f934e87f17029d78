//! Configurations from given files and environments: what comes out, and the words for what is wrong.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use super::keys::{GONE, KEYS, RENAMED};
use super::*;
use crate::model::Provider;

type Loaded = Result<(Config, Vec<Setting>), ConfigError>;

fn load(flags: Flags, yaml: &str, environment: &[(&str, &str)]) -> Loaded {
    let mut file = tempfile::Builder::new().prefix("contextstore").suffix(".yaml").tempfile().unwrap();
    file.write_all(yaml.as_bytes()).unwrap();
    let flags = Flags { config: Some(file.path().to_owned()), ..flags };
    let environment = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Config::load_with(&flags, environment)
}

fn defaults() -> Config {
    Config::load_with(&Flags::default(), []).unwrap().0
}

fn from_yaml(yaml: &str) -> Config {
    load(Flags::default(), yaml, &[]).unwrap().0
}

/// The words for everything that is wrong, without the name of the file.
fn problems(loaded: Loaded) -> Vec<String> {
    let error = loaded.expect_err("it should be refused");
    let words = |problem: &Problem| {
        let words = problem.to_string();
        words.split_once(".yaml").map_or(words.clone(), |(_, rest)| rest.trim_start_matches(": ").to_owned())
    };
    error.problems.iter().map(words).collect()
}

fn wrong_in_file(yaml: &str) -> String {
    let mut problems = problems(load(Flags::default(), yaml, &[]));
    assert_eq!(problems.len(), 1, "{yaml}: {problems:?}");
    problems.remove(0)
}

fn wrong_in_environment(name: &str, value: &str) -> String {
    let mut problems = problems(load(Flags::default(), "", &[(name, value)]));
    assert_eq!(problems.len(), 1, "{name}={value}: {problems:?}");
    problems.remove(0)
}

fn setting(settings: &[Setting], key: &str) -> (String, Origin) {
    let setting = settings.iter().find(|setting| setting.key == key).unwrap();
    (setting.value.yaml.clone(), setting.origin.clone())
}

/// A file with another value than the default for every key.
const OTHERWISE: &str = "
data_dir: /srv/agent contexts
listen:
  - unix:/run/contextstore/s.sock
  - tcp:[::1]:0
  - tcp:localhost:7001
admin_listen: localhost:9464
tcp_auth: none
durability: each
limits:
  message_bytes: 64 KiB
  bytes_in_flight: 1048576
  streams_per_connection: 7
  connections: 8
  read_streams: 9
  open_tasks: 10
  task_bytes: 3GiB
  store_bytes: 1TiB
  read_idle: 500ms
lease:
  ttl: 10m
catalog:
  busy_timeout: 0s
  retries: 0
server:
  drain: 1h
  keepalive_interval: 21s
  keepalive_timeout: 11s
compression:
  strategy: prune
  threshold: 0.25
  token_threshold: 8000
  max_request_bytes: 5MiB
tokens:
  counter: cl100k
log:
  format: json
  level: warn,contextstore=debug
llm:
  provider: anthropic
  connect_timeout: 1s
  first_byte_timeout: 2s
  idle_timeout: 3s
  retries: 0
  max_retry_after: 4s
  providers:
    openai:
      base_url: http://host0:80/v0/
      api_key_env: KEY_0
      api_key_file: /run/keys/0
      model: model-0
      max_output_tokens: 10
      context_length: 100
      timeout: 20s
    openai_responses:
      base_url: http://host1:80/v1/
      api_key_env: KEY_1
      api_key_file: /run/keys/1
      model: model-1
      max_output_tokens: 11
      context_length: 101
      timeout: 21s
    anthropic:
      base_url: http://host2:80/v2/
      api_key_env: KEY_2
      api_key_file: /run/keys/2
      model: model-2
      max_output_tokens: 12
      context_length: 102
      timeout: 22s
    ollama:
      base_url: http://host3:80/v3/
      api_key_env: KEY_3
      api_key_file: /run/keys/3
      model: model-3
      max_output_tokens: 13
      context_length: 103
      timeout: 23s
    lmstudio:
      base_url: http://host4:80/v4/
      api_key_env: KEY_4
      api_key_file: /run/keys/4
      model: model-4
      max_output_tokens: 14
      context_length: 104
      timeout: 24s
";

fn otherwise() -> Config {
    Config {
        data_dir: "/srv/agent contexts".into(),
        listen: vec![
            Listen::Unix("/run/contextstore/s.sock".into()),
            Listen::Tcp("[::1]:0".parse().unwrap()),
            Listen::Tcp("127.0.0.1:7001".parse().unwrap()),
        ],
        admin_listen: Some("127.0.0.1:9464".parse().unwrap()),
        tcp_auth: TcpAuth::None,
        durability: Durability::Each,
        limits: Limits {
            message_bytes: 64 << 10,
            bytes_in_flight: 1 << 20,
            streams_per_connection: 7,
            connections: 8,
            read_streams: 9,
            open_tasks: 10,
            task_bytes: 3 << 30,
            store_bytes: 1 << 40,
            read_idle: Duration::from_millis(500),
        },
        lease: Lease { ttl: Duration::from_secs(600) },
        catalog: Catalog { busy_timeout: Duration::ZERO, retries: 0 },
        server: Server {
            drain: Duration::from_secs(3600),
            keepalive_interval: Duration::from_secs(21),
            keepalive_timeout: Duration::from_secs(11),
        },
        compression: Compression {
            strategy: "prune".to_owned(),
            threshold: Some(0.25),
            token_threshold: Some(8000),
            max_request_bytes: 5 << 20,
        },
        tokens: Tokens { counter: TokenCounter::Cl100k },
        log: Log { format: LogFormat::Json, level: "warn,contextstore=debug".to_owned() },
        llm: Llm {
            provider: Some(Provider::Anthropic),
            connect_timeout: Duration::from_secs(1),
            first_byte_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(3),
            retries: 0,
            max_retry_after: Duration::from_secs(4),
            providers: std::array::from_fn(|at| ProviderConfig {
                base_url: format!("http://host{at}:80/v{at}"),
                api_key_env: Some(format!("KEY_{at}")),
                api_key_file: Some(format!("/run/keys/{at}").into()),
                model: Some(format!("model-{at}")),
                max_output_tokens: Some(10 + at as u64),
                context_length: Some(100 + at as u64),
                timeout: Duration::from_secs(20 + at as u64),
            }),
        },
    }
}

#[test]
fn nothing_said_gives_the_defaults() {
    let config = defaults();
    let limits = Limits {
        message_bytes: 16 << 20,
        bytes_in_flight: 256 << 20,
        streams_per_connection: 256,
        connections: 1024,
        read_streams: 512,
        open_tasks: 128,
        task_bytes: 0,
        store_bytes: 0,
        read_idle: Duration::from_secs(60),
    };
    assert_eq!(config.limits, limits);
    assert_eq!(config.data_dir, PathBuf::from("contexts"));
    assert_eq!((config.tcp_auth, config.durability), (TcpAuth::Token, Durability::Group));
    assert_eq!((config.listen.len(), config.admin_listen), (0, None));
    assert_eq!(config.lease.ttl, Duration::from_secs(30));
    assert_eq!(config.catalog, Catalog { busy_timeout: Duration::from_secs(30), retries: 3 });
    assert_eq!(config.server.drain, Duration::from_secs(10));
    assert_eq!(config.server.keepalive_interval, Duration::from_secs(20));
    assert_eq!(config.server.keepalive_timeout, Duration::from_secs(10));
    assert_eq!(config.tokens.counter, TokenCounter::Fitted);
    assert_eq!(config.log, Log { format: LogFormat::Text, level: "info".to_owned() });
    let Compression { strategy, threshold, token_threshold, max_request_bytes } = config.compression;
    assert_eq!((strategy.as_str(), threshold, token_threshold), ("summarize", None, None));
    assert_eq!(max_request_bytes, 28 << 20);
    assert_eq!(config.llm.provider, None);
    let urls: Vec<_> = Provider::ALL.iter().map(|who| config.llm.of(*who).base_url.as_str()).collect();
    assert_eq!(urls[0], "https://api.openai.com/v1");
    assert_eq!(urls[1], "https://api.openai.com/v1");
    assert_eq!(urls[2], "https://api.anthropic.com");
    assert_eq!(urls[3], "http://127.0.0.1:11434");
    assert_eq!(urls[4], "http://127.0.0.1:1234/v1");
    assert_eq!(config.llm.of(Provider::OpenAi).api_key_env.as_deref(), Some("OPENAI_API_KEY"));
    assert_eq!(config.llm.of(Provider::Ollama).api_key_env, None);
}

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
fn every_key_of_a_file_reaches_its_field() {
    assert_eq!(from_yaml(OTHERWISE), otherwise());
}

#[test]
fn every_key_of_the_environment_reaches_its_field() {
    let (_, settings) = load(Flags::default(), OTHERWISE, &[]).unwrap();
    let plain = |Setting { value, .. }: &Setting| {
        let text = |json: &serde_json::Value| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        let list = value.json.as_array().map(|items| items.iter().map(text).collect::<Vec<_>>().join(", "));
        list.unwrap_or_else(|| text(&value.json))
    };
    let variables: Vec<_> =
        settings.iter().map(|setting| (names::variable(setting.key), plain(setting))).collect();
    assert!(variables.iter().any(|(name, _)| name == "CONTEXTSTORE_LIMITS__MESSAGE_BYTES"));
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (config, settings) = load(Flags::default(), "", &variables).unwrap();
    assert_eq!(config, otherwise());
    assert!(settings.iter().all(|setting| matches!(setting.origin, Origin::Environment(_))), "{settings:?}");
}

#[test]
fn what_is_printed_is_a_file_that_says_the_same() {
    let (config, settings) = load(Flags::default(), OTHERWISE, &[]).unwrap();
    assert_eq!(settings.len(), KEYS.len());
    let printed = yaml(&settings);
    assert_eq!(from_yaml(&printed), config, "{printed}");
    let (config, settings) = Config::load_with(&Flags::default(), []).unwrap();
    assert_eq!(from_yaml(&yaml(&settings)), config);

    for odd in ["on", "1.5", "~", "a: b", "#x", "it's \"$${HOME}\" \\ \n ü", "- a", "null", "x:", "$$$${A}"]
    {
        let quoted = serde_json::Value::String(odd.to_owned());
        let (config, settings) = load(Flags::default(), &format!("data_dir: {quoted}"), &[]).unwrap();
        let printed = yaml(&settings);
        assert_eq!(from_yaml(&printed).data_dir, config.data_dir, "{printed}");
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let yaml = "data_dir: of-file\nlisten: [tcp:127.0.0.1:1]\nlimits:\n  connections: 5\n  open_tasks: 6\n";
    let environment = [("CONTEXTSTORE_DATA_DIR", "of-env"), ("CONTEXTSTORE_LIMITS__CONNECTIONS", "7")];
    let (config, settings) = load(Flags::default(), yaml, &environment).unwrap();
    assert_eq!((config.data_dir, config.limits.connections), ("of-env".into(), 7));
    assert_eq!(config.limits.open_tasks, 6);
    let (value, origin) = setting(&settings, "limits.open_tasks");
    assert_eq!(value, "6");
    assert!(matches!(&origin, Origin::File { line: 5, .. }), "{origin:?}");
    assert!(origin.to_string().ends_with(".yaml:5"), "{origin}");
    let (_, origin) = setting(&settings, "limits.connections");
    assert_eq!(origin, Origin::Environment("CONTEXTSTORE_LIMITS__CONNECTIONS".to_owned()));
    assert_eq!(setting(&settings, "lease.ttl"), ("30s".to_owned(), Origin::Default));

    let flags = Flags {
        config: None,
        data_dir: Some("of-flag".into()),
        listen: vec![Listen::Unix("s".into()), Listen::Tcp("127.0.0.1:2".parse().unwrap())],
        admin_listen: Some("127.0.0.1:3".parse().unwrap()),
        tcp_auth: Some(TcpAuth::None),
    };
    let (config, settings) = load(flags.clone(), yaml, &environment).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("of-flag"));
    assert_eq!(config.listen, flags.listen);
    assert_eq!((config.admin_listen, config.tcp_auth), (flags.admin_listen, TcpAuth::None));
    for (key, flag) in [
        ("data_dir", "--data-dir"),
        ("listen", "--listen"),
        ("admin_listen", "--admin-listen"),
        ("tcp_auth", "--tcp-auth"),
    ] {
        assert_eq!(setting(&settings, key).1, Origin::Flag(flag));
    }
}

#[test]
fn the_file_can_be_named_by_the_environment_and_the_flag_wins() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"data_dir: of-env-file").unwrap();
    let environment = || [("CONTEXTSTORE_CONFIG".into(), file.path().as_os_str().to_owned())];
    let (config, _) = Config::load_with(&Flags::default(), environment()).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("of-env-file"));
    let missing = Flags { config: Some("gone/contextstore.yaml".into()), ..Flags::default() };
    let error = Config::load_with(&missing, environment()).unwrap_err().to_string();
    assert!(
        error.starts_with("configuration: gone/contextstore.yaml: cannot be read: No such file"),
        "{error}"
    );
    let empty = [("CONTEXTSTORE_CONFIG".into(), OsString::new())];
    let error = Config::load_with(&Flags::default(), empty).unwrap_err().to_string();
    assert!(error.contains("CONTEXTSTORE_CONFIG: config is empty"), "{error}");
}

#[test]
fn a_path_need_not_be_text() {
    let path = OsStr::from_bytes(b"odd-\xff");
    let flags = Flags { data_dir: Some(path.into()), ..Flags::default() };
    assert_eq!(load(flags, "", &[]).unwrap().0.data_dir, PathBuf::from(path));
    let environment = [("CONTEXTSTORE_DATA_DIR".into(), path.to_owned())];
    let error = Config::load_with(&Flags::default(), environment).unwrap_err().to_string();
    assert_eq!(error, "configuration: CONTEXTSTORE_DATA_DIR: data_dir is not UTF-8");
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
        ":2: compression.keep_recent is not a setting here: this version has nothing that it would set"
    );
    for (old, now) in RENAMED {
        assert!(names::find(now).is_some(), "{old} is sent to {now}, which is no key");
    }
    for old in RENAMED.iter().map(|(old, _)| old).chain(GONE.iter().map(|(old, _)| old)) {
        let is_key = KEYS.iter().any(|key| key.name.rsplit('.').next() == Some(old));
        assert!(!is_key, "{old} is a key");
    }
}

#[test]
fn other_variables_are_passed_over() {
    let environment = [
        ("CONTEXTSTORE_TOKEN", "secret"),
        ("CONTEXTSTORE_TOKEN_FILE", "f"),
        ("CONTEXTSTORE_ADDRESS", "unix:x"),
        ("CONTEXT_STORAGE_BASE_DIR", "x"),
        ("HOME", "/root"),
        // Of a Kubernetes service named contextstore, and of one named contextstore-admin.
        ("CONTEXTSTORE_SERVICE_HOST", "10.0.0.1"),
        ("CONTEXTSTORE_SERVICE_PORT", "50551"),
        ("CONTEXTSTORE_SERVICE_PORT_GRPC", "50551"),
        ("CONTEXTSTORE_PORT", "tcp://10.0.0.1:50551"),
        ("CONTEXTSTORE_PORT_50551_TCP", "tcp://10.0.0.1:50551"),
        ("CONTEXTSTORE_PORT_50551_TCP_ADDR", "10.0.0.1"),
        ("CONTEXTSTORE_ADMIN_SERVICE_HOST", "10.0.0.1"),
        ("CONTEXTSTORE_ADMIN_PORT", "tcp://10.0.0.1:9464"),
    ];
    assert_eq!(load(Flags::default(), "", &environment).unwrap().0, defaults());
    let words = wrong_in_environment("CONTEXTSTORE_PORT", "50551");
    assert_eq!(words, "CONTEXTSTORE_PORT: there is no key port");
}

#[test]
fn the_filter_of_the_log_has_a_variable_that_wins() {
    let environment = [("CONTEXTSTORE_LOG", "debug"), ("CONTEXTSTORE_LOG__LEVEL", "warn")];
    let (config, settings) = load(Flags::default(), "log: {level: error}", &environment).unwrap();
    assert_eq!(config.log.level, "debug");
    let (_, origin) = setting(&settings, "log.level");
    assert_eq!(origin, Origin::Environment("CONTEXTSTORE_LOG".to_owned()));
    let words = wrong_in_environment("CONTEXTSTORE_LOG", "inof");
    assert!(
        words.starts_with("CONTEXTSTORE_LOG: log.level cannot be read: \"inof\" is neither a level"),
        "{words}"
    );
}

#[test]
fn variables_in_values_are_put_in() {
    let environment = [
        ("ROOT", "/srv"),
        ("NAME", "a${ROOT}"),
        ("CONTEXTSTORE_LIMITS__OPEN_TASKS", "${COUNT}"),
        ("COUNT", "12"),
    ];
    let dir = |value: &str| {
        let loaded = load(Flags::default(), &format!("data_dir: '{value}'"), &environment);
        loaded.map(|(config, _)| (config.data_dir.display().to_string(), config.limits.open_tasks))
    };
    for (value, expected) in [
        ("${ROOT}/x", "/srv/x"),
        ("${ROOT}${ROOT}", "/srv/srv"),
        ("${NAME}", "a${ROOT}"),
        ("$${ROOT}/$$/$HOME", "${ROOT}/$$/$HOME"),
        ("$$${ROOT}", "$${ROOT}"),
    ] {
        assert_eq!(dir(value), Ok((expected.to_owned(), 12)), "{value}");
    }
    for (value, words) in [
        ("${GONE}/x", "needs the variable GONE, which is not set (or not UTF-8)"),
        ("${ROOT", "has ${ without }; write $${ where ${ itself is meant"),
        ("${}", "has ${}, and \"\" is no name of a variable"),
        ("${ROOT:-x}", "has ${ROOT:-x}, and \"ROOT:-x\" is no name of a variable"),
    ] {
        assert_eq!(wrong_with(&environment, value), format!(":1: data_dir {words}"));
    }
    // The value of a variable is never YAML.
    let environment = [("X", "1, tcp_auth: none")];
    let (config, _) = load(Flags::default(), "data_dir: ${X}", &environment).unwrap();
    assert_eq!(config.data_dir, PathBuf::from("1, tcp_auth: none"));
}

fn wrong_with(environment: &[(&str, &str)], value: &str) -> String {
    problems(load(Flags::default(), &format!("data_dir: '{value}'"), environment)).remove(0)
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

#[test]
fn the_table_is_in_order() {
    let mut sections = Vec::new();
    for key in KEYS {
        let section = names::section_of(key);
        if sections.last() != Some(&section) {
            assert!(!sections.contains(&section), "{} stands apart from its section", key.name);
            sections.push(section);
        }
        let one_line = !key.about.is_empty() && !key.about.ends_with('.') && !key.about.contains(['\n', '|']);
        assert!(one_line, "{}: {}", key.name, key.about);
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
        assert!(key.name.chars().all(is_plain) && !key.name.contains("__"), "{}", key.name);
        assert_eq!(KEYS.iter().filter(|other| other.name == key.name).count(), 1, "{}", key.name);
    }
}
