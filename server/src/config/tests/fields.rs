//! Every key reaches its field, whether by file or environment, and what is printed says the same.

use super::super::keys::KEYS;
use super::*;
use crate::context::{
    BreakerConfig, CompressionSettings, InheritanceSettings, OutputsSettings, Policy, PruneSettings, Rank,
    ServerPolicy, WindowSettings,
};
use crate::mask::{CustomRule, Rule};
use crate::model::{Provider, TaskConfig};

/// A file with another value than the default for every key.
const OTHERWISE: &str = r#"
data_dir: /srv/agent contexts
listen:
  - unix:/run/contextstore/s.sock
  - tcp:[::1]:0
  - tcp:localhost:7001
admin_listen: localhost:9464
tcp_auth: none
tcp_token_file: /run/token
durability: each
models:
  own-model: 4096
  gpt-4.1: 5000
  "x*": 6
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
  enabled: false
  auto: false
  strategy: prune
  threshold: 0.25
  token_threshold: 8000
  max_request_bytes: 5MiB
  keep_recent_messages: 6
  min_messages: 7
  complexity: complex
  preset: aggressive
  summarizer: extractive
  provider: ollama
  model: small
  summary_prompt: |
    Sum it up:
    "all" of it
  final_summary_prompt: The end
  summary_directives: [one, "two: 2"]
  retain_prompt: Keep
  retain_directives: [three]
  retain_last_turns: 2
  structured: true
  keep_plan: true
  summary_tokens: 900
  summary_timeout: 1m
  max_at_once: 3
  agent_ttl: 5m
  breaker:
    failures: 4
    pause: 1s
    longest: 2s
prune:
  target: 0.5
  rank: density
  weights: {recency: 0.1, role: 0.2, content: 0.6}
  roles: {user: 0.9, assistant: 0.8, tool: 0.6, system: 0.4, other: 0}
  keywords: [Alarm, 警報]
  short_length: 21
  short_penalty: 0.6
  min_gap_for_summary: 8
  gap: {message_chars: 201, max_tokens: 151, temperature: 1.5}
window:
  messages: 11
  tokens: 12
inheritance:
  enabled: false
  max_summary_tokens: 4001
outputs:
  enabled: false
  budget_tokens: 30000
  max_message_bytes: 20KiB
  max_line_length: 500
  tail_bytes: 4KiB
  protected_tools: [plan, "read file"]
  pack_after: 2h
tokens:
  counter: cl100k
log:
  format: json
  level: warn,contextstore=debug
masking:
  enabled: false
  rules:
    jwt: off
    email: on
  custom:
    acme: 'ACME-[0-9]{6}$'
  allow: [AKIAIOSFODNN7EXAMPLE, "/x.*/"]
  personal: true
