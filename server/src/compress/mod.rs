//! Keeping contexts small: who is asked for a summary, what they are given, and what becomes of their answers.

mod ask;
mod flatten;
mod material;
pub(crate) mod prompt;
mod reply;
#[cfg(test)]
mod testing;

pub(crate) use ask::{AskError, GapReply, Question, Reply, ask, ask_gaps};
pub(crate) use material::Material;
