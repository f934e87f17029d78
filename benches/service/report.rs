//! What was measured, and how it is told: medians and quartiles over rounds, ratios within a round.

use std::fmt::{self, Write as _};
use std::fs;
use std::time::Duration;

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Calls a second; of streams, megabytes.
    pub(crate) per_second: f64,
    /// The median time of a call in microseconds, if calls were timed.
    pub(crate) p50: f64,
}

impl Sample {
    /// From the times of all calls in microseconds.
    pub(crate) fn of(mut times: Vec<f64>, taken: Duration) -> Self {
        let count = times.len();
        times.sort_by(f64::total_cmp);
        let p50 = times.get(count / 2).copied().unwrap_or(f64::NAN);
        Self { per_second: count as f64 / taken.as_secs_f64(), p50 }
    }

    pub(crate) fn mean(samples: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        Self { per_second: mean(|sample| sample.per_second), p50: mean(|sample| sample.p50) }
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

    pub(crate) fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.per_second).collect()
    }

    pub(crate) fn medians(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.p50).collect()
    }
}

/// What else the machine did: how busy it was while nothing of ours ran.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    busy: Vec<f64>,
}

impl Noise {
    /// Looks for a moment.
    pub(crate) fn look(&mut self) {
        let before = processors();
        std::thread::sleep(Duration::from_millis(200));
        let after = processors();
        self.busy.push((after.0 - before.0) / (after.1 - before.1).max(1.0));
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, middle, high) = quartiles(&self.busy);
        let most = self.busy.iter().copied().fold(0.0, f64::max);
        write!(
            f,
            "Before each round, while nothing of this ran, others used {:.0} % of the processors ({:.0}–{:.0}, at \
             most {:.0}).",
            middle * 100.0,
            low * 100.0,
            high * 100.0,
            most * 100.0
        )
    }
}

/// Time that the processors were busy, and all time.
fn processors() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let times: Vec<f64> =
        stat.lines().next().unwrap().split_whitespace().skip(1).map(|time| time.parse().unwrap()).collect();
    let all: f64 = times.iter().take(8).sum();
    (all - times[3] - times[4], all)
}

pub(crate) fn quartiles(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at =
        |part: usize| values.get((values.len().saturating_sub(1)) * part / 4).copied().unwrap_or(f64::NAN);
    (at(1), at(2), at(3))
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
    report.push_str("| ratio within a round | median (quartiles) | rounds won |\n|---|---|---|\n");
}

/// A ratio of which more is better.
pub(crate) fn ratio_row(what: &str, ratios: &[f64], report: &mut String) {
    let won = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let (low, middle, high) = quartiles(ratios);
    let _ = writeln!(report, "| {what} | {middle:.2} ({low:.2}–{high:.2}) | {won}/{} |", ratios.len());
}
