//! Prints hostile histories for tests in other languages: a line of JSON each, `{"seed","events","messages"}`, where
//! every message is the text that is appended.

use std::io::Write as _;

use clap::Parser as _;
use contextstore_providers::histories::{History, Taste};
use serde_json::json;

/// Prints hostile histories, one a line.
#[derive(Debug, clap::Parser)]
struct Options {
    /// The seed of the first one; the others have the next ones.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Now and then an image of 5 MB.
    #[arg(long)]
    large_images: bool,
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    let taste = Taste { large_images: options.large_images, ..Taste::default() };
    let mut out = std::io::stdout().lock();
    for seed in options.seed..options.seed.saturating_add(options.count) {
        let history = History::with(seed, taste);
        let line = json!({"seed": history.seed, "events": history.events, "messages": history.messages});
        writeln!(out, "{line}")?;
    }
    out.flush()
}
