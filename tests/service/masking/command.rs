//! `contextstore mask`: the same rules for people and pipelines.

use std::fs;
use std::path::Path;

use super::Hound;
use super::corpus::{negatives, positives};
use test_support::server::TestServer;

fn run(arguments: &[&str], environment: &[(&str, &Path)]) -> (i32, String, String) {
    let all: Vec<&str> = ["mask"].iter().chain(arguments).copied().collect();
    TestServer::run(&all, environment)
}

#[test]
fn a_file_is_checked_without_telling_its_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    let name = path.to_str().unwrap();
    let key = positives(3).into_iter().find(|positive| positive.line.starts_with("-----BEGIN")).unwrap();
    let token = positives(3).into_iter().find(|positive| positive.rule == "github_token").unwrap();
    let key_lines = key.line.lines().count();
    fs::write(&path, format!("one\n{}\nthree\n{}\n{}\n", token.line, key.line, token.line)).unwrap();
    let (code, said, complaint) = run(&["--check", name], &[]);
    let last = 3 + key_lines + 1;
    let expected = format!("{name}:2: github_token\n{name}:4: private_key\n{name}:{last}: github_token\n");
    assert_eq!((code, said.as_str(), complaint.as_str()), (1, expected.as_str(), ""));
    let (code, said, _) = run(&[name], &[]);
    let hound = Hound::new([token.secret.as_str(), key.secret.as_str()]);
    assert!(code == 0 && hound.finds(said.as_bytes()).is_none(), "{said}");
    assert!(said.starts_with("one\n") && said.contains("three\n[PRIVATE_KEY]\n"), "{said}");

    fs::write(&path, negatives(3).join("\n")).unwrap();
    assert_eq!(run(&["--check", name], &[]), (0, String::new(), String::new()));
    assert_eq!(run(&[name], &[]).1, negatives(3).join("\n"));
}

#[test]
fn the_configuration_decides() {
    let dir = tempfile::tempdir().unwrap();
    let (path, config) = (dir.path().join("text"), dir.path().join("config.yaml"));
    let name = path.to_str().unwrap();
    fs::write(&path, "me@example.com ACME-123 password=hunter2\n").unwrap();
    let yaml =
        "masking:\n  personal: true\n  rules:\n    password: off\n  custom:\n    acme: 'ACME-[0-9]{1,3}'\n";
    fs::write(&config, yaml).unwrap();
    let (code, said, complaint) = run(&["--config", config.to_str().unwrap(), name], &[]);
    assert_eq!((code, said.as_str(), complaint.as_str()), (0, "[EMAIL] [ACME] password=hunter2\n", ""));
    // What is printed can be used again.
    let (_, printed, _) = TestServer::run(&["config", "--config", config.to_str().unwrap()], &[]);
    fs::write(&config, printed).unwrap();
    assert_eq!(run(&["--config", config.to_str().unwrap(), name], &[]).1, said);
    let off = [("CONTEXTSTORE_MASKING__ENABLED", Path::new("false"))];
    assert_eq!(run(&[name], &off).1, "me@example.com ACME-123 password=hunter2\n");
    let (code, _, complaint) = run(&["--check", "/nowhere"], &[]);
    assert!(code == 2 && complaint.contains("/nowhere"), "{complaint}");
}
