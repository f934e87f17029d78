//! What has been found so far and may go into the summary: bounded by the budget, without repetitions, and without
//! what was superseded.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::cues::Cues;
use super::outputs::WEIGHT_OF_MORE;
use super::sections::Section;
use super::statement::{Statement, long_hash, short};
use super::topics::{Shown, Topics};

/// One line of a summary, perhaps.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) section: Section,
    pub(super) text: String,
    /// How much it matters, up to about 1000.
    pub(super) weight: u32,
    /// When it was said.
    pub(super) order: u64,
    /// The message it is from, so that its sentences stay together.
    pub(super) message: u64,
    /// What a sentence says; lines of outputs and files have none.
    pub(super) statement: Option<Box<Statement>>,
    /// What its message speaks about.
    pub(super) context: Option<Arc<[u32]>>,
    /// Of which command it is the result; 0: of none.
    pub(super) source: u64,
    /// It supersedes nothing.
    quiet: bool,
    /// It is a line of what a tool put out, and of what it was asked.
    pub(super) of_output: bool,
    call: u64,
    /// The user says so, who may take back rules.
    pub(super) by_user: bool,
    /// How often it was found.
    hits: u32,
    /// Bytes that it takes, as they were counted.
    size: usize,
    key: u64,
}

impl Item {
    pub(super) fn new(section: Section, text: String, weight: u32) -> Self {
        let key = long_hash(&folded(&text));
        Self {
            section,
            text,
            weight,
            order: 0,
            message: 0,
            statement: None,
            context: None,
            source: 0,
            quiet: false,
            of_output: false,
            call: 0,
            by_user: false,
            hits: 1,
            size: 0,
            key,
        }
    }

    /// The same name means the same thing: the newer one takes the place of the older.
    pub(super) fn named(mut self, name: &str) -> Self {
        self.key = long_hash(name);
        self
    }

    pub(super) fn saying(mut self, statement: Statement) -> Self {
        self.statement = Some(Box::new(statement));
        self
    }

    /// The same for what a tool puts out, which makes nothing untrue that people and models have said.
    pub(super) fn showing(mut self, statement: Statement) -> Self {
        self.quiet = true;
        self.saying(statement)
    }

    pub(super) fn of_output(mut self, call: u64) -> Self {
        (self.of_output, self.call) = (true, call);
        self
    }

    pub(super) fn from(mut self, source: u64) -> Self {
        self.source = source;
        self
    }

    /// What is left of it when the parts go whose values a newer statement changes, and those; none if that is not worth
    /// telling.
    fn without(&self, new: &Statement) -> Option<(Self, Statement)> {
        let old = self.statement.as_deref()?;
        let changed = new.changes(old);
        let (gone, parts): (Vec<&str>, Vec<&str>) =
            clauses(&self.text).partition(|part| Statement::of(part).has_any(&changed));
        if gone.is_empty() || parts.is_empty() {
            return None;
        }
        let text = parts.concat();
        let text = text.trim().trim_end_matches([',', ';', '、']);
        let statement = Statement::of(text);
        let tells = statement.names > 0 || statement.cues.any(Cues::RULE);
        let mut rest = Self::new(self.section, text.to_owned(), self.weight).saying(statement);
        (rest.order, rest.message, rest.by_user) = (self.order, self.message, self.by_user);
        rest.context.clone_from(&self.context);
        tells.then(|| (rest, Statement::of(&gone.concat())))
    }

    /// How much it matters at the end: what was said last counts a little more, and what was said often.
    pub(super) fn score(&self, now: u64) -> u64 {
        let again = 15 * u64::from(self.hits.min(7) - 1);
        (u64::from(self.weight) + again) * (850 + 150 * self.order / now.max(1))
    }
}

/// Without what does not make two lines different.
fn folded(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.'));
    kept.flat_map(char::to_lowercase).collect::<String>().trim_end_matches('.').to_owned()
}

