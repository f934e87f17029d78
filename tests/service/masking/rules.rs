//! The rules on the corpus: all of it, in one text and in pieces.

use std::collections::BTreeMap;
use std::fs;

use contextstore_policy::mask::{MaskCounts, Masker, Rule};

use super::Hound;
use super::corpus::{negatives, positives};

fn seed() -> u64 {
    test_support::number("CONTEXTSTORE_SEED").unwrap_or(1)
}

#[test]
fn every_secret_is_masked_by_its_rule() {
    let mut counts = BTreeMap::<&str, usize>::new();
    for seed in seed()..seed() + 20 {
        let all = positives(seed);
        assert!(all.len() >= 300, "only {}", all.len());
        for positive in &all {
            let mut found = MaskCounts::default();
            let masked = Masker::standard().text(&positive.line, &mut found);
            let hound = Hound::new([positive.secret.as_str()]);
            let left = hound.finds(masked.as_bytes());
            assert!(left.is_none(), "seed {seed}: {left:?} of\n{}\nis left:\n{masked}", positive.line);
            let rules: Vec<_> = found.iter().map(|(rule, _)| rule).collect();
            assert!(rules.contains(&positive.rule), "seed {seed}: {rules:?} found\n{}", positive.line);
            // What is masked stays as it is.
            let mut again = MaskCounts::default();
            assert_eq!(Masker::standard().text(&masked, &mut again), masked);
            assert!(again.is_empty(), "{masked}");
            *counts.entry(positive.rule).or_default() += 1;
        }
    }
    for rule in Rule::ALL.iter().filter(|rule| !rule.is_personal()) {
        assert!(counts.get(rule.name()).is_some_and(|count| *count >= 100), "{}: {counts:?}", rule.name());
    }
}

#[test]
fn nothing_else_is_masked() {
    for seed in seed()..seed() + 20 {
        let all = negatives(seed);
        assert!(all.len() >= 300, "only {}", all.len());
        for line in &all {
            let mut found = MaskCounts::default();
            assert_eq!(Masker::standard().text(line, &mut found), line.as_str(), "seed {seed}");
            assert!(found.is_empty());
        }
        let whole = all.join("\n");
        assert_eq!(Masker::standard().text(&whole, &mut MaskCounts::default()), whole, "seed {seed}");
    }
}

fn data(name: &str) -> String {
    fs::read_to_string(test_support::repository().join("tests/data/masking").join(name)).unwrap()
}

/// Lines of code, configuration, documents and logs, of which many speak of secrets and none has one. What is masked is lost.
#[test]
fn no_line_of_everyday_work_is_masked() {
    let lines = data("innocent.txt");
    assert!(lines.lines().count() > 1900);
    let masked = |text: &str| Masker::standard().text(text, &mut MaskCounts::default()).into_owned();
    let hits: Vec<&str> = lines.lines().filter(|line| masked(line) != **line).collect();
    assert!(hits.is_empty(), "{hits:#?}");
    assert_eq!(masked(&lines), lines);
}

/// Ways in which a line with a secret comes along.
fn disguised(text: &str) -> [String; 10] {
    let json = serde_json::Value::from(text).to_string();
    [
        text.to_owned(),
        format!("see: {text} there"),
        format!("{{\"value\": {json}}}"),
        serde_json::json!({"log": format!("{{\"value\": {json}}}")}).to_string(),
        format!("\u{1b}[01;31m\u{1b}[K{text}\u{1b}[m\u{1b}[K"),
        format!("first\n{text}\nlast"),
        format!("first\\n{text}\\nlast"),
        format!("the line `{text}` here"),
        format!("<td>{text}</td>"),
        format!("2026-01-01T00:00:00Z INFO [x] {text}"),
    ]
}

#[test]
fn every_kind_of_secret_is_masked_in_every_disguise() {
    let kinds = data("secrets.tsv");
    assert!(kinds.lines().count() >= 80);
    let mut kept = Vec::new();
    for kind in kinds.lines() {
        let [rule, text, secret] = kind.split('\t').collect::<Vec<_>>()[..] else { panic!("{kind}") };
        for line in disguised(text) {
            let mut found = MaskCounts::default();
            let masked = Masker::standard().text(&line, &mut found).into_owned();
            let left = Hound::new([secret]).finds(masked.as_bytes());
            if left.is_some() || !found.iter().any(|(name, _)| name == rule) {
                kept.push(format!("{rule}: {line}\n  became {masked}"));
            }
        }
    }
    assert!(kept.is_empty(), "{} kept:\n{}", kept.len(), kept.join("\n"));
}

#[test]
fn the_corpus_in_pieces_is_the_corpus_as_a_whole() {
    for seed in seed()..seed() + 10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut lines: Vec<String> = positives(seed).into_iter().map(|positive| positive.line).collect();
        lines.extend(negatives(seed));
        random.shuffle(&mut lines);
        let text = lines.join("\n");
        let mut expected_found = MaskCounts::default();
        let expected = Masker::standard().text(&text, &mut expected_found);
        for most in [16, 700, 9_000, 65_536] {
            let (mut stream, mut out, mut rest) = (Masker::standard().stream(), Vec::new(), text.as_bytes());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=most).min(rest.len()));
                stream.push(piece, &mut out);
                rest = after;
            }
            let found = stream.finish(&mut out);
            assert_eq!(found, expected_found, "seed {seed}, pieces of up to {most}");
            assert!(out == expected.as_bytes(), "seed {seed}, pieces of up to {most}");
        }
        let all = positives(seed);
        let left = Hound::new(all.iter().map(|positive| positive.secret.as_str())).finds(expected.as_bytes());
        let whose = left.and_then(|left| all.iter().find(|positive| positive.secret.contains(&left)));
        assert!(whose.is_none(), "seed {seed}: something is left of {whose:?}");
    }
}

/// The document lists what there is.
#[test]
fn the_rules_are_documented() {
    let path = test_support::repository().join("docs/MASKING.md");
    let text = std::fs::read_to_string(path).unwrap();
    let row = |rule: &Rule| format!("| `{}` | `{}` | {} |", rule.name(), rule.label(), rule.about());
    let rows: Vec<String> = Rule::ALL.iter().map(row).collect();
    let missing: Vec<_> = rows.iter().filter(|row| !text.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/MASKING.md lacks:\n{}", rows.join("\n"));
}
