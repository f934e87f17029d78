//! Outputs of tools have a budget in the view: when they pass it, the oldest become notes, in batches, and the log keeps
//! them. Through the socket of a real server.

mod asked;
mod auto;
mod race;
