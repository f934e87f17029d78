//! The table of the retention benchmark, and its targets.

use std::fmt::Write as _;
use std::path::Path;

use super::rounds::{Losses, WINDOWS};
use super::score::{Result, Way};

/// Between these the document holds what was measured.
const BEGIN: &str = "<!-- measured: make bench-retention -->\n";
const END: &str = "<!-- end -->\n";

/// One row of the table, and a group of bars of the plot: what each way reaches.
pub(crate) struct Row {
    pub(crate) title: String,
    /// The title below the bars.
    pub(crate) short: String,
    cells: Vec<String>,
    /// In percent.
    pub(crate) shares: Vec<f64>,
}

/// Returns the rows of what was measured: the generators, then the rounds.
pub(crate) fn rows(results: &[Result], losses: &[Losses]) -> Vec<Row> {
    let mut rows = Vec::new();
    for percent in super::SHARES {
        for generator in ["tuning", "judge"] {
            let of: Vec<&Result> = results
                .iter()
                .filter(|result| (result.generator, result.percent) == (generator, percent))
                .collect();
            if of.is_empty() {
                continue;
            }
            let shares: Vec<f64> = of.iter().map(|result| result.share()).collect();
            rows.push(Row {
                title: format!("Facts kept at {percent} %, {generator}"),
                short: format!("{percent} %, {generator}"),
                cells: shares.iter().map(|share| format!("{share:.1} %")).collect(),
                shares,
            });
        }
    }
    for window in WINDOWS {
        let of: Vec<&Losses> = losses.iter().filter(|losses| losses.window == window).collect();
        let Some(any) = of.first() else { continue };
        let checks = any.goals.of;
        rows.push(Row {
            title: format!(
                "Lost in six rounds at {}k: goal, request (of {checks}), instructions (of {})",
                window / 1000,
                any.instructions.of
            ),
            short: format!("six rounds, {}k", window / 1000),
            cells: of.iter().map(|losses| losses.cell()).collect(),
            shares: of.iter().map(|losses| losses.instructions.kept_percent()).collect(),
        });
    }
    rows
}

/// Returns the table.
pub(crate) fn table(rows: &[Row]) -> String {
    let names = Way::ALL.map(Way::as_str).join(" | ");
    let mut text = format!("\n| | {names} |\n|---{}|\n", "|---".repeat(Way::ALL.len()));
    for row in rows {
        let _ = writeln!(text, "| {} | {} |", row.title, row.cells.join(" | "));
    }
    text.push('\n');
    text
}

/// Puts the table into the document, between its marks.
pub(crate) fn into_document(path: &Path, table: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, behind) = rest.split_once(END).unwrap();
    std::fs::write(path, format!("{before}{BEGIN}{table}{END}{behind}")).unwrap();
}

/// Returns the targets that were missed.
pub(crate) fn missed(results: &[Result], losses: &[Losses]) -> Vec<String> {
    let share = |generator: &str, percent: u64, way: Way| {
        let is =
            |result: &&Result| (result.generator, result.percent, result.way) == (generator, percent, way);
        results.iter().find(is).map_or(0.0, Result::share)
    };
    let mut missed = Vec::new();
    for generator in ["tuning", "judge"] {
        let kept = share(generator, 10, Way::Summarize);
        let dropped = share(generator, 10, Way::DropOldest);
        if kept < 2.0 * dropped {
            missed.push(format!("{generator}: summarize keeps {kept:.1} % at 10 %, not twice {dropped:.1}"));
        }
    }
    let (tuned, judged) = (share("tuning", 30, Way::Summarize), share("judge", 30, Way::Summarize));
    if judged < tuned - 5.0 {
        missed.push(format!("at 30 % the judge says {judged:.1}, more than 5 points below {tuned:.1}"));
    }
    for result in results.iter().filter(|result| result.largest > result.percent as f64 + 0.5) {
        let Result { generator, percent, way, largest, .. } = result;
        missed.push(format!("{generator}, {}: a view has {largest:.1} %, not {percent}", way.as_str()));
    }
    for losses in losses.iter().filter(|losses| losses.way == Way::Summarize) {
        let lost = losses.goals.lost + losses.requests.lost + losses.instructions.lost;
        if losses.window >= 16_000 && lost > 0 {
            missed.push(format!(
                "{} lost in six rounds at {}k, not none",
                losses.cell(),
                losses.window / 1000
            ));
        }
        if losses.over > 0 {
            missed.push(format!("{} views over the window at {}k", losses.over, losses.window / 1000));
        }
    }
    missed
}
