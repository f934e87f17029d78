//! What is to be reached, and what is worth telling beside it.

use std::fmt::Write as _;

use crate::report::{Cell, quartiles, ratio_row, ratios, ratios_head, undisturbed};

pub(crate) const SQLITE: &str = "sqlite3, WAL and FULL";

/// A server that does nothing but what is said, called by grpcio alone.
pub(crate) const FLOOR: &str = "bare server, write and fdatasync in place";
pub(crate) const FLOOR_NO_OP: &str = "bare server, no-op";

/// Something to be reached, as a number for each round.
pub(crate) struct Target {
    pub(crate) number: u32,
    pub(crate) what: String,
    pub(crate) bound: Bound,
    pub(crate) rounds: Vec<f64>,
    /// What cannot be, as nothing is faster than its limit: then the limit was not measured.
    pub(crate) limit: Option<Bound>,
}

/// A verdict needs so many rounds that others did not disturb; or all, if there are fewer.
const ROUNDS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

/// Tells the ratios, and answers the targets that follow from the cells. What was not measured is left out.
pub(crate) fn of(cells: &[Cell], report: &mut String) -> Vec<Target> {
    let find = |name: &str| cells.iter().find(|cell| cell.name == name);
    let rates = |name: &str| find(name).map(Cell::rates);
    let over = |over: &str, under: &str| Some(ratios(&rates(over)?, &rates(under)?));

    ratios_head(report);
    let sqlite = format!("Python, {SQLITE}");
    let peers = [
        sqlite.as_str(),
        "Python, OpenAI Agents SQLiteSession",
        "Python, Redis, appendfsync always",
        "Python, LangGraph SqliteSaver behind 1000 messages",
    ];
    let (sync, socket) = ("bare write and fdatasync", "bare socket, read and write in 256 KiB");
    let (one, pipelined) = ("Python, durable, one by one", "Python, durable, pipelined");
    let mut rows: Vec<(&str, &str)> = vec![
        ("Python, stream", socket),
        ("Rust, durable, one by one", sync),
        ("Rust, durable, pipelined", sync),
        ("Rust, not durable, one by one", "Rust, no-op"),
        ("Rust, durable, 8 callers", "Rust, durable, one by one"),
        ("Rust, durable, 64 callers, a task each", "Rust, durable, one by one"),
        ("Rust, durable, 64 callers", "Rust, no-op, 64 callers"),
        ("Python, not durable, one by one", "Python, no-op"),
        (one, "Python, bare server, write and fdatasync in place"),
        ("Rust, durable, 64 callers", "Rust, not durable, 64 callers"),
        ("Rust, not durable, 64 callers", "Rust, durable, one by one"),
        ("Python, durable, 8 callers", one),
        ("Python, durable, 64 callers", one),
        (
            "Python, LangGraph SqliteSaver behind 1000 messages",
            "Python, LangGraph SqliteSaver behind 100 messages",
        ),
    ];
    rows.extend(peers.iter().flat_map(|peer| [(one, *peer), (pipelined, *peer)]));
    for (ours, other) in rows {
        if let Some(ratios) = over(ours, other) {
            ratio_row(&format!("{ours} ÷ {other}"), &ratios, report);
        }
    }

    // Times rather than rates, as they are added.
    let medians = |name: &str| find(name).map(Cell::medians);
    let beyond_no_op = || {
        let (one, no_op, sync) = (medians(one)?, medians("Python, no-op")?, medians(sync)?);
        Some(one.iter().zip(no_op).zip(sync).map(|((one, no_op), sync)| (one - no_op) / sync).collect())
    };
    // The floor of the same: what a server that does nothing else comes to.
    let least = || {
        let (floor, no_op) = (format!("Python, {FLOOR}"), format!("Python, {FLOOR_NO_OP}"));
        let (one, no_op, sync) = (medians(&floor)?, medians(&no_op)?, medians(sync)?);
        Some(
            one.iter()
                .zip(no_op)
                .zip(sync)
                .map(|((one, no_op), sync)| (one - no_op) / sync)
                .collect::<Vec<_>>(),
        )
    };
    if let Some(least) = least() {
        ratio_row(
            "Python, bare server: (write and fdatasync in place − no-op) ÷ bare fdatasync",
            &least,
            report,
        );
    }
    let context = || {
        Some(ratios(
            &medians("Python, 1 MB context as messages")?,
            &medians("Python, 1 MB file, read and parsed by orjson")?,
        ))
    };
    let all = [
        (1, "Rust streams ÷ bare socket", Bound::AtLeast(0.70), over("Rust, stream", socket)),
        (
            2,
            "the same with a client left at its defaults",
            Bound::AtLeast(0.45),
            over("Rust, stream, a client left at its defaults", socket),
        ),
        (
            3,
            "Python streams ÷ grpcio alone",
            Bound::AtLeast(0.85),
            over("Python, stream", "Python, grpcio alone, same bytes"),
        ),
        (4, "Python, a context of 1 MB ÷ file and orjson, p50", Bound::AtMost(8.0), context()),
        (
            5,
            "Python durable one by one, p50: (append − no-op) ÷ bare fdatasync",
            Bound::AtMost(1.25),
            beyond_no_op(),
        ),
        (
            6,
            "Python durable pipelined ÷ sqlite3 WAL/FULL one by one",
            Bound::AtLeast(2.0),
            over(pipelined, &sqlite),
        ),
        (
            7,
            "Python durable one by one ÷ LangGraph SqliteSaver at 1000 messages",
            Bound::AtLeast(30.0),
            over(one, peers[3]),
        ),
        (
            8,
            "Rust durable, 64 callers ÷ one",
            Bound::AtLeast(10.0),
            over("Rust, durable, 64 callers", "Rust, durable, one by one"),
        ),
    ];
    let target = |(number, what, bound, rounds): (u32, &str, Bound, Option<Vec<f64>>)| {
        let limit = match number {
            1..=3 => Some(Bound::AtMost(1.0)),
            // Calls that do nothing may find the processor asleep more often than those that wait for a disk.
            5 => Some(Bound::AtLeast(0.9)),
            _ => None,
        };
        Some(Target { number, what: what.to_owned(), bound, rounds: rounds?, limit })
    };
    all.into_iter().filter_map(target).collect()
}

pub(crate) fn table(targets: Vec<Target>, report: &mut String) {
    report.push_str(
        "\n| # | target | | median (quartiles) | undisturbed rounds in which it held | reached |\n|---|---|---|---|---|---|\n",
    );
    for Target { number, what, bound, rounds, limit } in targets {
        let held = rounds.iter().filter(|value| bound.holds(**value)).count();
        let (low, middle, high) = quartiles(&rounds);
        let goal = match bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
        };
        let count = undisturbed(&rounds);
        let reached = if count < rounds.len().min(ROUNDS) {
            "too busy to tell"
        } else if limit.is_some_and(|limit| !limit.holds(middle)) {
            "void: faster than its limit"
        } else if bound.holds(middle) {
            "yes"
        } else {
            "no"
        };
        let _ = writeln!(
            report,
            "| {number} | {what} | {goal} | {middle:.2} ({low:.2}–{high:.2}) | {held}/{count} | {reached} |"
        );
    }
}
