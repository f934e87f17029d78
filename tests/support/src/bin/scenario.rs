//! A program that takes the steps of `tests/support/src/story.rs` on a real directory and says what it was told,
//! line by line, so that it can be watched and disturbed from outside.
//!
//! `scenario DIR [skip-sync|rename-first]`; the words break the protocol on purpose.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test program: it stops at the first surprise"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contextstore_base::infra::fs::Fs;
use contextstore_base::infra::fs::fault::{FaultFs, Sabotage};
use contextstore_base::model::StoreError;
use contextstore_store::store::{Ground, Store};

use test_support::steps::{Act, Client, Outcome};
use test_support::{store, story};

/// A step is tried this often; only one call is disturbed.
const TRIES: usize = 3;

/// Says a line with one write, so that it is out before anything else happens.
fn tell(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

fn open(dir: &Path, sabotage: Option<Sabotage>) -> Result<Store, StoreError> {
    let mut ground = Ground::disk(dir)?;
    if let Some(sabotage) = sabotage {
        let broken = FaultFs::new(Arc::clone(&ground.fs));
        broken.sabotage(sabotage);
        ground.fs = broken as Arc<dyn Fs>;
    }
    Store::open_on(ground, store::options()).map(|(store, _)| store)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap());
    let sabotage = arguments.next().map(|word| match word.as_str() {
        "skip-sync" => Sabotage::SkipSync { file: "messages.jsonl" },
        "rename-first" => Sabotage::RenameFirst,
        other => panic!("{other:?} is neither skip-sync nor rename-first"),
    });
    let mut store = None;
    let mut client = Client::new(story::steps());
    for at in 0..client.steps.len() {
        tell(&format!("try {at}"));
        let mut tries = 0;
        while let Err(error) = take(&mut client, &mut store, at, &dir, sabotage) {
            tries += 1;
            tell(&format!("failed {at}: {error:?}"));
            assert!(tries < TRIES, "step {at} fails again and again");
            if store.as_ref().is_some_and(|store: &Store| store.read_only().is_some()) {
                store = None;
            }
        }
        if let Outcome::Acked(told) = client.outcomes[at] {
            tell(&format!("ack {at} {told}"));
        }
    }
    if let Err(error) = store.unwrap().close() {
        // The catalog's thread may have been hit as well: calls are counted for each thread.
        tell(&format!("failed to close: {error:?}"));
    }
    tell("end");
}

fn take(
    client: &mut Client,
    store: &mut Option<Store>,
    at: usize,
    dir: &Path,
    sabotage: Option<Sabotage>,
) -> Result<(), StoreError> {
    let is_reopen = matches!(client.steps[at].act, Act::Reopen);
    if is_reopen && let Some(store) = store.take() {
        store.close()?;
    }
    let store = match store {
        Some(store) => store,
        None => store.insert(open(dir, sabotage)?),
    };
    if is_reopen {
        client.note(at, 0);
        return Ok(());
    }
    client.take(store, at)
}
