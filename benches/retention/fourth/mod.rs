//! Owns the fourth set of sessions: long working sessions in English and Japanese, played from scripts.
//!
//! A script ([`en_a`] and the others) tells what people say in a piece of work, and which of it are facts; [`play`]
//! makes a session of it, with other values, wordings and optional parts for each seed, and with tool outputs
//! ([`noise`], [`forms`], [`source`], [`prose`], [`minutes`]) and small talk ([`chat`]) all around.

use super::session::Session;

mod chat;
mod dice;
mod en_a;
mod en_b;
mod forms;
mod ja_a;
mod ja_b;
mod minutes;
mod noise;
mod play;
mod prose;
mod source;

/// How many sessions are played from each script.
const ROUNDS: usize = 2;

/// The sessions, the same each time.
pub(crate) fn sessions() -> Vec<Session> {
    let scripts = [en_a::SCRIPTS, en_b::SCRIPTS, ja_a::SCRIPTS, ja_b::SCRIPTS].concat();
    let mut sessions = Vec::new();
    for (at, script) in scripts.iter().enumerate() {
        for round in 0..ROUNDS {
            let number = at * ROUNDS + round + 1;
            let seed = u64::try_from(number).unwrap_or(0) * 7_919 + 41;
            sessions.push(play::play(script, number, seed));
        }
    }
    sessions
}
