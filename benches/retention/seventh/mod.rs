//! Synthetic sessions of agents at work, in English and Japanese, with planted facts, some of which are superseded.
//!
//! What people and the model say is written by hand, in scripts (`scripts/*.txt`, see [`script`]); the outputs of tools
//! between it are filled from templates (`text/*.txt`, see [`noise`]). Each script gives two sessions.

mod check;
mod engine;
mod noise;
mod rng;
mod script;

use super::session::Session;

const SCRIPTS: [&str; 22] = [
    include_str!("scripts/en_ledger.txt"),
    include_str!("scripts/en_incident.txt"),
    include_str!("scripts/en_warehouse.txt"),
    include_str!("scripts/en_onboarding.txt"),
    include_str!("scripts/en_review.txt"),
    include_str!("scripts/en_offsite.txt"),
    include_str!("scripts/en_webshop.txt"),
    include_str!("scripts/en_close.txt"),
    include_str!("scripts/en_training.txt"),
    include_str!("scripts/en_firmware.txt"),
    include_str!("scripts/en_access.txt"),
    include_str!("scripts/ja_stock.txt"),
    include_str!("scripts/ja_outage.txt"),
    include_str!("scripts/ja_sales.txt"),
    include_str!("scripts/ja_booking.txt"),
    include_str!("scripts/ja_battery.txt"),
    include_str!("scripts/ja_event.txt"),
    include_str!("scripts/ja_front.txt"),
    include_str!("scripts/ja_invoice.txt"),
    include_str!("scripts/ja_speech.txt"),
    include_str!("scripts/ja_factory.txt"),
    include_str!("scripts/ja_manual.txt"),
];

/// All sessions, the same each time. Panics if a fact is labelled wrongly.
pub(crate) fn sessions() -> Vec<Session> {
    let mut sessions = Vec::new();
    let mut problems = Vec::new();
    for (at, text) in SCRIPTS.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
        for variant in 0..2 {
            let script = script::Script::parse(text, variant);
            let seed = u64::try_from(at * 2 + variant).unwrap() + 7001;
            let (session, planted) = engine::play(&script, variant + 1, seed);
            problems.extend(check::problems(&session, &planted));
            sessions.push(session);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    sessions
}
