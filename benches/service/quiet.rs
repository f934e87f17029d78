//! Whether a measurement can be believed: what others did on the machine while it ran.
//!
//! On a busy machine a bare sync takes milliseconds, nearly all of them spent waiting for a processor; against such a
//! limit everything looks good. So each measurement waits for a quiet moment, and is made again if others took
//! much of the processors meanwhile. That is decided by what others do alone, never by what was measured.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::report::{Sample, quartiles};

/// What others may take of the processors.
const MOST: f64 = 0.15;
/// A moment, to see whether it is quiet.
const MOMENT: Duration = Duration::from_millis(60);
/// How long to wait for one, for each measurement.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a measurement is made, at most.
const TRIES: usize = 4;

/// Looks at the machine, and remembers what it saw.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    others: Vec<f64>,
    waited: Duration,
    again: usize,
}

impl Quiet {
    /// Measures in a quiet moment, if there is one.
    pub(crate) fn measure(&mut self, mut run: impl FnMut() -> Sample) -> Sample {
        let mut best: Option<(f64, Sample)> = None;
        for _ in 0..TRIES {
            self.wait();
            let before = Times::now();
            let sample = run();
            let others = Times::now().others_since(&before);
            // Of measurements that were all disturbed, the least disturbed one.
            if best.is_none_or(|(least, _)| others < least) {
                best = Some((others, sample));
            }
            if others <= MOST {
                break;
            }
            self.again += 1;
        }
        let (others, sample) = best.unwrap();
        self.others.push(others);
        Sample { quiet: others <= MOST, ..sample }
    }

    /// Waits for a quiet moment, but not for ever.
    fn wait(&mut self) {
        let began = Instant::now();
        loop {
            let before = Times::now();
            std::thread::sleep(MOMENT);
            if Times::now().others_since(&before) <= MOST || began.elapsed() > PATIENCE {
                break;
            }
        }
        self.waited += began.elapsed();
    }
}

impl fmt::Display for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, middle, high) = quartiles(&self.others);
        let disturbed = self.others.iter().filter(|others| **others > MOST).count();
        let most = self.others.iter().copied().fold(0.0, f64::max);
        write!(
            f,
            "Others took {:.0} % of the processors while this was measured (median; quartiles {:.0}–{:.0}, at most \
             {:.0}). {disturbed} of {} measurements stayed disturbed (more than {:.0} %) and are left out of the \
             ratios; {} were made again; {:.0} s were spent waiting for quiet.",
            middle * 100.0,
            low * 100.0,
            high * 100.0,
            most * 100.0,
            self.others.len(),
            MOST * 100.0,
            self.again,
            self.waited.as_secs_f64(),
        )
    }
}

/// Times in ticks of the clock, since the machine was started.
struct Times {
    all: f64,
    busy: f64,
    ours: f64,
}

impl Times {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let line = stat.lines().next().unwrap();
        let times: Vec<f64> =
            line.split_whitespace().skip(1).take(8).map(|time| time.parse().unwrap()).collect();
        let all: f64 = times.iter().sum();
        Self { all, busy: all - times[3] - times[4], ours: ours() }
    }

    fn others_since(&self, before: &Self) -> f64 {
        let all = (self.all - before.all).max(1.0);
        ((self.busy - before.busy - (self.ours - before.ours)) / all).max(0.0)
    }
}

/// The time of this process and of all below it.
fn ours() -> f64 {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut times: HashMap<u32, f64> = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields[at].parse::<f64>().unwrap();
        children.entry(fields[1].parse().unwrap()).or_default().push(id);
        // Its own, and that of its children that have ended.
        times.insert(id, (11..=14).map(number).sum());
    }
    let (mut sum, mut todo) = (0.0, vec![std::process::id()]);
    while let Some(id) = todo.pop() {
        sum += times.get(&id).copied().unwrap_or(0.0);
        todo.extend(children.get(&id).into_iter().flatten());
    }
    sum
}
