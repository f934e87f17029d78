//! `contextstore config` from outside, and the documents that follow from the code.

use std::fs;
use std::process::{Command, Output};

use contextstore::config::{Config, Flags};
use contextstore_base::infra::metrics::{METRICS, Metric};
use contextstore_base::model::Provider;
use contextstore_policy::context::{Complexity, CompressionSettings, Preset, Strategy, Summarizer};
use contextstore_store::log::MAX_LINE_BYTES;
use contextstore_store::store::{Store, StoreOptions};
use serde_json::Value;

/// Runs `contextstore config` in an environment of its own; answers how it ended, what it printed and what it
/// complained about.
fn config(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(test_support::program("contextstore"));
    command.env_clear().envs(environment.iter().copied()).arg("config").args(arguments);
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn document(name: &str) -> String {
    let path = test_support::repository().join("docs").join(name);
    fs::read_to_string(path).unwrap()
}

#[test]
fn it_prints_what_is_in_force_and_where_that_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("contextstore.yaml");
    fs::write(&file, "durability: each\nlimits:\n  open_tasks: 5\n  connections: 6\n").unwrap();
    let file = file.to_str().unwrap();
    let environment = [("CONTEXTSTORE_CONFIG", file), ("CONTEXTSTORE_LIMITS__CONNECTIONS", "7")];
    let (code, printed, complaint) =
        config(&["--data-dir", "here", "--listen", "tcp:localhost:0"], &environment);
    assert_eq!((code, complaint.as_str()), (0, ""));
    let has = |key: &str, value: &str, from: &str| {
        let line = printed.lines().find(|line| line.trim_start().starts_with(&format!("{key}: "))).unwrap();
        let (found, origin) = line.split_once(" # ").unwrap();
        assert_eq!(found.trim(), format!("{key}: {value}"));
        assert_eq!(origin, from);
    };
    has("data_dir", "here", "--data-dir");
    has("listen", "[tcp:127.0.0.1:0]", "--listen");
    has("durability", "each", &format!("{file}:1"));
    has("open_tasks", "5", &format!("{file}:3"));
    has("connections", "7", "CONTEXTSTORE_LIMITS__CONNECTIONS");
    has("message_bytes", "16MiB", "default");
    has("summary_prompt", "none", "default");
    assert!(
        printed.contains("# compression.summary_prompt is none: these words are used.\n#   You summarise")
    );

    // What it prints is a file that says the same.
    let again = dir.path().join("again.yaml");
    fs::write(&again, &printed).unwrap();
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" #").next().unwrap().trim_end().to_owned()).collect()
    };
    let (code, reprinted, complaint) = config(&["--config", again.to_str().unwrap()], &[]);
    assert_eq!((code, complaint.as_str()), (0, ""));
    assert_eq!(values(&reprinted), values(&printed));
}

#[test]
fn it_prints_json_for_programs() {
    let (code, printed, _) = config(&["--output", "json"], &[("CONTEXTSTORE_LIMITS__MESSAGE_BYTES", "1MiB")]);
    assert_eq!(code, 0);
    let settings: Vec<Value> = serde_json::from_str(&printed).unwrap();
    let find = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap();
    let message_bytes = find("limits.message_bytes");
    assert_eq!(message_bytes["value"], 1 << 20);
    assert_eq!(message_bytes["from"], "CONTEXTSTORE_LIMITS__MESSAGE_BYTES");
    assert_eq!(find("lease.ttl")["value"], "30s");
    assert_eq!(find("listen")["value"], serde_json::json!([]));
    assert_eq!(find("compression.strategy")["value"], "summarize");
    assert!(find("admin_listen")["value"].is_null());
    let fields = |setting: &Value| setting.as_object().unwrap().len();
    // What a summariser is asked is told where nothing is configured.
    let (told, plain): (Vec<&Value>, Vec<_>) = settings
        .iter()
        .partition(|setting| setting["built_in"].as_str().is_some_and(|words| words.len() > 100));
    assert!(
        told.iter().all(|setting| fields(setting) == 4) && plain.iter().all(|setting| fields(setting) == 3)
    );
    let told: Vec<_> = told.iter().map(|setting| setting["key"].as_str().unwrap()).collect();
    let prompts = ["summary_prompt", "final_summary_prompt", "retain_prompt"];
    assert_eq!(told, prompts.map(|key| format!("compression.{key}")));
}

