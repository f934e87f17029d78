//! Tests that adversarial texts cannot slow masking down: the time is proportional to the length of any text.

use std::time::{Duration, Instant};

use super::*;

/// Time-out that only superlinear time exceeds, even on a busy machine and without optimisation.
const LONG: Duration = Duration::from_secs(20);

fn quickly<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = work();
    assert!(started.elapsed() < LONG, "{what} took {:?}", started.elapsed());
    done
}

#[test]
fn many_keys_that_are_secrets_take_no_longer_than_others() {
    let mut random = fastrand::Rng::with_seed(3);
    let key = |random: &mut fastrand::Rng| -> String { (0..400).map(|_| random.alphanumeric()).collect() };
    let keys: Vec<String> = (0..6_000).map(|n| format!(r#""ghp_{}":{n}"#, key(&mut random))).collect();
    let json = format!("{{{}}}", keys.join(","));
    let masked = quickly("keys", || masker().json(&json, Fields::Any, &mut MaskCounts::default())).unwrap();
    assert!(masked.starts_with(r#"{"[GITHUB_TOKEN]":0,"[GITHUB_TOKEN]_1":1,"[GITHUB_TOKEN]_2":2,"#));
    assert!(masked.ends_with(r#""[GITHUB_TOKEN]_5999":5999}"#));
}

/// The time of masking depends neither on the depth of the JSON nor on the levels of JSON in strings.
#[test]
fn the_depth_of_json_costs_neither_stack_nor_time() {
    const BYTES: usize = 1 << 20;
    let token = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    let nested = |open: &str, close: &str| {
        let depth = BYTES / (open.len() + close.len());
        format!("{}\"{token}\"{}", open.repeat(depth), close.repeat(depth))
    };
    for deep in
        [nested("[", "]"), nested("{\"a\":", "}"), nested("{\"data\":[", "]}"), nested("[1,[2],", "]")]
    {
        let text = serde_json::Value::from(deep.as_str()).to_string();
        for (json, fields) in [(&deep, Fields::Any), (&deep, Fields::Message), (&text, Fields::Any)] {
            let masked =
                quickly("depth", || masker().json(json, fields, &mut MaskCounts::default())).unwrap();
            assert_eq!(masked, json.replace(token, "[GITHUB_TOKEN]"));
        }
    }
    // Keys that are secrets, nested in each other.
    let keys = nested(&format!("{{\"{token}\":"), "}");
    let masked = quickly("keys", || masker().json(&keys, Fields::Any, &mut MaskCounts::default())).unwrap();
    assert_eq!(masked, keys.replace(token, "[GITHUB_TOKEN]"));
    // JSON in a string in JSON in a string: the innermost is masked as plain text.
    let mut text = format!("[\"{token}\",\"{}\"]", "x".repeat(BYTES));
    for _ in 0..14 {
        text = serde_json::json!([text]).to_string();
    }
    let masked = quickly("levels", || masker().json(&text, Fields::Any, &mut MaskCounts::default())).unwrap();
    assert_eq!(masked, text.replace(token, "[GITHUB_TOKEN]"));
}

fn masker() -> Masker {
    Masker::standard()
}

/// Texts that repeat a secret, or the beginning of one.
#[test]
fn repeated_beginnings_of_secrets_take_linear_time() {
    const BYTES: usize = 512 << 10;
    for piece in [
        "ghs_A1b2c3d4e5f-",
        "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
        "-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAAAAAAA",
        "password=a1b2c3d\n",
        "password=a1b2c3d",
        "password=\"a1b2c3d",
        "glpat-",
        "-eyJ",
        "-eyJhbGciOiJIUzI1.eyJ",
        "api_key=",
        "SessionToken=",
        "&sig=",
        "Q~",
        "a1JQQJ99",
        "a://b:c@",
        "Authorization:Bearer A1b2c3d4e5f6g7=",
    ] {
        let text = piece.repeat(BYTES / piece.len());
        let mut found = MaskCounts::default();
        let whole = quickly(piece, || masker().text(&text, &mut found));
        for most in [1 << 30, 7_000] {
            let (mut stream, mut out) = (masker().stream(), Vec::new());
            quickly(piece, || text.as_bytes().chunks(most).for_each(|piece| stream.push(piece, &mut out)));
            assert_eq!(stream.finish(&mut out), found, "{piece}");
            assert!(out == whole.as_bytes(), "{piece}");
        }
    }
}
