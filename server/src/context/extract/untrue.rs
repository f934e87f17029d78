//! What no longer holds leaves the pool: a message is held against all that was said before, and takes the place of what it
//! most likely means; what is open goes when it is done.

use std::ops::Range;

use super::Weighed;
use super::cues::Cues;
use super::item::Item;
use super::overrule::{Counts, LEAST, LEAST_OF_REFUSED, Older, Others, Remark, Shared, likeliest, sum};
use super::pool::Pool;
use super::prose::is_question;
use super::sections::Section;
use super::signs::Signs;
use super::statement::{Statement, short};

/// A longer message speaks of several things, and so does one of more sentences.
const LONGEST: usize = 1000;
const FEW_SENTENCES: usize = 3;
/// Longer ones are documents.
pub(super) const LONGEST_OF_PARTS: usize = 8000;

/// Statements of a section that a remark is held against, the newest first: what it takes must not grow with all that was said.
const FAR: usize = 2048;

impl Pool {
    /// A message was taken, of which this is all, and its sentences. If it only answers, what it answers belongs to it.
    pub(super) fn said_all(
        &mut self,
        text: &str,
        sentences: &[(Range<usize>, Statement)],
        asked: Option<&Statement>,
    ) {
        if sentences.is_empty() {
            return;
        }
        let is_short = sentences.len() <= FEW_SENTENCES && text.len() <= LONGEST;
        // Somebody else's text, or a table.
        let quotes = text.trim_start().starts_with('>') || text.contains("\n>") || text.contains("\n|");
        // Of a message that says several things, each sentence with those around it.
        let windows = if is_short { 1 } else { sentences.len() };
        for at in 0..windows {
            let (window, meant) = if is_short {
                (0..sentences.len(), 0..sentences.len())
            } else {
                (at.saturating_sub(1)..(at + 2).min(sentences.len()), at..at + 1)
            };
            let said = sentences[window.clone()].iter().map(|(_, said)| said);
            let said: Vec<&Statement> = said.chain(asked).collect();
            let mut signs = Vec::with_capacity(said.len());
            for (place, _) in &sentences[window.clone()] {
                let sentence = &text[place.clone()];
                let asks = if is_question(sentence) { Signs::ASKS } else { Signs::default() };
                let of = Signs::of(sentence).with(asks);
                signs.push(if place.start == sentences[0].0.start { of } else { of.without_start() });
            }
            // What was asked shows nothing of what the answer does.
            signs.resize(said.len(), Signs::default());
            let part = &text[sentences[window.start].0.start..sentences[window.end - 1].0.end];
            let quoted = quotes || part.starts_with(['|', '"', '「']);
            let remark = Remark::new(&said, &signs, quoted, sentences.len(), self.when());
            let first = meant.start - window.start;
            let last = if meant.end == sentences.len() { said.len() } else { meant.end - window.start };
            self.overrule(&remark, first..last, part);
        }
    }