/// The lines of one section.
#[derive(Debug, Default)]
struct Shelf {
    items: BTreeMap<u64, Item>,
    keys: HashMap<u64, u64>,
    bytes: usize,
}

impl Shelf {
    fn remove(&mut self, id: u64) -> Option<Item> {
        let item = self.items.remove(&id)?;
        self.keys.remove(&item.key);
        self.bytes -= item.size;
        Some(item)
    }
}

/// What is around the text of an item, in bytes.
const AROUND: usize = 200;
/// What is left of the weight of a line of an output in which all words are common, in percent.
const LEAST_OF_COMMON: u32 = 50;
/// A sentence of the assistant's that is new to so much matters more, in percent.
const RARE: u32 = 60;
/// What an error weighs whose command has succeeded since.
const WEIGHT_OF_OLD_ERROR: u32 = 140;

/// What has been found so far.
#[derive(Debug)]
pub(super) struct Pool {
    shelves: [Shelf; Section::COUNT],
    /// Bytes that a section may have after it was thinned out.
    room: usize,
    pub(super) topics: Topics,
    /// The words of what tools put out.
    pub(super) shown: Shown,
    /// Calls whose results were seen.
    calls: HashSet<u64>,
    /// Counts what was said.
    pub(super) now: u64,
    message: u64,
    next: u64,
    /// The newest item before this message, and whether this one has made anything untrue.
    before: u64,
    pub(super) has_changed: bool,
    /// What was said last in this message, and in the one before.
    asking: String,
    asked: (u64, String),
}

impl Pool {
    /// `room`: bytes of each section, about.
    pub(super) fn new(room: usize) -> Self {
        Self {
            shelves: Default::default(),
            room,
            topics: Topics::default(),
            shown: Shown::default(),
            calls: HashSet::new(),
            now: 0,
            message: 0,
            next: 0,
            before: 0,
            has_changed: false,
            asking: String::new(),
            asked: (0, String::new()),
        }
    }

    /// What follows is from another message.
    pub(super) fn next_message(&mut self) {
        self.message += 1;
        (self.before, self.has_changed) = (self.next, false);
        if !self.asking.is_empty() {
            self.asked = (self.message, std::mem::take(&mut self.asking));
        }
    }

    /// A sentence was said, to which the next message may be an answer.
    pub(super) fn ask(&mut self, sentence: &str) {
        const LONGEST: usize = 600;
        if self.asking.len() + sentence.len() <= LONGEST {
            self.asking.push_str(sentence);
            self.asking.push('\n');
        }
    }

    /// What was said in the message before.
    pub(super) fn asked(&self) -> Option<&str> {
        let (message, asked) = &self.asked;
        (*message == self.message && !asked.is_empty()).then_some(asked)
    }

    /// Takes a line, in the place of an equal one and of those that it supersedes.
    pub(super) fn add(&mut self, mut item: Item) {
        if item.text.is_empty() {
            return;
        }
        self.now += 1;
        (item.order, item.message) = (self.now, self.message);
        if let Some(statement) = item.statement.take_if(|_| !item.quiet) {
            self.topics.count(statement.words());
            self.supersede(&statement, item.by_user, u64::MAX);
            item.statement = Some(statement);
        }
        self.insert(item);
    }

    fn insert(&mut self, mut item: Item) {
        let shelf = &mut self.shelves[item.section as usize];
        if let Some(id) = shelf.keys.get(&item.key).copied()
            && let Some(old) = shelf.remove(id)
        {
            item.hits = old.hits.saturating_add(1);
            item.weight = item.weight.max(old.weight);
        }
        self.next += 1;
        item.size = item.text.len() + AROUND;
        shelf.bytes += item.size;
        shelf.keys.insert(item.key, self.next);
        shelf.items.insert(self.next, item);
        if shelf.bytes > 2 * self.room {
            thin_out(shelf, self.room, self.now);
        }
    }

    /// The item of a section with a name, to be changed.
    pub(super) fn named(&mut self, section: Section, name: &str) -> Option<&mut Item> {
        let shelf = &mut self.shelves[section as usize];
        let id = shelf.keys.get(&long_hash(name))?;
        shelf.items.get_mut(id)
    }

