//! Rules of one's own: what they do, and that no pattern can hold a server up.

use std::time::{Duration, Instant};

use contextstore_policy::mask::{CustomRule, MaskCounts, Masker, RuleSet, check_pattern};

use test_support::server::TestServer;

fn with(pattern: &str) -> Masker {
    let rule = CustomRule { name: "own".to_owned(), pattern: pattern.to_owned(), label: "[OWN]".to_owned() };
    Masker::new(&RuleSet { custom: vec![rule], ..RuleSet::default() }).unwrap()
}

/// Patterns that take other engines forever.
#[test]
fn catastrophic_patterns_take_linear_time_or_are_refused() {
    let texts = [
        "a".repeat(1 << 20),
        format!("{}!", "a".repeat(1 << 20)),
        "ab".repeat(1 << 19),
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(20_000),
    ];
    for pattern in [
        "(a+)+$",
        "(a|aa)+$",
        "(a|a?)+b",
        "(.*)(.*)(.*)(.*)(.*)[^a]$",
        "([a-z]+)*!",
        "a{1,200}b",
        "(x+x+)+y",
        "(?i)(a+b*)+c",
        "(a*)*a*b",
    ] {
        if check_pattern(pattern).is_err() {
            continue;
        }
        for text in &texts {
            let began = Instant::now();
            with(pattern).text(text, &mut MaskCounts::default());
            // Without optimisation, and on a busy machine.
            assert!(began.elapsed() < Duration::from_secs(60), "{pattern}: {:?}", began.elapsed());
        }
    }
    for pattern in ["((a{0,100}){0,100}){0,100}b", "(?:a{1000}){1000}", "\\pL{900}{900}x"] {
        let began = Instant::now();
        assert_eq!(
            check_pattern(pattern).unwrap_err().to_string(),
            "is too large; shorten it or reduce its repetitions",
            "{pattern}"
        );
        assert!(began.elapsed() < Duration::from_secs(60), "{pattern}: {:?}", began.elapsed());
    }
}

#[test]
fn a_bad_pattern_is_refused_by_name() {
    for (key, value, words) in [
        (
            "CONTEXTSTORE_MASKING__CUSTOM",
            "acme=(",
            "masking.custom has \"acme\", whose pattern is not a regular",
        ),
        ("CONTEXTSTORE_MASKING__CUSTOM", "acme=x*", "whose pattern matches the empty text"),
        ("CONTEXTSTORE_MASKING__CUSTOM", "jwt=x", "which is another rule's name"),
        ("CONTEXTSTORE_MASKING__CUSTOM", "Acme=x", "a name has small letters"),
        ("CONTEXTSTORE_MASKING__CUSTOM", "acme=((a{0,100}){0,100}){0,100}b", "whose pattern is too large"),
        ("CONTEXTSTORE_MASKING__RULES", "ghost=off", "masking.rules has \"ghost\", which is no rule"),
        ("CONTEXTSTORE_MASKING__RULES", "jwt=maybe", "must be on or off"),
        ("CONTEXTSTORE_MASKING__ALLOW", "/(/", "masking.allow has \"/(/\", which is not a regular"),
    ] {
        let (code, _, said) = TestServer::run(&["config"], &[(key, std::path::Path::new(value))]);
        assert!(code == 2 && said.contains(words), "{value}: {code} {said}");
    }
}

#[test]
fn own_rules_and_exceptions() {
    let rules = |allow: &[&str]| RuleSet {
        custom: vec![CustomRule {
            name: "acme".to_owned(),
            pattern: r"\bACME-[0-9]{6}\b".to_owned(),
            label: "[ACME]".to_owned(),
        }],
        allow: allow.iter().map(|entry| (*entry).to_owned()).collect(),
        ..RuleSet::default()
    };
    let text = "ACME-123456 and ACME-654321, not XACME-123456; AKIAIOSFODNN7EXAMPLE password=hunter2";
    let mask = |allow: &[&str]| {
        let mut found = MaskCounts::default();
        let masked = Masker::new(&rules(allow)).unwrap().text(text, &mut found).into_owned();
        (masked, found.iter().map(|(rule, count)| format!("{rule} {count}")).collect::<Vec<_>>().join(", "))
    };
    let (masked, found) = mask(&[]);
    assert_eq!(masked, "[ACME] and [ACME], not XACME-123456; [AWS_ACCESS_KEY] password=[PASSWORD]");
    assert_eq!(found, "acme 2, aws_access_key 1, password 1");
    let (masked, found) = mask(&["ACME-123456", "/AKIA.*EXAMPLE/", "/hunter[0-9]/"]);
    assert_eq!(masked, "ACME-123456 and [ACME], not XACME-123456; AKIAIOSFODNN7EXAMPLE password=hunter2");
    assert_eq!(found, "acme 1");
}
