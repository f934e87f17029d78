//! Sessions of working agents, written by hand as scripts and woven into outputs of tools and small talk that matter
//! to nobody. See [`script`] for how a script is written.

pub(crate) mod noise;
pub(crate) mod rng;
pub(crate) mod script;
pub(crate) mod talk;
mod weave;

use super::session::Session;

/// Returns the sessions of the scripts, two of each, the same each time.
pub(crate) fn sessions(scripts: &[&str]) -> Vec<Session> {
    let variants = scripts.iter().flat_map(|source| ['a', 'b'].map(|variant| script::parse(source, variant)));
    variants.enumerate().map(|(number, script)| weave::weave(&script, number)).collect()
}
