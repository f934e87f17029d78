//! What contexts still have after they were compressed: `make bench-retention`.
//!
//! Sessions with planted facts go through a server as any other: appended, compressed to a share of their tokens by
//! each strategy, and read back. Coding sessions of six requests are compressed after each of them. The
//! sessions are seeded; in the six rounds, `prune` and `window` differ from run to run.
//!
//! Writes the table and the plot of docs/RETENTION.md, and fails if a target is missed. `SHOW=name` prints the view of
//! a session for tuning and what it lost, `SHOW=rounds` what the rounds lost; `ONLY=tuning`, `ONLY=judge` and `ONLY=rounds`
//! measure a part, print it and write nothing.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "it measures from outside, and a bench that cannot go on says why and stops"
)]

#[path = "retention/door.rs"]
mod door;
#[path = "retention/generators.rs"]
mod generators;
#[path = "retention/plot.rs"]
mod plot;
#[path = "retention/report.rs"]
mod report;
#[path = "retention/rounds.rs"]
mod rounds;
#[path = "retention/score.rs"]
mod score;
#[path = "retention/scripted/mod.rs"]
mod scripted;
#[expect(dead_code, reason = "the other benches measure more of a server")]
#[path = "service/server.rs"]
mod server;
#[path = "retention/session.rs"]
mod session;
#[path = "retention/state.rs"]
mod state;

use std::path::{Path, PathBuf};

use door::Door;
use rounds::{Losses, WINDOWS};
use score::{Result, Way};
use session::Session;

/// What sessions are compressed to, in percent.
const SHARES: [u64; 2] = [30, 10];
/// The window of a session that is compressed once: more than it needs.
const WIDE: u64 = 1_000_000;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (only, show) = (given("ONLY"), given("SHOW"));
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    let place = tempfile::tempdir().unwrap();
    let door = Door::open(&PathBuf::from(env!("CARGO_BIN_EXE_contextstore")), place.path());
    if let Some(name) = show {
        show_losses(&door, &name);
        return;
    }
    let mut results = Vec::new();
    if is_wanted("tuning") {
        results.extend(measure(&door, "tuning", &generators::tuning()));
    }
    if is_wanted("judge") {
        results.extend(measure(&door, "judge", &generators::judge()));
    }
    let mut losses = Vec::new();
    if is_wanted("rounds") {
        let each = WINDOWS.into_iter().flat_map(|window| Way::ALL.map(|way| (window, way)));
        losses.extend(each.map(|(window, way)| rounds::measure(&door, way, window)));
    }
    let rows = report::rows(&results, &losses);
    let table = report::table(&rows);
    println!("{table}");
    if only.is_some() {
        return;
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    report::into_document(&docs.join("RETENTION.md"), &table);
    std::fs::write(docs.join("retention.svg"), plot::draw(&rows)).unwrap();
    let missed = report::missed(&results, &losses);
    assert!(missed.is_empty(), "missed: {}", missed.join("; "));
}

/// Returns what each way keeps of the sessions of a generator.
fn measure(door: &Door, generator: &'static str, sessions: &[Session]) -> Vec<Result> {
    let each = SHARES.into_iter().flat_map(|share| Way::ALL.map(|way| Result::new(generator, share, way)));
    let mut results: Vec<Result> = each.collect();
    for session in sessions {
        session.check();
        let total = door::tokens(&session.messages);
        let appended = door.append(&session.messages, WIDE);
        for result in &mut results {
            result.add(session, &appended.view(result.way, total * result.percent / 100), total);
        }
    }
    results
}

/// Prints what the summariser made of one session, or lost in the rounds.
fn show_losses(door: &Door, name: &str) {
    if name == "rounds" {
        let losses = WINDOWS.map(|window| rounds::measure(door, Way::Summarize, window));
        losses.iter().flat_map(|losses: &Losses| &losses.wrong).for_each(|wrong| println!("{wrong}"));
        return;
    }
    // The sessions of the judge are not shown.
    for session in generators::tuning().into_iter().filter(|session| session.name == name) {
        let total = door::tokens(&session.messages);
        let appended = door.append(&session.messages, WIDE);
        for share in SHARES {
            let view = appended.view(Way::Summarize, total * share / 100);
            println!("=== {name}, {share} % of {total} tokens: {}", door::tokens(&view));
            view.iter().for_each(|message| println!("{}\n", message.replace("\\n", "\n")));
            let mut result = Result::new("", share, Way::Summarize);
            result.add(&session, &view, total);
            result.wrong.iter().for_each(|wrong| println!("{wrong}"));
        }
    }
}
