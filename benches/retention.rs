//! What contexts still know after they were compressed: `make bench-retention`.
//!
//! Long sessions with planted facts (`benches/retention`) go through a server as any other: appended, compressed to a
//! share of their tokens by each strategy, and read back. What is counted is the share of the facts that the view still
//! tells, less those that it tells although a newer one took their place. The same sessions by dropping the oldest
//! messages are what it is measured against.
//!
//! Writes the tables and the plot of docs/RETENTION.md anew, and fails if a target is missed. `SHOW=name` prints the
//! view of a session and what it lost; `ONLY=first,third` measures some generators, prints their tables and writes nothing.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "it measures from outside, and a bench that cannot go on says why and stops"
)]

#[path = "retention/door.rs"]
mod door;
// The judge, which nobody who tunes the summariser has read:
#[path = "retention/eighth/mod.rs"]
mod eighth;
#[path = "retention/fifth/mod.rs"]
mod fifth;
#[path = "retention/first/mod.rs"]
mod first;
#[path = "retention/fourth/mod.rs"]
mod fourth;
#[path = "retention/plot.rs"]
mod plot;
#[path = "retention/report.rs"]
mod report;
#[path = "retention/score.rs"]
mod score;
#[path = "retention/second/mod.rs"]
mod second;
#[expect(dead_code, reason = "the other benches measure more of a server")]
#[path = "service/server.rs"]
mod server;
#[path = "retention/session.rs"]
mod session;
#[path = "retention/seventh/mod.rs"]
mod seventh;
#[path = "retention/sixth/mod.rs"]
mod sixth;
#[path = "retention/third/mod.rs"]
mod third;

use std::path::{Path, PathBuf};

use door::Door;
use score::{Result, Way};
use session::Session;

/// What sessions are compressed to, in percent.
const SHARES: [u64; 2] = [30, 10];

/// A generator, and what it gives.
struct Generator {
    name: &'static str,
    sessions: Vec<Session>,
}

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let generators = [
        Generator { name: "first", sessions: first::sessions() },
        Generator { name: "second", sessions: second::sessions() },
        Generator { name: "third", sessions: third::sessions() },
        Generator { name: "fourth", sessions: fourth::sessions() },
        Generator { name: "fifth", sessions: fifth::sessions() },
        Generator { name: "sixth", sessions: sixth::sessions() },
        Generator { name: "seventh", sessions: seventh::sessions() },
        Generator { name: "eighth", sessions: eighth::sessions() },
    ];
    let only = std::env::var("ONLY").ok().filter(|only| !only.is_empty());
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    let place = tempfile::tempdir().unwrap();
    let door = Door::open(&PathBuf::from(env!("CARGO_BIN_EXE_contextstore")), place.path());
    if let Ok(name) = std::env::var("SHOW") {
        let sessions = generators.iter().flat_map(|generator| &generator.sessions);
        sessions.filter(|session| session.name == name).for_each(|session| show(&door, session));
        return;
    }
    let wanted = generators.iter().filter(|generator| is_wanted(generator.name));
    let results: Vec<Result> = wanted.flat_map(|generator| measure(&door, generator)).collect();
    let table = report::tables(&results);
    println!("{table}");
    if only.is_some() {
        return;
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    report::into_document(&docs.join("RETENTION.md"), &table);
    std::fs::write(docs.join("retention.svg"), plot::draw(&results)).unwrap();
    let missed = report::targets(&results);
    assert!(missed.is_empty(), "missed: {}", missed.join("; "));
}

/// All that is known of the sessions of a generator.
fn measure(door: &Door, generator: &Generator) -> Vec<Result> {
    let each =
        SHARES.into_iter().flat_map(|share| Way::ALL.map(|way| Result::new(generator.name, share, way)));
    let mut results: Vec<Result> = each.collect();
    for session in &generator.sessions {
        session.check();
        let total = door::tokens(&session.messages);
        let appended = door.append(session);
        for result in &mut results {
            result.add(session, &appended.view(result.way, total * result.percent / 100), total);
        }
    }
    results
}

/// One session by the built-in summariser.
fn show(door: &Door, session: &Session) {
    let appended = door.append(session);
    for share in SHARES {
        let total = door::tokens(&session.messages);
        let view = appended.view(Way::Extractive, total * share / 100);
        println!("=== {}, {share} % of {total} tokens: {}", session.name, door::tokens(&view));
        view.iter().for_each(|message| println!("{}\n", message.replace("\\n", "\n")));
        let mut result = Result::new("", share, Way::Extractive);
        result.add(session, &view, total);
        result.wrong.iter().for_each(|wrong| println!("{wrong}"));
    }
}