hooks:
  started: {command: [/bin/a, "b c"], url: http://host/started?key=1}
  resumed: {command: [/bin/b], url: http://host/resumed}
  paused: {command: [/bin/c], url: http://host/paused}
  completed: {command: [/bin/d], url: http://host/completed}
  failed: {command: [/bin/e], url: http://host/failed}
  compressed: {command: [/bin/f], url: http://host/compressed}
  timeout: 1s
  retries: 0
  queue: 5
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
"#;

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
        tcp_token_file: Some("/run/token".into()),
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
        outputs: Outputs { pack_after: Duration::from_secs(7200) },
        models: vec![("gpt-4.1".to_owned(), 5000), ("own-model".to_owned(), 4096), ("x*".to_owned(), 6)],
        context: context(),
        scoring: Scoring {
            rank: Rank::Density,
            roles: [0.9, 0.8, 0.6, 0.4, 0.0],
            keywords: vec!["alarm".to_owned(), "警報".to_owned()],
            short_length: 21,
            short_penalty: 0.6,
            min_gap_for_summary: 8,
            gap_message_chars: 201,
            gap_max_tokens: 151,
            gap_temperature: 1.5,
        },
        compression: Compression {
            summary_timeout: Duration::from_secs(60),
            max_at_once: 3,
            agent_ttl: Duration::from_secs(300),
            breaker: BreakerConfig {
                failures: 4,
                pause: Duration::from_secs(1),
                longest: Duration::from_secs(2),
            },
        },
        masking: Masking {
            enabled: false,
            rules: vec![(Rule::Jwt, false), (Rule::Email, true)],
            custom: vec![CustomRule {
                name: "acme".to_owned(),
                pattern: "ACME-[0-9]{6}$".to_owned(),
                label: "[ACME]".to_owned(),
            }],
            allow: vec!["AKIAIOSFODNN7EXAMPLE".to_owned(), "/x.*/".to_owned()],
            personal: true,
        },
        hooks: HookSettings {
            started: hook(&["/bin/a", "b c"], "started?key=1"),
            resumed: hook(&["/bin/b"], "resumed"),
            paused: hook(&["/bin/c"], "paused"),
            completed: hook(&["/bin/d"], "completed"),
            failed: hook(&["/bin/e"], "failed"),
            compressed: hook(&["/bin/f"], "compressed"),
            timeout: Duration::from_secs(1),
            retries: 0,
            queue: 5,
        },
        tokens: Tokens { counter: TokenCounter::Cl100k },
        log: Log { format: LogFormat::Json, level: "warn,contextstore=debug".to_owned() },
        llm: LlmSettings {
            provider: Some(Provider::Anthropic),
            connect_timeout: Duration::from_secs(1),
            first_byte_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(3),
            retries: 0,
            max_retry_after: Duration::from_secs(4),
            providers: std::array::from_fn(|at| ProviderSettings {
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

fn hook(command: &[&str], path: &str) -> HookTarget {
    HookTarget {
        command: command.iter().map(ToString::to_string).collect(),
        url: Some(format!("http://host/{path}")),
    }
}

fn context() -> Settings {
    let text = |text: &str| Some(text.to_owned());
    Settings {
        compression: CompressionSettings {
            enabled: Some(false),
            auto: Some(false),
            strategy: text("prune"),
            threshold: Some(0.25),
            token_threshold: Some(8000),
            max_request_bytes: Some(5 << 20),
            keep_recent_messages: Some(6),
            min_messages: Some(7),
            complexity: text("complex"),
            preset: text("aggressive"),
            summarizer: text("extractive"),
            provider: text("ollama"),
            model: text("small"),
            summary_prompt: text("Sum it up:\n\"all\" of it\n"),
            final_summary_prompt: text("The end"),
            summary_directives: Some(vec!["one".to_owned(), "two: 2".to_owned()]),
            retain_prompt: text("Keep"),
            retain_directives: Some(vec!["three".to_owned()]),
            retain_last_turns: Some(2),
            structured: Some(true),
            keep_plan: Some(true),
            summary_tokens: Some(900),
        },
        prune: PruneSettings {
            target: Some(0.5),
            recency_weight: Some(0.1),
            role_weight: Some(0.2),
            content_weight: Some(0.6),
        },
        window: WindowSettings { messages: Some(11), tokens: Some(12) },
        inheritance: InheritanceSettings { enabled: Some(false), max_summary_tokens: Some(4001) },
        outputs: OutputsSettings {
            enabled: Some(false),
            budget_tokens: Some(30_000),
            max_message_bytes: Some(20 << 10),
            max_line_length: Some(500),
            tail_bytes: Some(4 << 10),
            protected_tools: Some(vec!["plan".to_owned(), "read file".to_owned()]),
        },
    }
}

/// The tables have the same defaults as the code that uses the values.
#[test]
fn nothing_said_of_contexts_is_as_if_nothing_could_be_said() {
    let config = defaults();
    let policy = |server: &ServerPolicy| Policy::resolve(None, &TaskConfig::default(), server);
    let server = ServerPolicy {
        settings: config.context,
        scoring: config.scoring.into(),
        models: config.models,
        ..ServerPolicy::default()
    };
    let mut plain = policy(&ServerPolicy::default());
    plain.max_request_bytes = 28 << 20;
    assert_eq!(policy(&server), plain);
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
        open_tasks: 2048,
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
    let Compression { summary_timeout, max_at_once, agent_ttl, breaker } = config.compression;
    assert_eq!((summary_timeout, max_at_once), (Duration::from_secs(120), 2));
    assert_eq!(agent_ttl, Duration::from_secs(600));
    let (pause, longest) = (Duration::from_secs(30), Duration::from_secs(600));
    assert_eq!(breaker, BreakerConfig { failures: 3, pause, longest });
    assert_eq!((config.models.len(), config.hooks.started.command.len()), (0, 0));
    assert_eq!((config.hooks.timeout, config.hooks.retries), (Duration::from_secs(10), 3));
    assert_eq!((config.hooks.queue, config.hooks.failed.url), (1024, None));
    let Masking { enabled, rules, custom, allow, personal } = config.masking;
    assert_eq!((enabled, rules.len(), custom.len(), allow.len(), personal), (true, 0, 0, 0, false));
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
        let pair = |(name, value): (&String, &serde_json::Value)| format!("{name}={}", text(value));
        let map = value.json.as_object().map(|map| map.iter().map(pair).collect::<Vec<_>>().join(","));
        list.or(map).unwrap_or_else(|| text(&value.json))
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
