//! What somebody could make masking slow with: it takes steps in proportion to the text, whatever the text.

use std::time::{Duration, Instant};

use super::*;

/// So long that only what grows faster than the text takes more, on a busy machine and without optimisation too.
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
    let masked = quickly("keys", || masker().json(&json, Fields::Any, &mut Found::default())).unwrap();
    assert!(masked.starts_with(r#"{"[GITHUB_TOKEN]":0,"[GITHUB_TOKEN]_1":1,"[GITHUB_TOKEN]_2":2,"#));
    assert!(masked.ends_with(r#""[GITHUB_TOKEN]_5999":5999}"#));
}

fn masker() -> Masker {
    Masker::standard()
}

/// What looks like secrets, or like the beginning of one, again and again.
#[test]
fn what_is_made_of_beginnings_takes_steps_in_proportion() {
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
        let mut found = Found::default();
        let whole = quickly(piece, || masker().text(&text, &mut found));
        for most in [1 << 30, 7_000] {
            let (mut stream, mut out) = (masker().stream(), Vec::new());
            quickly(piece, || text.as_bytes().chunks(most).for_each(|piece| stream.push(piece, &mut out)));
            assert_eq!(stream.finish(&mut out), found, "{piece}");
            assert!(out == whole.as_bytes(), "{piece}");
        }
    }
}
