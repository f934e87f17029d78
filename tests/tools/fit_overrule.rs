//! Fits the weights by which the built-in summariser knows what a remark takes the place of:
//! `cargo run --release --package contextstore --example fit_overrule`
//!
//! They are fitted to the sessions of the retention benchmark, but not to those of the judge. Every remark is held against
//! all that was said before; which statements no longer hold at the end of a session is known, which remark said so is not.
//! So what is made likely is that some remark took the place of each fact that was superseded, and none that of a fact that
//! holds; what was said beside the facts counts a little, and is taken to hold.
//!
//! Printed are what was found and what was dropped wrongly, by generator, and the lines of the table in
//! `server/src/context/extract/weights.rs`. `LEAVE=sixth` does not fit to a generator, so that its figures say how the weights
//! do on what they have not seen.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a tool that is run by hand"
)]

#[path = "../../benches/retention/fifth/mod.rs"]
mod fifth;
#[path = "../../benches/retention/first/mod.rs"]
mod first;
#[path = "../../benches/retention/fourth/mod.rs"]
mod fourth;
#[path = "../../benches/retention/second/mod.rs"]
mod second;
#[allow(dead_code, reason = "the benchmark uses more of it")]
#[path = "../../benches/retention/session.rs"]
mod session;
#[path = "../../benches/retention/seventh/mod.rs"]
mod seventh;
#[path = "../../benches/retention/sixth/mod.rs"]
mod sixth;
#[path = "../../benches/retention/third/mod.rs"]
mod third;

use contextstore::context::extract::{Extractor, LEAST, Piece, SIGNS};
use contextstore::model::Role;
use serde_json::Value;
use session::{Kind, Session, spaced};

