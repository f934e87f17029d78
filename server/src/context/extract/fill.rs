//! Which of the lines that were found go into the summary: each section has a share of the budget, and what one leaves
//! goes to whatever matters most.

use std::collections::HashSet;

use super::item::Item;
use super::sections::{Section, Sections};
use crate::context::count_text;
use crate::model::TokenCounter;

/// Below this nothing can be said.
const LEAST: u64 = 16;
/// What weighs less says nothing.
const LEAST_WEIGHT: u32 = 60;
/// What weighs less is told only if there is room, and so many lines of it in a section at most: one for so many tokens
/// of the budget, and a few.
const LIGHT: u32 = 100;
const TOKENS_FOR_LIGHT: u64 = 200;
const FEW: u64 = 10;
/// How many times their share sections may have that could go on for ever.
const CROWD: u64 = 3;
/// A summary with less room than that is better short.
const ROOMY: u64 = 600;
/// Tokens of a ref and the heading above it.
const LEAST_OF_REFS: u64 = 48;
/// More commands tell no more.
const MOST_COMMANDS: u64 = 15;
/// Tokens around a line: its mark and its end.
const AROUND: u64 = 2;

/// More than anything else ranks.
const FIRST: f64 = 1e15;

struct Line {
    item: Item,
    cost: u64,
    rank: f64,
    chosen: bool,
}

/// The best lines within a budget, in the order of their sections and of time.
pub(super) fn fill(items: Vec<Item>, now: u64, budget: u64, counter: TokenCounter) -> Sections {
    if budget < LEAST {
        return Sections::default();
    }
    let mut lines: Vec<Line> = items
        .into_iter()
        .filter(|item| item.weight >= LEAST_WEIGHT)
        .map(|item| {
            let cost = count_text(counter, &item.text) + AROUND;
            #[expect(clippy::cast_precision_loss, reason = "scores and costs are far below 2^52")]
            let (score, cost_of) = (item.score(now) as f64, (cost + 10) as f64);
            let rank = if item.section == Section::Goal {
                // What was asked for first is what it is all for.
                FIRST / (item.order + 1) as f64
            } else if item.section == Section::Constraints {
                // What the user wants is not told less because it takes more words.
                score / cost_of.powf(0.25)
            } else {
                score / cost_of.sqrt()
            };
            Line { item, cost, rank, chosen: false }
        })
        .collect();
    drop_bare_names(&mut lines);
    shorten_goal(&mut lines, budget, counter);
    shorten_refs(&mut lines, budget, counter);
    let mut ranked: Vec<usize> = (0..lines.len()).collect();
    ranked.sort_by(|a, b| lines[*b].rank.total_cmp(&lines[*a].rank).then(a.cmp(b)));

    let mut choice = Choice {
        left: budget,
        budget,
        lines: [0; Section::COUNT],
        used: [0; Section::COUNT],
        text: String::new(),
        counter,
        crowded: false,
    };
    for section in Section::BY_NEED {
        let mut share = budget * section.share() / 100;
        if section == Section::Refs {
            // One has room at least.
            share = share.max(LEAST_OF_REFS.min(budget / 3));
        }
        for &at in &ranked {
            if lines[at].item.section == section && lines[at].item.weight >= LIGHT {
                choice.take(&mut lines[at], &mut share);
            }
        }
    }
    let mut rest = u64::MAX;
    let mut light = [0; Section::COUNT];
    let most = FEW + budget / TOKENS_FOR_LIGHT;
    for &at in &ranked {
        let item = &lines[at].item;
        let (is_light, count) = (item.weight < LIGHT, &mut light[item.section as usize]);
        if !lines[at].chosen && (!is_light || *count < most) {
            *count += u64::from(is_light);
            choice.take(&mut lines[at], &mut rest);
        }
    }
    // Room that is left is for whatever there is, in the words in which it was said.
    choice.crowded = true;
    for &at in ranked.iter().filter(|_| budget >= ROOMY) {
        if !lines[at].chosen {
            choice.take(&mut lines[at], &mut rest);
        }
    }
    within(&mut lines, &ranked, budget, counter)
}

/// What has been chosen so far.
struct Choice {
    left: u64,
    budget: u64,
    lines: [u64; Section::COUNT],
    used: [u64; Section::COUNT],
    /// All of it, to see what has been said.
    text: String,
    counter: TokenCounter,
    /// Nothing can be crowded out any more.
    crowded: bool,
}

impl Choice {
    fn take(&mut self, line: &mut Line, share: &mut u64) {
        let section = line.item.section;
        let heading = count_text(self.counter, section.heading()) + AROUND;
        let lines = &mut self.lines[section as usize];
        let cost = line.cost + if *lines > 0 { 0 } else { heading };
        // A path that a sentence names need not be listed again.
        let said = section == Section::Files && self.text.contains(&line.item.text);
        let used = &mut self.used[section as usize];
        let enough = match section {
            Section::Commands => *lines >= MOST_COMMANDS,
            // One kind of thing must not crowd out all others.
            Section::Files | Section::Errors | Section::Changes => {
                !self.crowded && *used + cost > self.budget * section.share() * CROWD / 100
            }
            Section::Goal
            | Section::Constraints
            | Section::Decisions
            | Section::Facts
            | Section::Pending
            | Section::Refs => false,
        };
        if cost > self.left || cost > *share || said || enough {
            return;
        }
        self.left -= cost;
        *share -= cost;
        *lines += 1;
        *used += cost;
        self.text.push_str(&line.item.text);
        self.text.push('\n');
        line.chosen = true;
    }
}

