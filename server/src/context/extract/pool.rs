//! What has been found so far and may go into the summary: bounded by the budget, without repetitions, and without
//! what was superseded.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Weighed;
use super::item::Item;
use super::outputs::WEIGHT_OF_MORE;
use super::overrule::When;
use super::sections::Section;
use super::statement::long_hash;
use super::topics::{Shown, Topics};

/// The lines of one section.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) items: BTreeMap<u64, Item>,
    keys: HashMap<u64, u64>,
    bytes: usize,
}

impl Shelf {
    pub(super) fn remove(&mut self, id: u64) -> Option<Item> {
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

/// What an error weighs whose command has succeeded since, and how that is told.
pub(super) const WEIGHT_OF_OLD_ERROR: u32 = 90;
pub(super) const SINCE: &str = " (the same command succeeded later)";

/// What has been found so far.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) shelves: [Shelf; Section::COUNT],
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
    /// The newest item before this message.
    pub(super) before: u64,
    /// Who speaks, and how often somebody has spoken.
    when: When,
    /// If what is weighed is wanted rather than a summary: that, for each remark.
    pub(super) weighed: Option<Vec<Vec<Weighed>>>,
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
            when: When::default(),
            weighed: None,
            asking: String::new(),
            asked: (0, String::new()),
        }
    }

    /// What follows is from another message.
    pub(super) fn next_message(&mut self) {
        self.message += 1;
        self.before = self.next;
        if !self.asking.is_empty() {
            self.asked = (self.message, std::mem::take(&mut self.asking));
        }
    }

    /// It is said by the user, or by the model.
    pub(super) fn begins(&mut self, by_user: bool) {
        let When { turn, message, .. } = self.when;
        self.when = When { by_user, turn: turn + u64::from(by_user), message: message + 1 };
    }

    /// An earlier summary begins or ends: what is in it was said some time ago, and not at first.
    pub(super) fn some_time_passes(&mut self) {
        const TURNS: u64 = 16;
        let When { by_user, turn, message } = self.when;
        self.when = When { by_user, turn: turn + TURNS, message: message + 2 * TURNS };
    }

    /// Who speaks now.
    pub(super) fn when(&self) -> When {
        self.when
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

    /// Takes a line, in the place of an equal one; what is open and done by it goes.
    pub(super) fn add(&mut self, mut item: Item) {
        if item.text.is_empty() {
            return;
        }
        self.now += 1;
        (item.order, item.message) = (self.now, self.message);
        if let Some(statement) = item.statement.take_if(|_| !item.quiet) {
            self.topics.count(&statement.words);
            self.topics.count(&statement.proper);
            self.settle(&statement);
            item.statement = Some(statement);
        }
        self.insert(item);
    }

    pub(super) fn insert(&mut self, mut item: Item) {
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

    /// What went wrong with a command is history once it has succeeded.
    pub(super) fn succeeded(&mut self, source: u64) {
        for item in self.shelves[Section::Errors as usize].items.values_mut() {
            if source != 0 && item.source == source && !item.text.ends_with(SINCE) {
                item.weight = item.weight.min(WEIGHT_OF_OLD_ERROR);
                item.text.push_str(SINCE);
            }
        }
    }

    /// What was said in messages before this one, the newest first.
    pub(super) fn items_before(&self, section: Section) -> impl Iterator<Item = (u64, &Item)> {
        self.shelves[section as usize].items.range(..=self.before).rev().map(|(id, item)| (*id, item))
    }

    /// The line of an item.
    pub(super) fn text_of(&self, section: Section, id: u64) -> &str {
        self.shelves[section as usize].items.get(&id).map_or("", |item| &item.text)
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
            // What is said over and over with another name in it is talk; what the user wants never is.
            let is_talk = |item: &Item| !item.when.by_user || item.section == Section::Facts;
            let share = match said {
                _ if item.of_output => self.shown.rare(&item.text),
                Some(said) if is_talk(item) => self.topics.rare_in(said),
                _ => continue,
            };
            if !item.of_output && !item.when.by_user && share >= RARE {
                item.weight += share;
            }
            let share = LEAST_OF_COMMON + share;
            item.weight = (item.weight * share / 100).max(item.weight.min(WEIGHT_OF_MORE));
        }
        items.sort_by_key(|item| (item.section, item.order));
        items
    }
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