/// A generator, or the examples: its name, and what makes its sessions.
type Source = (&'static str, fn() -> Vec<Session>);

/// What a remark is held against.
struct Pair {
    counts: Vec<f64>,
    /// The facts that the older statement tells.
    facts: Vec<usize>,
}

/// All remarks of the sessions of one generator, and their facts: whether they were superseded.
struct Corpus {
    name: &'static str,
    is_fitted: bool,
    remarks: Vec<Vec<Pair>>,
    superseded: Vec<bool>,
}

/// What is said beside the facts counts so much.
const OTHER: f64 = 0.05;
/// How much a weight that little speaks for stays at nothing.
const RIDGE: f64 = 3e-4;
const ROUNDS: usize = 500;

pub(crate) fn main() {
    let leave = std::env::var("LEAVE").unwrap_or_default();
    let sources: [Source; 7] = [
        ("first", first::sessions),
        ("second", second::sessions),
        ("third", third::sessions),
        ("fourth", fourth::sessions),
        ("fifth", fifth::sessions),
        ("sixth", sixth::sessions),
        ("seventh", seventh::sessions),
    ];
    let mut corpora: Vec<Corpus> = std::iter::once::<Source>(("examples", examples))
        .chain(sources)
        .map(|(name, sessions)| Corpus::new(name, name != leave, &sessions()))
        .collect();
    assert!(leave.is_empty() || corpora.iter().any(|corpus| !corpus.is_fitted), "no generator {leave}");
    let scale = Scale::of(&corpora);
    corpora.iter_mut().for_each(|corpus| scale.apply(corpus));
    let weights = fit(&corpora);
    corpora.iter().for_each(|corpus| corpus.report(&weights));
    for (weight, (sign, _)) in scale.undo(&weights).iter().zip(SIGNS) {
        println!("    (\"{sign}\", {weight:.3}),");
    }
}

/// The examples that tests hold the summariser to, each a few times, as there are few of them.
fn examples() -> Vec<Session> {
    const TIMES: usize = 12;
    let mut sessions = Vec::new();
    let mut superseded = false;
    for line in include_str!("../../server/src/context/extract/examples.txt").lines() {
        if line.starts_with("replaced") || line.starts_with("kept") {
            superseded = line.starts_with("replaced");
        }
        let Some((old, new)) = line.split_once(" => ").filter(|_| !line.starts_with('#')) else { continue };
        let mut session = Session::new("example".to_owned(), "You help.");
        session.user("Please look after the shop.");
        match new.split_once(" => ") {
            Some((question, answer)) => {
                session.assistant(old);
                session.assistant(question);
                session.user(answer);
            }
            None => {
                session.user(old);
                session.assistant("Understood.");
                session.user(new);
            }
        }
        if superseded {
            session.superseded(Kind::Id, old)
        } else {
            session.fact(Kind::Id, old)
        }
        sessions.extend(std::iter::repeat_n(session, TIMES));
    }
    sessions
}

impl Corpus {
    fn new(name: &'static str, is_fitted: bool, sessions: &[Session]) -> Self {
        let mut corpus = Self { name, is_fitted, remarks: Vec::new(), superseded: Vec::new() };
        for session in sessions {
            let first = corpus.superseded.len();
            let probes: Vec<String> = session.facts.iter().map(|fact| spaced(&fact.probe)).collect();
            corpus.superseded.extend(session.facts.iter().map(|fact| fact.superseded));
            for remark in remarks(session) {
                corpus.remarks.push(
                    remark
                        .into_iter()
                        .map(|(older, counts)| {
                            let older = spaced(&older);
                            let told = |at: &usize| older.contains(&probes[*at]);
                            Pair {
                                counts,
                                facts: (0..probes.len()).filter(told).map(|at| first + at).collect(),
                            }
                        })
                        .collect(),
                );
            }
        }
        corpus
    }

    fn report(&self, weights: &[f64]) {
        let mut dropped = vec![false; self.superseded.len()];
        let mut beside = 0;
        for remark in &self.remarks {
            let likely = likelihoods(remark, weights);
            let best = (0..remark.len()).max_by(|one, other| likely[*one].total_cmp(&likely[*other]));
            if let Some(best) = best.filter(|best| likely[*best] > LEAST) {
                remark[best].facts.iter().for_each(|fact| dropped[*fact] = true);
                beside += usize::from(remark[best].facts.is_empty());
            }
        }
        let count = |superseded: bool, only_dropped: bool| {
            let facts = self.superseded.iter().zip(&dropped);
            facts.filter(|(gone, dropped)| **gone == superseded && (!only_dropped || **dropped)).count()
        };
        println!(
            "{}{}: {} of {} superseded found, {} of {} that hold dropped, {beside} others",
            self.name,
            if self.is_fitted { "" } else { " (not fitted to)" },
            count(true, true),
            count(true, false),
            count(false, true),
            count(false, false)
        );
    }
}

/// What each sentence of a session is held against.
fn remarks(session: &Session) -> Vec<Vec<(String, Vec<f64>)>> {
    let values: Vec<Value> =
        session.messages.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    let pieces = values.iter().enumerate().skip(1).map(|(at, message)| Piece {
        seq: at as u64,
        role: Role::parse(message["role"].as_str().unwrap()).unwrap(),
        text: message["content"].as_str().unwrap_or_default(),
        calls: &[],
        tool_name: None,
        output_ref: None,
    });
    let weighed = Extractor::weigh(pieces.filter(|piece| piece.role != Role::Tool));
    let pairs = weighed.into_iter().map(|remark| {
        remark.into_iter().map(|weighed| (weighed.older, weighed.counts.to_vec())).collect::<Vec<_>>()
    });
    pairs.filter(|remark| !remark.is_empty()).collect()
}

/// What makes all counts alike: their means and how far they spread.
struct Scale {
    mean: Vec<f64>,
    spread: Vec<f64>,
}

impl Scale {
    fn of(corpora: &[Corpus]) -> Self {
        let (mut sum, mut squares, mut all) = (vec![0.0; SIGNS.len()], vec![0.0; SIGNS.len()], 0.0);
        let fitted = corpora.iter().filter(|corpus| corpus.is_fitted);
        for pair in fitted.flat_map(|corpus| corpus.remarks.iter().flatten()) {
            all += 1.0;
            for (at, count) in pair.counts.iter().enumerate() {
                sum[at] += count;
                squares[at] += count * count;
            }
        }
        let mut mean: Vec<f64> = sum.iter().map(|sum| sum / all).collect();
        let mut spread: Vec<f64> = squares
            .iter()
            .zip(&mean)
            .map(|(squares, mean)| (squares / all - mean * mean).max(1e-9).sqrt())
            .collect();
        (mean[0], spread[0]) = (0.0, 1.0);
        Self { mean, spread }
    }

    fn apply(&self, corpus: &mut Corpus) {
        for pair in corpus.remarks.iter_mut().flatten() {
            for (at, count) in pair.counts.iter_mut().enumerate() {
                *count = (*count - self.mean[at]) / self.spread[at];
            }
        }
    }

    fn undo(&self, weights: &[f64]) -> Vec<f64> {
        let mut undone: Vec<f64> =
            weights.iter().zip(&self.spread).map(|(weight, spread)| weight / spread).collect();
        undone[0] -= undone.iter().zip(&self.mean).map(|(weight, mean)| weight * mean).sum::<f64>();
        undone
    }
}

/// How likely each pair of a remark is what it means.
fn likelihoods(remark: &[Pair], weights: &[f64]) -> Vec<f64> {
    let sum =
        |pair: &Pair| pair.counts.iter().zip(weights).map(|(count, weight)| count * weight).sum::<f64>();
    let odds: Vec<f64> = remark.iter().map(|pair| sum(pair).clamp(-30.0, 30.0).exp()).collect();
    let all = 1.0 + odds.iter().sum::<f64>();
    odds.iter().map(|odds| (odds / all).clamp(1e-9, 1.0 - 1e-6)).collect()
}

/// Adam, on all pairs at once.
fn fit(corpora: &[Corpus]) -> Vec<f64> {
    let fitted: Vec<&Corpus> = corpora.iter().filter(|corpus| corpus.is_fitted).collect();
    let superseded = fitted.iter().flat_map(|corpus| &corpus.superseded).filter(|gone| **gone).count() as f64;
    let mut weights = vec![0.0; SIGNS.len()];
    weights[0] = -5.0;
    let (mut first, mut second) = (vec![0.0; SIGNS.len()], vec![0.0; SIGNS.len()]);
    for round in 1..=ROUNDS {
        let gradients: Vec<(f64, Vec<f64>)> = std::thread::scope(|scope| {
            let (mut heavy, mut light): (Vec<&Corpus>, Vec<&Corpus>) = (Vec::new(), Vec::new());
            // Two threads, with about as many pairs.
            for corpus in &fitted {
                let pairs = |list: &[&Corpus]| {
                    list.iter()
                        .map(|corpus| corpus.remarks.iter().map(Vec::len).sum::<usize>())
                        .sum::<usize>()
                };
                if pairs(&heavy) <= pairs(&light) { heavy.push(corpus) } else { light.push(corpus) }
            }
            let weights = &weights;
            let run = |list: Vec<&Corpus>| {
                list.into_iter().map(|corpus| gradient(corpus, weights)).collect::<Vec<_>>()
            };
            let other = scope.spawn(move || run(light));
            let mut all = run(heavy);
            all.extend(other.join().unwrap());
            all
        });
        let loss: f64 = gradients.iter().map(|(loss, _)| loss).sum::<f64>() / superseded;
        // Smaller steps towards the end.
        let step = 0.1 * (1.0 - round as f64 / (ROUNDS as f64 + 1.0));
        for at in 0..weights.len() {
            let sum: f64 = gradients.iter().map(|(_, gradient)| gradient[at]).sum();
            let slope = sum / superseded + 2.0 * RIDGE * weights[at];
            first[at] = 0.9 * first[at] + 0.1 * slope;
            second[at] = 0.99 * second[at] + 0.01 * slope * slope;
            let power = i32::try_from(round).unwrap();
            let (mean, square) =
                (first[at] / (1.0 - 0.9_f64.powi(power)), second[at] / (1.0 - 0.99_f64.powi(power)));
            weights[at] -= step * mean / (square.sqrt() + 1e-8);
        }
        if round % 50 == 0 {
            println!("round {round}: {loss:.4}");
        }
    }
    weights
}

/// How unlikely what is known is, and how that changes with each weight.
fn gradient(corpus: &Corpus, weights: &[f64]) -> (f64, Vec<f64>) {
    let likely: Vec<Vec<f64>> = corpus.remarks.iter().map(|remark| likelihoods(remark, weights)).collect();
    // How likely it is that no remark took the place of a fact, as logarithms.
    let mut stays = vec![0.0_f64; corpus.superseded.len()];
    for (remark, likely) in corpus.remarks.iter().zip(&likely) {
        for (pair, likely) in remark.iter().zip(likely) {
            pair.facts.iter().for_each(|fact| stays[*fact] += (-likely).ln_1p());
        }
    }
    let mut loss = 0.0;
    let wanted: Vec<f64> = stays
        .iter()
        .zip(&corpus.superseded)
        .map(|(stays, gone)| {
            if !gone || *stays == 0.0 {
                return 0.0;
            }
            let stays = stays.min(-1e-7).exp();
            loss -= (1.0 - stays).ln();
            -stays / (1.0 - stays)
        })
        .collect();
    let mut gradient = vec![0.0; weights.len()];
    for (remark, likely) in corpus.remarks.iter().zip(&likely) {
        let pulls: Vec<f64> = remark
            .iter()
            .zip(likely)
            .map(|(pair, likely)| {
                let gone: f64 = pair.facts.iter().map(|fact| wanted[*fact]).sum();
                let is_gone = pair.facts.iter().any(|fact| corpus.superseded[*fact]);
                let weight = match pair.facts.is_empty() {
                    _ if is_gone => gone,
                    true => OTHER,
                    false => 1.0,
                };
                if !is_gone {
                    loss -= weight * (-likely).ln_1p();
                }
                weight / (1.0 - likely)
            })
            .collect();
        let mean: f64 = pulls.iter().zip(likely).map(|(pull, likely)| pull * likely).sum();
        for ((pair, likely), pull) in remark.iter().zip(likely).zip(&pulls) {
            let slope = likely * (pull - mean);
            if slope.abs() > 1e-12 {
                pair.counts
                    .iter()
                    .zip(&mut gradient)
                    .for_each(|(count, gradient)| *gradient += slope * count);
            }
        }
    }
    (loss, gradient)
}