/// A file that is told with its folders need not be told by its name alone.
fn drop_bare_names(lines: &mut Vec<Line>) {
    let path = |line: &Line| line.item.text.split(" (").next().unwrap_or_default().to_owned();
    let files = lines.iter().filter(|line| line.item.section == Section::Files).map(path);
    let names: HashSet<String> =
        files.filter_map(|path| path.rsplit_once('/').map(|(_, name)| name.to_owned())).collect();
    lines.retain(|line| line.item.section != Section::Files || !names.contains(&path(line)));
}

/// The first request is told even if all of it has no room.
fn shorten_goal(lines: &mut [Line], budget: u64, counter: TokenCounter) {
    let room = (budget / 5).max(LEAST / 2);
    let first = lines.iter_mut().find(|line| line.item.section == Section::Goal);
    if let Some(line) = first.filter(|line| line.cost > room) {
        line.item.text = cut(&line.item.text, room, counter);
        line.cost = count_text(counter, &line.item.text) + AROUND;
    }
}

/// Many stored outputs are told by their refs alone.
fn shorten_refs(lines: &mut [Line], budget: u64, counter: TokenCounter) {
    let refs = || |line: &&mut Line| line.item.section == Section::Refs;
    let cost: u64 = lines.iter_mut().filter(refs()).map(|line| line.cost).sum();
    if cost > budget * Section::Refs.share() / 100 {
        for line in lines.iter_mut().filter(refs()) {
            let end = line.item.text.find(' ').unwrap_or(line.item.text.len());
            line.item.text.truncate(end);
            line.cost = count_text(counter, &line.item.text) + AROUND;
        }
    }
}

/// The beginning of a text that has at most so many tokens.
fn cut(text: &str, tokens: u64, counter: TokenCounter) -> String {
    let shortened = |length: usize| format!("{}…", text[..text.floor_char_boundary(length)].trim_end());
    if count_text(counter, text) <= tokens {
        return text.to_owned();
    }
    let (mut fits, mut over) = (0, text.len());
    while over - fits > 1 {
        let middle = usize::midpoint(fits, over);
        if count_text(counter, &shortened(middle)) <= tokens { fits = middle } else { over = middle }
    }
    shortened(fits)
}

/// Leaves out what matters least until the finished text fits.
fn within(lines: &mut [Line], ranked: &[usize], budget: u64, counter: TokenCounter) -> Sections {
    loop {
        let sections = told(lines);
        let tokens = count_text(counter, &sections.to_text());
        if tokens <= budget && tokens > 0 {
            return sections;
        }
        let mut over = tokens.saturating_sub(budget);
        let before = over;
        for &at in ranked.iter().rev().filter(|_| tokens > 0) {
            if over == 0 {
                break;
            }
            if lines[at].chosen {
                lines[at].chosen = false;
                over = over.saturating_sub(lines[at].cost);
            }
        }
        if tokens == 0 || over == before || !lines.iter().any(|line| line.chosen) {
            return best(lines, ranked, budget, counter);
        }
    }
}

/// The one line that matters most, cut to the budget; nothing if there is none.
fn best(lines: &[Line], ranked: &[usize], budget: u64, counter: TokenCounter) -> Sections {
    let mut sections = Sections::default();
    let Some(best) = ranked.first().map(|at| &lines[*at].item) else { return sections };
    let mut room = budget;
    loop {
        *sections.of_mut(best.section) = vec![cut(&best.text, room, counter)];
        if room == 0 || count_text(counter, &sections.to_text()) <= budget {
            return sections;
        }
        room -= 1;
    }
}

/// The chosen lines; sentences of one message that follow each other are one.
fn told(lines: &[Line]) -> Sections {
    let mut sections = Sections::default();
    let mut last: Option<&Item> = None;
    for Line { item, .. } in lines.iter().filter(|line| line.chosen) {
        let told = sections.of_mut(item.section);
        let follows = last.is_some_and(|last| {
            last.section == item.section && last.message == item.message && item.statement.is_some()
        });
        match told.last_mut() {
            Some(before) if follows && is_ended(before) && item.source == 0 && !item.of_output => {
                if !before.ends_with(['。', '！', '？']) {
                    before.push(' ');
                }
                before.push_str(&item.text);
            }
            _ => told.push(item.text.clone()),
        }
        last = Some(item);
    }
    sections
}

/// Whether the end of a sentence is seen, so that it can be told from what follows when it is read back.
fn is_ended(text: &str) -> bool {
    text.ends_with(['.', '!', '?', '。', '！', '？'])
}
