//! How much of what was planted a view still tells.

use std::collections::BTreeMap;

use super::door;
use super::session::{Kind, Session, plain, spaced};

/// How a session is made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `summarize`, by the built-in summariser.
    Extractive,
    /// The same, compressed after each third of the session: summaries of summaries.
    Rounds,
    Prune,
    Window,
    /// Without a server: the newest messages that have room.
    DropOldest,
}

impl Way {
    pub(crate) const ALL: [Self; 5] =
        [Self::Extractive, Self::Rounds, Self::Prune, Self::Window, Self::DropOldest];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Extractive => "extractive",
            Self::Rounds => "in three rounds",
            Self::Prune => "prune",
            Self::Window => "window",
            Self::DropOldest => "drop the oldest",
        }
    }
}

/// Facts of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    /// That hold, and those of them that the view tells.
    pub(crate) planted: u32,
    pub(crate) kept: u32,
    /// That were superseded, and those of them that it tells all the same.
    pub(crate) superseded: u32,
    pub(crate) stale: u32,
}

impl Count {
    /// The share that is kept in percent; what is stale counts against.
    pub(crate) fn share(self) -> f64 {
        100.0 * (f64::from(self.kept) - f64::from(self.stale)) / f64::from(self.planted.max(1))
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| Self {
            planted: sum.planted + count.planted,
            kept: sum.kept + count.kept,
            superseded: sum.superseded + count.superseded,
            stale: sum.stale + count.stale,
        })
    }
}

/// What one way makes of the sessions of one generator at one share.
pub(crate) struct Result {
    pub(crate) generator: &'static str,
    pub(crate) percent: u64,
    pub(crate) way: Way,
    pub(crate) all: Count,
    pub(crate) kinds: BTreeMap<Kind, Count>,
    pub(crate) sessions: u32,
    /// Tokens of the sessions, and of what became of them.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// The largest view, as a share of its session in percent.
    pub(crate) largest: f64,
    /// What was lost, and what was kept that should not be.
    pub(crate) wrong: Vec<String>,
}

impl Result {
    pub(crate) fn new(generator: &'static str, percent: u64, way: Way) -> Self {
        Self {
            generator,
            percent,
            way,
            all: Count::default(),
            kinds: BTreeMap::new(),
            sessions: 0,
            before: 0,
            after: 0,
            largest: 0.0,
            wrong: Vec::new(),
        }
    }

    /// Looks for the facts of a session of so many tokens in its view.
    pub(crate) fn add(&mut self, session: &Session, view: &[String], tokens: u64) {
        // The system prompt is in every view, and holds no facts.
        let text = view.iter().skip(1).map(|message| plain(message)).collect::<Vec<_>>().join("\n");
        let after = door::tokens(view);
        self.sessions += 1;
        self.before += tokens;
        self.after += after;
        self.largest = self.largest.max(100.0 * after as f64 / tokens as f64);
        for fact in &session.facts {
            let told = text.contains(&spaced(&fact.probe));
            for count in [&mut self.all, self.kinds.entry(fact.kind).or_default()] {
                if fact.superseded {
                    count.superseded += 1;
                    count.stale += u32::from(told);
                } else {
                    count.planted += 1;
                    count.kept += u32::from(told);
                }
            }
            if told == fact.superseded {
                let word = if told { "stale" } else { "lost" };
                self.wrong.push(format!("{}: {word}: {} ({})", session.name, fact.probe, fact.kind.as_str()));
            }
        }
    }
}
