//! What no longer holds leaves the pool: a message is held against all that was said before, and takes the place of what it
//! most likely means; what is open goes when it is done.

use std::ops::Range;

use super::Weighed;
use super::cues::Cues;
use super::item::Item;
use super::overrule::{Older, Others, Remark, Shared, likeliest, sum};
use super::pool::Pool;
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
        let start = |at: usize| sentences[at].0.start;
        let windows: Vec<Range<usize>> = if sentences.len() <= FEW_SENTENCES && text.len() <= LONGEST {
            std::iter::once(0..sentences.len()).filter(|all| !all.is_empty()).collect()
        } else {
            // Of one that says several things, each sentence with those around it.
            (0..sentences.len()).map(|at| at.saturating_sub(1)..(at + 2).min(sentences.len())).collect()
        };
        // Somebody else's text, or a table.
        let quotes = text.contains("\n>") || text.contains("\n|");
        for window in windows {
            let said: Vec<&Statement> =
                asked.into_iter().chain(sentences[window.clone()].iter().map(|(_, said)| said)).collect();
            let part = &text[start(window.start)..sentences[window.end - 1].0.end];
            // What was asked shows nothing of what the answer does.
            let mut signs = vec![Signs::default(); said.len() - window.len()];
            for (place, _) in &sentences[window.clone()] {
                let of = Signs::of(&text[place.clone()]);
                signs.push(if place.start == start(0) { of } else { of.without_start() });
            }
            let quoted = quotes || part.starts_with(['>', '|', '"', '「']);
            let remark = Remark::new(&said, &signs, quoted, sentences.len(), self.when());
            self.overrule(&remark, part);
        }
    }

    /// Drops what a remark most likely takes the place of.
    fn overrule(&mut self, remark: &Remark<'_>, text: &str) {
        let by_user = self.when().by_user;
        let mut found: Vec<(Section, u64, Older<'_>, Shared)> = Vec::new();
        for section in Section::SAID {
            for (id, item) in self.items_before(section).take(FAR) {
                let Some(said) = item.statement.as_deref().filter(|_| item.source == 0 && !item.of_output)
                else {
                    continue;
                };
                if !by_user && is_firm(section, said) {
                    continue;
                }
                let older = Older { said, signs: item.signs, asks: item.asks, when: item.when };
                if let Some(shared) = remark.shares(&older, &self.topics) {
                    found.push((section, id, older, shared));
                }
            }
        }
        let others = Others::of(found.iter().map(|(.., shared)| shared));
        let counts =
            found.iter().map(|(_, _, older, shared)| remark.weigh(older, shared, &others, &self.topics));
        if self.weighed.is_some() {
            let older = found.iter().map(|(section, id, ..)| self.text_of(*section, *id).to_owned());
            let weighed = older.zip(counts).map(|(older, counts)| Weighed { older, counts }).collect();
            self.weighed.get_or_insert_default().push(weighed);
            return;
        }
        let sums: Vec<f64> = counts.map(|counts| sum(&counts)).collect();
        if let Some((section, id)) = likeliest(&sums).map(|at| (found[at].0, found[at].1)) {
            self.drop_untrue(section, id, &Statement::of(text), by_user);
        }
    }

    /// Drops what is open, or went wrong, and is over now.
    pub(super) fn settle(&mut self, new: &Statement) {
        for section in [Section::Pending, Section::Errors] {
            let shelf = &mut self.shelves[section as usize];
            let over = |item: &Item| item.statement.as_deref().is_some_and(|open| new.settles(open));
            let gone: Vec<u64> =
                shelf.items.iter().filter(|(_, item)| over(item)).map(|(id, _)| *id).collect();
            for id in gone {
                shelf.remove(id);
            }
        }
    }

    /// Drops a statement that is no longer true, but for what is still true of it, and what only repeats it.
    fn drop_untrue(&mut self, section: Section, id: u64, new: &Statement, by_user: bool) {
        let Some(item) = self.shelves[section as usize].remove(id) else { return };
        let Some(old) = item.statement.as_deref() else { return };
        let mut lost = old.lost(new);
        let untrue = match item.without(new) {
            Some((rest, gone)) => {
                lost.retain(|value| !rest.statement.as_deref().is_some_and(|rest| rest.has_any(&[*value])));
                self.insert(rest);
                gone
            }
            None => old.clone(),
        };
        self.forget(&lost);
        self.forget_echoes(&untrue, new, by_user);
    }

    /// Drops what only repeats what is no longer true.
    fn forget_echoes(&mut self, untrue: &Statement, new: &Statement, by_user: bool) {
        for section in Section::SAID.into_iter().chain([Section::Commands]) {
            let shelf = &mut self.shelves[section as usize];
            let gone = shelf.items.iter().filter(|(_, item)| {
                let Some(statement) = item.statement.as_deref() else { return false };
                let firm = section == Section::Constraints && statement.cues.any(Cues::RULE);
                (by_user || !firm) && section != Section::Goal && untrue.is_echoed_by(statement, new)
            });
            let gone: Vec<u64> = gone.map(|(id, _)| *id).collect();
            for id in gone {
                shelf.remove(id);
            }
        }
    }

    /// Drops what names values that nothing stands for any more.
    fn forget(&mut self, lost: &[u32]) {
        for section in [Section::Files, Section::Commands, Section::Facts] {
            let shelf = &mut self.shelves[section as usize];
            let gone = shelf.items.iter().filter(|(_, item)| match &item.statement {
                Some(statement) => statement.has_any(lost),
                // A file, whose name is its key.
                None => lost.contains(&short(item.key)),
            });
            let gone: Vec<u64> = gone.map(|(id, _)| *id).collect();
            for id in gone {
                shelf.remove(id);
            }
        }
    }
}

/// Whether only the user can take it back.
fn is_firm(section: Section, statement: &Statement) -> bool {
    section == Section::Goal || section == Section::Constraints && statement.cues.any(Cues::RULE)
}
