//! What the tests share: real servers and stores on directories of their own, a fake LLM, faults, and checks from outside.

#![allow(
    missing_debug_implementations,
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, print what they measured, and stop at the first surprise"
)]

pub mod check;
pub mod dynamic;
pub mod fake_llm;
pub mod nobody;
pub mod proxy;
pub mod refusal;
pub mod scene;
pub mod server;
pub mod service;
pub mod steps;
pub mod store;
pub mod story;
pub mod tool_outputs;
pub mod trace;
pub mod trimming;
pub mod wire;

use std::path::{Path, PathBuf};

/// Returns the top folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns the path of a program of the workspace: the one that was built beside the running test.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join(name);
    assert!(program.exists(), "{} is missing; build it with `make build-tests`", program.display());
    program
}

/// Reports whether tests run at full size (`make test-long`) rather than at push size.
pub fn is_long() -> bool {
    std::env::var_os("CONTEXTSTORE_TEST_LONG").is_some()
}

/// Returns the size of a test: `push` for every push, `long` for `make test-long`.
pub fn sized<T>(push: T, long: T) -> T {
    if is_long() { long } else { push }
}

/// Returns a number from the environment, such as `CONTEXTSTORE_SEED`.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
