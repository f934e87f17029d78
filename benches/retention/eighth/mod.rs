//! Synthetic sessions of working agents with planted facts: 22 scripts written by hand, each in two variants, woven
//! into outputs of tools and small talk that matter to nobody. See [`script`] for how a script is written.

mod noise;
mod rng;
mod script;
mod talk;
mod weave;

use super::session::Session;

/// The scripts, English and Japanese.
const SCRIPTS: &[&str] = &[
    include_str!("scripts/en_checkout.txt"),
    include_str!("scripts/en_cluster.txt"),
    include_str!("scripts/en_contract.txt"),
    include_str!("scripts/en_event.txt"),
    include_str!("scripts/en_firmware.txt"),
    include_str!("scripts/en_grant.txt"),
    include_str!("scripts/en_ledger.txt"),
    include_str!("scripts/en_research.txt"),
    include_str!("scripts/en_security.txt"),
    include_str!("scripts/en_support.txt"),
    include_str!("scripts/en_warehouse.txt"),
    include_str!("scripts/ja_app.txt"),
    include_str!("scripts/ja_call.txt"),
    include_str!("scripts/ja_event.txt"),
    include_str!("scripts/ja_factory.txt"),
    include_str!("scripts/ja_hr.txt"),
    include_str!("scripts/ja_infra.txt"),
    include_str!("scripts/ja_keihi.txt"),
    include_str!("scripts/ja_koho.txt"),
    include_str!("scripts/ja_orders.txt"),
    include_str!("scripts/ja_paper.txt"),
    include_str!("scripts/ja_sales.txt"),
];

/// All sessions, the same each time.
pub(crate) fn sessions() -> Vec<Session> {
    let variants = SCRIPTS.iter().flat_map(|source| ['a', 'b'].map(|variant| script::parse(source, variant)));
    variants.enumerate().map(|(number, script)| weave::weave(&script, number)).collect()
}