    /// The newest item of a section that comes from a call.
    pub(super) fn last_from(&mut self, section: Section, call: u64) -> Option<&mut Item> {
        const FAR: usize = 64;
        let newest = self.shelves[section as usize].items.values_mut().rev().take(FAR);
        newest.into_iter().find(|item| call != 0 && item.source == call)
    }

    /// Removes the item of a section with a name.
    pub(super) fn remove(&mut self, section: Section, name: &str) {
        let shelf = &mut self.shelves[section as usize];
        if let Some(id) = shelf.keys.get(&long_hash(name)).copied() {
            shelf.remove(id);
        }
    }

    /// What a call shows now takes the place of what it showed before.
    pub(super) fn shows_again(&mut self, call: u64) {
        const MOST: usize = 1 << 16;
        if self.calls.len() >= MOST {
            self.calls.clear();
        }
        if call == 0 || self.calls.insert(call) {
            return;
        }
        let shelf = &mut self.shelves[Section::Facts as usize];
        let gone: Vec<u64> =
            shelf.items.iter().filter(|(_, item)| item.call == call).map(|(id, _)| *id).collect();
        for id in gone {
            shelf.remove(id);
        }
    }

    /// The results of a command matter less once it has succeeded.
    pub(super) fn succeeded(&mut self, source: u64) {
        for item in self.shelves[Section::Errors as usize].items.values_mut() {
            if item.source == source {
                item.weight = item.weight.min(WEIGHT_OF_OLD_ERROR);
            }
        }
    }

