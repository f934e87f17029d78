//! Owns the fifth generator of sessions: scripts of pieces of work, each played twice with other words, names and
//! numbers, in the middle of noise.

mod bulk;
mod en_a;
mod en_b;
mod en_c;
mod en_d;
mod filler;
mod ja_a;
mod ja_b;
mod ja_c;
mod rng;
mod script;
mod shapes;
mod words;

use super::session::Session;

/// All sessions, the same each time: of the three variants of a script, the last and one of the others.
pub(crate) fn sessions() -> Vec<Session> {
    let english = [en_a::SCENARIOS, en_b::SCENARIOS, en_c::SCENARIOS, en_d::SCENARIOS];
    let japanese = [ja_a::SCENARIOS, ja_b::SCENARIOS, ja_c::SCENARIOS];
    let scenarios = english.into_iter().chain(japanese).flatten().enumerate();
    let plays = scenarios.flat_map(|(number, scenario)| [number % 2, 2].map(|variant| (scenario, variant)));
    plays
        .zip(0x5eed_0005..)
        .map(|((scenario, variant), seed)| script::session(scenario, variant, seed))
        .collect()
}
