//! The sixth generator: sessions of coding, operations, data and product agents in English and Japanese.
//!
//! What is said, and which words of it are facts, stands in the scripts (`en/*.txt`, `ja/*.txt`, read by [`script`]),
//! written by hand, one for each domain; `common.txt` has what people say in any domain. [`plan`] takes half of a
//! script for each of its two sessions and spreads it over them, [`scribe`] writes it in the voice of one user, and
//! [`filler`] puts the noise of [`world`]'s pools (`talk.txt`, `noise/*.txt`) between. It was written without knowing
//! how summaries are made.

mod filler;
mod plan;
mod rng;
mod scribe;
mod script;
mod world;

use self::plan::Plan;
use self::script::Script;
use self::world::Pools;
use super::session::{Kind, Session, plain as session_text};

const ENGLISH: [&str; 11] = [
    include_str!("en/payments.txt"),
    include_str!("en/cluster.txt"),
    include_str!("en/mobile.txt"),
    include_str!("en/warehouse.txt"),
    include_str!("en/training.txt"),
    include_str!("en/firmware.txt"),
    include_str!("en/storefront.txt"),
    include_str!("en/landing_zone.txt"),
    include_str!("en/search.txt"),
    include_str!("en/accounts.txt"),
    include_str!("en/clinic.txt"),
];

const JAPANESE: [&str; 11] = [
    include_str!("ja/inventory.txt"),
    include_str!("ja/billing.txt"),
    include_str!("ja/portal.txt"),
    include_str!("ja/booking.txt"),
    include_str!("ja/analytics.txt"),
    include_str!("ja/factory.txt"),
    include_str!("ja/school.txt"),
    include_str!("ja/incident.txt"),
    include_str!("ja/payroll.txt"),
    include_str!("ja/shop_search.txt"),
    include_str!("ja/city_hall.txt"),
];

/// Forty-four sessions, half of them in each language, the same each time.
pub(crate) fn sessions() -> Vec<Session> {
    let noise =
        [include_str!("noise/code.txt"), include_str!("noise/output.txt"), include_str!("noise/acts.txt")];
    let english = Pools::parse(&[&noise[..], &[include_str!("en/talk.txt")]].concat());
    let japanese = Pools::parse(&[&noise[..], &[include_str!("ja/talk.txt")]].concat());
    let mut sessions = of_language("en", 600, &ENGLISH, include_str!("en/common.txt"), &english);
    sessions.extend(of_language("ja", 700, &JAPANESE, include_str!("ja/common.txt"), &japanese));
    sessions
}

/// Two sessions of each script.
fn of_language(language: &str, seed: u64, scripts: &[&str], common: &str, pools: &Pools) -> Vec<Session> {
    let common = &Script::parse(common);
    let scripts: Vec<Script> = scripts.iter().map(|text| Script::parse(text)).collect();
    let numbers = 0..scripts.len() * 2;
    let plan = |number: usize| Plan { language, script: &scripts[number / 2], common, pools, number };
    numbers.map(|number| plan(number).session(seed + number as u64)).collect()
}