    /// A change that is told in several sentences of the message that was begun last.
    pub(super) fn change(&mut self, new: &Statement, by_user: bool) {
        self.supersede(new, by_user, self.message);
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

    /// Drops what a new statement makes untrue, and what only that stood for; of one message nothing.
    fn supersede(&mut self, new: &Statement, by_user: bool, except: u64) {
        let topics = &self.topics;
        let mut gone: Vec<(Section, u64)> = Vec::new();
        for section in Section::SAID.into_iter().filter(|_| !new.answers) {
            let items = self.shelves[section as usize].items.iter().filter(|(_, item)| {
                let Some(old) = item.statement.as_deref() else { return false };
                let firm = is_firm(section, old);
                let open = matches!(section, Section::Pending | Section::Errors);
                open && new.settles(old)
                    || item.source == 0
                        && item.message != except
                        && (by_user || !firm)
                        && (new.replaces(old, firm)
                            || new.revalues(old, topics)
                            || by_user && section != Section::Goal && new.lifts(old, topics))
            });
            gone.extend(items.map(|(id, _)| (section, *id)));
        }
        // Whoever takes something back means something.
        if gone.is_empty() && (new.answers || new.cues.any(Cues::TURN)) {
            gone.extend(self.best_fit(new, by_user, except));
        }
        self.drop_untrue(&gone, new, by_user);
    }

    /// What a statement most likely takes back.
    fn best_fit(&self, new: &Statement, by_user: bool, except: u64) -> Option<(Section, u64)> {
        let items =
            Section::SAID.into_iter().filter(|section| *section != Section::Goal).flat_map(|section| {
                self.shelves[section as usize].items.iter().map(move |(id, item)| (section, *id, item))
            });
        let fits = items.filter_map(|(section, id, item)| {
            let old = item.statement.as_deref()?;
            let may = item.source == 0
                && item.message < except.min(self.message)
                && (by_user || !is_firm(section, old));
            let fit = if may { new.fits(old, &self.topics)? } else { return None };
            Some((fit, item.order, section, id))
        });
        fits.max_by_key(|(fit, order, ..)| (*fit, *order)).map(|(_, _, section, id)| (section, id))
    }

    /// What was said in messages before this one.
    pub(super) fn items_before(&self, section: Section) -> impl Iterator<Item = (u64, &Item)> {
        self.shelves[section as usize].items.range(..=self.before).map(|(id, item)| (*id, item))
    }

    /// Remembers what the message speaks about.
    pub(super) fn set_context(&mut self, context: &Arc<[u32]>) {
        for section in Section::SAID {
            for (_, item) in self.shelves[section as usize].items.range_mut(self.before + 1..) {
                item.context = Some(Arc::clone(context));
            }
        }
    }

    pub(super) fn drop_untrue(&mut self, gone: &[(Section, u64)], new: &Statement, by_user: bool) {
        let mut lost = Vec::new();
        let mut untrue = Vec::new();
        for (section, id) in gone {
            let Some(item) = self.shelves[*section as usize].remove(*id) else { continue };
            let Some(old) = item.statement.as_deref().filter(|_| *section != Section::Errors) else {
                continue;
            };
            self.has_changed |= item.message < self.message;
            lost.extend(old.lost(new));
            match item.without(new) {
                Some((rest, gone)) => {
                    lost.retain(|value| {
                        !rest.statement.as_deref().is_some_and(|rest| rest.has_any(&[*value]))
                    });
                    untrue.push(Box::new(gone));
                    self.insert(rest);
                }
                None => untrue.extend(item.statement),
            }
        }
        if !lost.is_empty() {
            self.forget(&lost);
        }
        if !untrue.is_empty() {
            self.forget_echoes(&untrue, new, by_user);
        }
    }

    /// Drops what only repeats what is no longer true.
    fn forget_echoes(&mut self, untrue: &[Box<Statement>], new: &Statement, by_user: bool) {
        for section in Section::SAID.into_iter().chain([Section::Commands]) {
            let shelf = &mut self.shelves[section as usize];
            let gone = shelf.items.iter().filter(|(_, item)| {
                let Some(statement) = item.statement.as_deref() else { return false };
                let firm = section == Section::Constraints && statement.cues.any(Cues::RULE);
                (by_user || !firm)
                    && section != Section::Goal
                    && untrue.iter().any(|old| old.is_echoed_by(statement, new))
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

    /// What is held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.bytes).sum()
    }

    /// Everything, in the order in which it was said.
    pub(super) fn into_items(self) -> Vec<Item> {
        let items = self.shelves.into_iter().flat_map(|shelf| shelf.items.into_values());
        let mut items: Vec<Item> = items.collect();
        for item in &mut items {
            let said = item.statement.as_deref().filter(|_| item.source == 0 && !item.quiet);
            // What is said over and over with another name in it is talk; of the user's rules nothing is.
            let share = match said {
                _ if item.of_output => self.shown.rare(&item.text),
                Some(said) if !item.by_user => self.topics.rare(said),
                _ => continue,
            };
            if !item.of_output && share >= RARE {
                item.weight += share;
            }
            let share = LEAST_OF_COMMON + share;
            item.weight = (item.weight * share / 100).max(item.weight.min(WEIGHT_OF_MORE));
        }
        items.sort_by_key(|item| (item.section, item.order));
        items
    }
}

/// The parts of a sentence, each with the mark that ends it.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .match_indices([',', ';', '、', '；'])
            // Not in a number.
            .find(|(at, mark)| mark.len() > 1 || rest[at + 1..].starts_with(' '))
            .map_or(rest.len(), |(at, mark)| at + mark.len());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        Some(part)
    })
}

/// Whether only the user can take it back.
fn is_firm(section: Section, statement: &Statement) -> bool {
    section == Section::Goal || section == Section::Constraints && statement.cues.any(Cues::RULE)
}

/// Drops what matters least until the rest has room.
fn thin_out(shelf: &mut Shelf, room: usize, now: u64) {
    let mut ranked: Vec<(u64, u64)> = shelf.items.iter().map(|(id, item)| (item.score(now), *id)).collect();
    ranked.sort_unstable();
    for (_, id) in ranked {
        if shelf.bytes <= room {
            return;
        }
        shelf.remove(id);
    }
}