    /// Drops what each of some sentences of a remark most likely takes the place of.
    fn overrule(&mut self, remark: &Remark<'_>, sentences: Range<usize>, text: &str) {
        let by_user = self.when().by_user;
        let mut found: Vec<(Section, u64, Older<'_>, Shared)> = Vec::new();
        for section in Section::SAID {
            // What it is all for goes only if somebody says that something changed.
            if section == Section::Goal && !remark.takes_back() {
                continue;
            }
            // What tools have shown is held against nothing.
            let said = self.items_before(section).filter(|(_, item)| item.source == 0 && !item.of_output);
            for (id, item) in said.take(FAR) {
                // What the user said is the user's to take back, and a rule not by the way.
                let may_go = |said: &Statement| {
                    let is_rule = section == Section::Constraints && said.cues.any(Cues::RULE);
                    (by_user || !item.when.by_user) && (!is_rule || remark.is_meant())
                };
                let Some(said) = item.statement.as_deref().filter(|said| may_go(said)) else { continue };
                let older = Older { said, signs: item.signs, asks: item.asks, when: item.when };
                if let Some(shared) = remark.shares(&older, &self.topics) {
                    found.push((section, id, older, shared));
                }
            }
        }
        let refuses: Vec<u64> =
            found.iter().filter(|(_, _, older, _)| remark.refuses(older)).map(|(_, id, ..)| *id).collect();
        let others = Others::of(found.iter().map(|(.., shared)| shared));
        let mut gone = Vec::new();
        let mut weighed = Vec::new();
        for at in sentences {
            // A sentence takes the place of one statement, and each is meant by the sentence that speaks of it most.
            let meant = found.iter().filter(|(_, _, older, _)| remark.sentence(older, &self.topics) == at);
            let counts: Vec<_> = meant
                .map(|(section, id, older, shared)| {
                    (*section, *id, older.said, remark.weigh(older, shared, &others, &self.topics))
                })
                .collect();
            if self.weighed.is_some() {
                let of = |(section, id, _, counts): &(Section, u64, &Statement, Counts)| Weighed {
                    older: self.text_of(*section, *id).to_owned(),
                    counts: *counts,
                };
                weighed.push(counts.iter().map(of).collect());
                continue;
            }
            let sums: Vec<(f64, &Statement)> =
                counts.iter().map(|(.., said, counts)| (sum(counts), *said)).collect();
            let refused = || likeliest(&sums, LEAST_OF_REFUSED).filter(|at| refuses.contains(&counts[*at].1));
            let at = likeliest(&sums, LEAST).or_else(refused);
            gone.extend(at.map(|at| (counts[at].0, counts[at].1)));
        }
        if let Some(all) = &mut self.weighed {
            all.append(&mut weighed);
        }
        if !gone.is_empty() {
            let new = Statement::of(text);
            gone.into_iter().for_each(|(section, id)| self.drop_untrue(section, id, &new, by_user));
        }
    }

    /// Drops what is open, or went wrong, and is over now.
    pub(super) fn settle(&mut self, new: &Statement) {
        for section in [Section::Pending, Section::Errors] {
            let shelf = &self.shelves[section as usize];
            let over = |item: &Item| item.statement.as_deref().is_some_and(|open| new.settles(open));
            let gone: Vec<u64> =
                shelf.items.iter().filter(|(_, item)| over(item)).map(|(id, _)| *id).collect();
            for id in gone {
                let left = self.shelves[section as usize].remove(id).and_then(|item| item.unsettled(new));
                if let Some(rest) = left {
                    self.insert(rest);
                }
            }
        }
    }

    /// Drops a statement that is no longer true, but for what is still true of it, and what only repeats it.
    fn drop_untrue(&mut self, section: Section, id: u64, new: &Statement, by_user: bool) {
        let Some(item) = self.shelves[section as usize].remove(id) else { return };
        // That an error is over says nothing of the files and commands that it names.
        let Some(old) = item.statement.as_deref().filter(|_| section != Section::Errors) else { return };
        let mut lost = old.lost(new);
        let untrue = match item.without(new) {
            Some((rest, gone)) => {
                lost.retain(|value| !rest.statement.as_deref().is_some_and(|rest| rest.has_any(&[*value])));
                self.insert(rest);
                gone
            }
            None => old.clone(),
        };
        self.forget(&lost, new.names_files());
        self.forget_echoes(&untrue, new, by_user);
    }

    /// Drops what only repeats what is no longer true.
    fn forget_echoes(&mut self, untrue: &Statement, new: &Statement, by_user: bool) {
        let before = self.before;
        for section in Section::SAID.into_iter().chain([Section::Commands]) {
            let shelf = &mut self.shelves[section as usize];
            let gone = shelf.items.range(..=before).filter(|(_, item)| {
                let Some(statement) = item.statement.as_deref() else { return false };
                let is_theirs = by_user || !item.when.by_user;
                is_theirs && section != Section::Goal && untrue.is_echoed_by(statement, new)
            });
            let gone: Vec<u64> = gone.map(|(id, _)| *id).collect();
            for id in gone {
                shelf.remove(id);
            }
        }
    }

    /// Drops what names values that nothing stands for any more. A file that was changed goes only if others are named.
    fn forget(&mut self, lost: &[u32], names_files: bool) {
        let before = self.before;
        for section in [Section::Files, Section::Commands, Section::Facts] {
            let shelf = &mut self.shelves[section as usize];
            let gone = shelf.items.range(..=before).filter(|(_, item)| match &item.statement {
                Some(statement) => statement.has_any(lost),
                // A file, whose name is its key.
                None => lost.contains(&short(item.key)) && (names_files || !item.text.ends_with(')')),
            });
            let gone: Vec<u64> = gone.map(|(id, _)| *id).collect();
            for id in gone {
                shelf.remove(id);
            }
        }
    }
}