#[test]
fn it_names_everything_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wrong.yaml");
    fs::write(&file, "data_dir: x\nlimits:\n  mesage_bytes: 1MiB\nbase_dir: y\n").unwrap();
    let file = file.to_str().unwrap();
    let environment = [("CONTEXTSTORE_LOG", "inof"), ("CONTEXTSTORE_DATADIR", "z")];
    let (code, printed, complaint) = config(&["--config", file], &environment);
    assert_eq!((code, printed.as_str()), (2, ""));
    let expected = format!(
        "contextstore: configuration: 4 problems
  {file}:3: there is no key limits.mesage_bytes; did you mean limits.message_bytes?
  {file}:4: base_dir has another name here: use data_dir
  CONTEXTSTORE_DATADIR: there is no key datadir; did you mean CONTEXTSTORE_DATA_DIR?
  CONTEXTSTORE_LOG: log.level cannot be read: \"inof\" is neither a level (off, error, warn, info, debug, trace) \
         nor a target with one (target=level)\n"
    );
    assert_eq!(complaint, expected);

    let (code, _, complaint) = config(&["--listen", "tcp:192.168.0.1:50551"], &[]);
    assert_eq!(code, 2);
    assert!(
        complaint.contains("needs TLS, which this version does not have; listen on loopback"),
        "{complaint}"
    );
}

#[test]
fn a_file_that_is_nested_too_deeply_or_grows_by_aliases_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("contextstore.yaml");
    let aliases: String = ('b'..='j')
        .map(|name| {
            format!("{name}: &{name} [{}]\n", vec![format!("*{}", char::from(name as u8 - 1)); 9].join(","))
        })
        .collect();
    for text in [
        format!("data_dir: {}{}\n", "[".repeat(100_000), "]".repeat(100_000)),
        format!("masking:\n  rules: {}1{}\n", "{a: ".repeat(100_000), "}".repeat(100_000)),
        format!("a: &a [x,x,x,x,x,x,x,x,x]\n{aliases}"),
    ] {
        fs::write(&file, text).unwrap();
        let (code, printed, complaint) = config(&["--config", file.to_str().unwrap()], &[]);
        assert_eq!((code, printed.as_str()), (2, ""), "{complaint}");
        assert!(complaint.contains("contextstore.yaml") || complaint.contains("too complex"), "{complaint}");
    }
}

#[test]
fn the_reference_is_fresh() {
    let (code, printed, _) = config(&["--markdown"], &[]);
    assert_eq!(code, 0);
    let fresh = printed == document("CONFIG.md");
    assert!(fresh, "run: cargo run -p contextstore -- config --markdown > docs/CONFIG.md");
}

#[test]
fn the_store_takes_the_largest_message_that_can_be_configured() {
    let most = MAX_LINE_BYTES - (1 << 20);
    let message_bytes = |bytes: usize| {
        let environment = [("CONTEXTSTORE_LIMITS__MESSAGE_BYTES".into(), bytes.to_string().into())];
        Config::load_with(&Flags::default(), environment).map(|(config, _)| config.limits.message_bytes)
    };
    let open = |max_message_bytes: usize| {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { max_message_bytes, ballast_bytes: 0, ..StoreOptions::default() };
        Store::open(dir.path(), options).map(|(store, _)| store.close().unwrap())
    };
    assert_eq!(message_bytes(most).unwrap(), most);
    assert!(open(most).is_ok());
    assert!(message_bytes(most + 1).is_err());
    assert!(open(most + 1).is_err());
}

#[test]
fn every_word_can_be_configured_and_no_other() {
    fn check(key: &str, words: &[&str], get: impl Fn(CompressionSettings) -> Option<String>) {
        let configured = |word: &str| {
            let name = format!("CONTEXTSTORE_COMPRESSION__{}", key.to_uppercase());
            let environment = [(name.into(), word.into())];
            Config::load_with(&Flags::default(), environment)
                .map(|(config, _)| get(config.context.compression))
        };
        for word in words {
            assert_eq!(configured(word).unwrap().as_deref(), Some(*word), "{key}");
        }
        let error = configured("zip").unwrap_err().to_string();
        let none = usize::from(error.contains("`none`"));
        assert_eq!(error.matches('`').count(), 2 * (words.len() + none), "{error}");
    }
    check("strategy", &Strategy::ALL.map(Strategy::as_str), |said| said.strategy);
    check("complexity", &Complexity::ALL.map(Complexity::as_str), |said| said.complexity);
    check("preset", &Preset::ALL.map(Preset::as_str), |said| said.preset);
    check("summarizer", &Summarizer::ALL.map(Summarizer::as_str), |said| said.summarizer);
    check("provider", &Provider::ALL.map(Provider::as_str), |said| said.provider);
}

#[test]
fn every_metric_is_in_the_document_and_no_other() {
    let document = document("METRICS.md");
    let documented: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `context") || line.starts_with("| `process"))
        .collect();
    let row = |Metric { name, kind, labels, about }: &Metric| {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {} | {} | {about} |", kind.as_str(), labels.join(", "))
    };
    let exported: Vec<_> = METRICS.iter().map(row).collect();
    assert_eq!(documented, exported);
}
