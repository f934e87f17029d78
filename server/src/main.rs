//! The `contextstore` binary.

fn main() {}
