//! The program: see [`contextstore_providers::fake`].

use clap::Parser as _;
use contextstore_providers::fake::{Options, run};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    run(Options::parse()).await
}
