//! Makes a session of a script: which items it has, where they stand, and whether what came out is sound.

use super::filler;
use super::rng::Rng;
use super::scribe::{Item, Scribe};
use super::script::{Pair, Script, Turn};
use super::world::{Known, Pools, World};
use super::{Session, session_text};

/// What a session is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) language: &'a str,
    pub(super) script: &'a Script,
    /// What is said in any domain.
    pub(super) common: &'a Script,
    pub(super) pools: &'a Pools,
    /// Which session of the language it is. Those of one script share no item.
    pub(super) number: usize,
}

/// A statement, and where in the session it belongs, from 0 to 1.
struct Beat<'a> {
    at: f64,
    turns: &'a [Turn],
    /// The pair that it is a part of, and whether it is the one that supersedes.
    pair: Option<(usize, bool)>,
}

impl<'a> Plan<'a> {
    /// The session of the first seed with which no fact is said elsewhere by chance.
    pub(super) fn session(self, seed: u64) -> Session {
        let mut flaws = Vec::new();
        for attempt in 0..40 {
            match self.attempt(seed * 1000 + attempt) {
                Ok(session) => return session,
                Err(flaw) => flaws.push(flaw),
            }
        }
        panic!("{} {}: no sound session because of {flaws:?}", self.script.name, self.number)
    }

    fn attempt(self, seed: u64) -> Result<Session, String> {
        let mut rng = Rng::new(seed);
        let which = self.number % 2;
        let beats = self.beats(&mut rng);
        let target = 36_000.0 + 12_000.0 * rng.share();
        let name = format!("{}-{}-{}", self.language, self.script.name, which + 1);
        let world = World::new(self.script, self.pools, which, rng);
        let mut scribe = Scribe::new(Session::new(name, &self.script.system), world);
        let open = &self.script.opens[which % self.script.opens.len()];
        let mut items = vec![scribe.item(open, &mut Known::new())];
        filler::look_around(&mut scribe);
        let mut known: Vec<Known> = vec![Known::new(); beats.len()];
        let mut awaited: Vec<(usize, Vec<String>)> = Vec::new();
        let mut replaced: Vec<(usize, String)> = Vec::new();
        for beat in &beats {
            while scribe.tokens() < beat.at * target {
                filler::write(&mut scribe);
            }
            let Some((pair, supersedes)) = beat.pair else {
                items.push(scribe.item(beat.turns, &mut Known::new()));
                continue;
            };
            let item = scribe.item(beat.turns, &mut known[pair]);
            if supersedes {
                let old = awaited.iter().filter(|(other, _)| *other == pair).flat_map(|(_, old)| old);
                replaced.extend(old.map(|old| (item.first, old.clone())));
            } else {
                awaited.push((pair, item.superseded.clone()));
            }
            items.push(item);
        }
        while scribe.tokens() < target {
            filler::write(&mut scribe);
        }
        flaw(&scribe.session, &items, &replaced).map_or(Ok(scribe.session), Err)
    }

    /// The session's statements in their order, all over its first nine tenths.
    fn beats(self, rng: &mut Rng) -> Vec<Beat<'a>> {
        let which = self.number % 2;
        let common = self.common;
        let mut singles: Vec<&[Turn]> = half(&self.script.singles, which).map(Vec::as_slice).collect();
        for index in 0..5 {
            let next = (self.number * 5 + index) % common.singles.len();
            singles.push(&common.singles[next]);
        }
        let mut pairs: Vec<&Pair> = half(&self.script.pairs, which).collect();
        pairs.push(&common.pairs[self.number % common.pairs.len()]);
        rng.shuffle(&mut singles);
        let mut beats = Vec::new();
        let count = singles.len() as f64;
        for (index, turns) in singles.into_iter().enumerate() {
            let at = 0.01 + 0.84 * (index as f64 + rng.share()) / count;
            beats.push(Beat { at, turns, pair: None });
        }
        for (index, pair) in pairs.into_iter().enumerate() {
            let far = rng.chance(62);
            let gap = if far { 0.3 + 0.4 * rng.share() } else { 0.03 + 0.1 * rng.share() };
            let at = 0.02 + (0.82 - gap) * rng.share();
            beats.push(Beat { at, turns: &pair.old, pair: Some((index, false)) });
            beats.push(Beat { at: at + gap, turns: &pair.new, pair: Some((index, true)) });
        }
        beats.sort_by(|one, other| one.at.total_cmp(&other.at));
        beats
    }
}

/// Every second one.
fn half<T>(items: &[T], which: usize) -> impl Iterator<Item = &T> {
    items.iter().skip(which).step_by(2)
}

/// A probe that stands in other messages than those of its item, or in what supersedes it or after it.
fn flaw(session: &Session, items: &[Item], replaced: &[(usize, String)]) -> Option<String> {
    let texts: Vec<String> = session.messages.iter().map(|message| session_text(message)).collect();
    for item in items {
        for probe in &item.probes {
            let mut others = texts[..item.first].iter().chain(&texts[item.end..]);
            if others.any(|text| text.contains(probe.as_str())) {
                return Some(probe.clone());
            }
        }
    }
    let again =
        |(from, old): &&(usize, String)| texts[*from..].iter().any(|text| text.contains(old.as_str()));
    replaced.iter().find(again).map(|(_, old)| old.clone())
}
