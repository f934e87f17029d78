//! The two generators: what each plants and how people say it is in its scripts.

use super::scripted;
use super::session::Session;

/// Scripts that whoever changes the summariser may read.
const TUNING: &[&str] = &[
    include_str!("tuning/en_access.txt"),
    include_str!("tuning/en_firmware.txt"),
    include_str!("tuning/en_incident.txt"),
    include_str!("tuning/en_ledger.txt"),
    include_str!("tuning/en_training.txt"),
    include_str!("tuning/en_warehouse.txt"),
    include_str!("tuning/en_webshop.txt"),
    include_str!("tuning/ja_battery.txt"),
    include_str!("tuning/ja_booking.txt"),
    include_str!("tuning/ja_factory.txt"),
    include_str!("tuning/ja_front.txt"),
    include_str!("tuning/ja_outage.txt"),
    include_str!("tuning/ja_sales.txt"),
    include_str!("tuning/ja_stock.txt"),
];

/// Scripts that nobody reads who changes the summariser; only their totals are looked at.
const JUDGE: &[&str] = &[
    include_str!("judge/en_checkout.txt"),
    include_str!("judge/en_cluster.txt"),
    include_str!("judge/en_contract.txt"),
    include_str!("judge/en_event.txt"),
    include_str!("judge/en_firmware.txt"),
    include_str!("judge/en_grant.txt"),
    include_str!("judge/en_ledger.txt"),
    include_str!("judge/en_research.txt"),
    include_str!("judge/en_security.txt"),
    include_str!("judge/en_support.txt"),
    include_str!("judge/en_warehouse.txt"),
    include_str!("judge/ja_app.txt"),
    include_str!("judge/ja_call.txt"),
    include_str!("judge/ja_event.txt"),
    include_str!("judge/ja_factory.txt"),
    include_str!("judge/ja_hr.txt"),
    include_str!("judge/ja_infra.txt"),
    include_str!("judge/ja_keihi.txt"),
    include_str!("judge/ja_koho.txt"),
    include_str!("judge/ja_orders.txt"),
    include_str!("judge/ja_paper.txt"),
    include_str!("judge/ja_sales.txt"),
];

pub(crate) fn tuning() -> Vec<Session> {
    scripted::sessions(TUNING)
}

pub(crate) fn judge() -> Vec<Session> {
    scripted::sessions(JUDGE)
}
