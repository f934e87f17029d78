//! Keeping contexts small: who is asked for a summary, what they are given, and what becomes of their answers.

mod flatten;
mod material;
pub(crate) mod prompt;
#[cfg(test)]
mod testing;

pub(crate) use material::Material;
