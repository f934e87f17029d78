//! What was measured, and how it is told: medians and quartiles over rounds, ratios within a round.

use std::fmt::Write as _;
use std::time::Duration;

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Calls a second; of streams, megabytes.
    pub(crate) per_second: f64,
    /// The median time of a call in microseconds, if calls were timed.
    pub(crate) p50: f64,
    /// Whether others left the machine alone meanwhile.
    pub(crate) quiet: bool,
}

impl Sample {
    pub(crate) fn new(per_second: f64, p50: f64) -> Self {
        Self { per_second, p50, quiet: false }
    }

    /// From the times of all calls in microseconds.
    pub(crate) fn of(mut times: Vec<f64>, taken: Duration) -> Self {
        let count = times.len();
        times.sort_by(f64::total_cmp);
        let p50 = times.get(count / 2).copied().unwrap_or(f64::NAN);
        Self::new(count as f64 / taken.as_secs_f64(), p50)
    }

    pub(crate) fn mean(samples: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        Self {
            per_second: mean(|sample| sample.per_second),
            p50: mean(|sample| sample.p50),
            quiet: samples.iter().all(|sample| sample.quiet),
        }
    }
}

/// Something that is measured in every round.
pub(crate) struct Cell {
    /// Where it stands among the others.
    pub(crate) place: u32,
    pub(crate) name: String,
    pub(crate) samples: Vec<Sample>,
    pub(crate) run: Box<dyn FnMut() -> Sample>,
}

impl Cell {
    pub(crate) fn new(place: u32, name: String, run: impl FnMut() -> Sample + 'static) -> Self {
        Self { place, name, samples: Vec::new(), run: Box::new(run) }
    }

    /// Of each round; those that others disturbed are no numbers.
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.of_rounds(|sample| sample.per_second)
    }

    /// The same of the times.
    pub(crate) fn medians(&self) -> Vec<f64> {
        self.of_rounds(|sample| sample.p50)
    }

    fn of_rounds(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(|sample| if sample.quiet { of(sample) } else { f64::NAN }).collect()
    }
}

/// What is no number does not count.
pub(crate) fn quartiles(values: &[f64]) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let at =
        |part: usize| values.get((values.len().saturating_sub(1)) * part / 4).copied().unwrap_or(f64::NAN);
    (at(1), at(2), at(3))
}

/// In how many rounds nobody disturbed what was compared.
pub(crate) fn undisturbed(values: &[f64]) -> usize {
    values.iter().filter(|value| !value.is_nan()).count()
}

pub(crate) fn ratios(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}

pub(crate) fn cells(cells: &[Cell], report: &mut String) {
    report.push_str("| | per second; of streams MB/s: median (quartiles) | p50 µs |\n|---|---|---|\n");
    for cell in cells {
        let (low, middle, high) = quartiles(&cell.rates());
        let (_, p50, _) = quartiles(&cell.medians());
        let p50 = if p50.is_nan() { String::new() } else { format!("{p50:.0}") };
        let _ = writeln!(report, "| {} | {middle:.0} ({low:.0}–{high:.0}) | {p50} |", cell.name);
    }
}

pub(crate) fn ratios_head(report: &mut String) {
    report
        .push_str("| ratio within a round | median (quartiles) | undisturbed rounds won |\n|---|---|---|\n");
}

/// A ratio of which more is better.
pub(crate) fn ratio_row(what: &str, ratios: &[f64], report: &mut String) {
    let won = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let (low, middle, high) = quartiles(ratios);
    let rounds = undisturbed(ratios);
    let _ = writeln!(report, "| {what} | {middle:.2} ({low:.2}–{high:.2}) | {won}/{rounds} |");
}
