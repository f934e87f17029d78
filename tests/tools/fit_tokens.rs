//! Fits the weights of the counter `fitted` to `o200k`: `cargo run --release --example fit_tokens -- NAME=DIR…`
//!
//! Every DIR is a corpus: all text files below it, cut into messages of some hundred characters. All corpora weigh
//! the same, and one message in five is not fitted to. Printed are the errors on both parts, by corpus, and the
//! table for `server/policy/src/context/fitted/weights.rs`. With `check` as the first argument nothing is fitted: the errors of
//! the weights as they are.
//!
//! The weights in the repository were fitted to: the documentation and sources of the crates and of the Python and npm
//! packages that are used here, Python's standard library, and the Japanese translations of the manuals of Vue and
//! React; other languages by the translations that Django and TypeScript carry.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a tool that is run by hand"
)]

use std::collections::BTreeMap;
use std::path::Path;

use contextstore_base::model::TokenCounter;
use contextstore_policy::context::count_text;
use contextstore_policy::context::fitted::{ADDED, FEATURES, features};

/// Messages of one corpus that are looked at.
const MOST: usize = 6000;
/// How much a weight that few messages speak for stays where it was.
const RIDGE: f64 = 1e-4;

struct Message {
    features: Vec<(usize, f64)>,
    exact: f64,
    is_fitted: bool,
    estimate: f64,
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let only_check = arguments.first().is_some_and(|first| first == "check");
    if only_check {
        arguments.remove(0);
    }
    let mut corpora = BTreeMap::new();
    for argument in &arguments {
        let (name, dir) = argument.split_once('=').unwrap();
        let mut texts = Vec::new();
        collect(Path::new(dir), &mut texts);
        corpora.insert(name.to_owned(), messages(&texts, only_check));
    }
    let weights = if only_check { None } else { Some(fit(&corpora)) };
    for (name, messages) in &mut corpora {
        if let Some(weights) = &weights {
            for message in messages.iter_mut() {
                message.estimate = message.features.iter().map(|(at, times)| weights[*at] * times).sum();
            }
        }
        report(name, messages);
    }
    if let Some(weights) = weights {
        for row in weights.chunks(14) {
            let row: Vec<_> = row.iter().map(|weight| format!("{}", (weight * 1000.0).round())).collect();
            println!("    {},", row.join(", "));
        }
    }
}

fn collect(path: &Path, texts: &mut Vec<String>) {
    if path.is_dir() {
        let mut below: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        below.sort();
        below.iter().for_each(|path| collect(path, texts));
    } else if let Ok(text) = std::fs::read_to_string(path) {
        texts.push(text);
    }
}

/// Cuts texts where lines end, into messages of 200 to about 2000 characters.
fn messages(texts: &[String], only_check: bool) -> Vec<Message> {
    let mut cut = Vec::new();
    let mut wanted = 200;
    for text in texts {
        let mut message = String::new();
        for line in text.split_inclusive('\n') {
            message.push_str(line);
            if message.chars().count() >= wanted {
                cut.push(std::mem::take(&mut message));
                wanted = 200 + (wanted * 7919 + 13) % 1800;
            }
        }
    }
    let step = cut.len().div_ceil(MOST).max(1);
    let kept = cut.iter().step_by(step).filter(|message| message.chars().count() < 20_000);
    let read = kept.enumerate().map(|(at, text)| Message {
        features: features(text)
            .iter()
            .map(|times| *times as f64)
            .enumerate()
            .filter(|(_, n)| *n != 0.0)
            .collect(),
        exact: count_text(TokenCounter::O200k, text) as f64,
        is_fitted: !only_check && at % 5 != 0,
        estimate: count_text(TokenCounter::Fitted, text) as f64,
    });
    read.collect()
}

/// Least squares of the relative errors, by coordinate descent: weights that are not added to others are not
/// negative.
fn fit(corpora: &BTreeMap<String, Vec<Message>>) -> Vec<f64> {
    let prior: Vec<f64> = (0..FEATURES).map(|at| if ADDED.contains(&at) { 0.0 } else { 1.0 }).collect();
    let mut squares = vec![vec![0.0; FEATURES]; FEATURES];
    let mut right = vec![0.0; FEATURES];
    for messages in corpora.values() {
        let share = 1.0 / messages.len() as f64;
        for message in messages.iter().filter(|message| message.is_fitted) {
            let weight = share / (message.exact * message.exact);
            for (a, times) in &message.features {
                right[*a] += weight * times * message.exact;
                for (b, others) in &message.features {
                    squares[*a][*b] += weight * times * others;
                }
            }
        }
    }
    for at in 0..FEATURES {
        squares[at][at] += RIDGE;
        right[at] += RIDGE * prior[at];
    }
    let mut weights = prior;
    for _ in 0..5000 {
        for at in 0..FEATURES {
            let others: f64 = (0..FEATURES).filter(|b| *b != at).map(|b| squares[at][b] * weights[b]).sum();
            let best = (right[at] - others) / squares[at][at];
            weights[at] = if ADDED.contains(&at) { best } else { best.max(0.0) };
        }
    }
    weights
}

fn report(name: &str, messages: &[Message]) {
    for (part, fitted) in [("fitted", true), ("other", false)] {
        let messages: Vec<_> = messages.iter().filter(|message| message.is_fitted == fitted).collect();
        if messages.is_empty() {
            continue;
        }
        let (exact, estimate) = messages.iter().fold((0.0, 0.0), |(exact, estimate), message| {
            (exact + message.exact, estimate + message.estimate)
        });
        let mut errors: Vec<f64> =
            messages.iter().map(|message| (message.estimate / message.exact - 1.0).abs() * 100.0).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors.get((errors.len() as f64 * share) as usize).copied().unwrap_or_default();
        let total = (estimate / exact - 1.0) * 100.0;
        println!(
            "{name:12} {part:7} {:6} messages, total {total:+.1} %, median {:.1} %, p95 {:.1} %",
            messages.len(),
            at(0.5),
            at(0.95)
        );
    }
}
