//! What people and models say: which sentences matter, how much, and in which section they are told.

use super::calls::RESULT;
use super::cues::Cues;
use super::item::Item;
use super::line::clean;
use super::outputs::{Outputs, Source, error};
use super::pool::{Pool, SINCE, WEIGHT_OF_OLD_ERROR};
use super::scan::{Kind, tokens};
use super::sections::Section;
use super::signs::Signs;
use super::split::{Unit, units};
use super::statement::Statement;
use super::untrue::LONGEST_OF_PARTS;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The person, or who wrote the system prompt.
    User,
    /// The model.
    Assistant,
    /// A summary that somebody else has made.
    Summary,
}

/// Characters of a sentence that are kept; of a user's words more.
const LONGEST: usize = 400;
const LONGEST_OF_USER: usize = 700;
/// Characters of what it answers, if it is an answer.
const LONGEST_QUESTION: usize = 160;
/// Sentences of the first request that tell the goal.
const GOAL_SENTENCES: usize = 3;

/// What a sentence weighs of which nothing is known but that it has so many words.
const WEIGHT_OF_PLAIN: u32 = 70;
const LEAST_WORDS: usize = 3;
/// Words of what is only polite, whatever number is in it.
const FEW_WORDS: usize = 3;

/// And of which nothing is known but that it names something.
const WEIGHT_OF_NAMED: u32 = 170;
/// What a line of an output weighs that an earlier summary had room for.
const WEIGHT_OF_SHOWN: u32 = 110;
/// And a word that answers a question.
const WEIGHT_OF_ANSWER: u32 = 400;
/// Stands between an answer and what it answers.
const ANSWERS: &str = " [re: ";
/// Words of what stands above a list.
const MOST_OF_HEADING: usize = 4;

/// Takes a message. `goal`: the first request is still to come; answers whether it was there.
pub(super) fn take(pool: &mut Pool, text: &str, voice: Voice, goal: bool) -> bool {
    let mut goals = if goal { GOAL_SENTENCES } else { 0 };
    let mut outputs = Outputs::default();
    let by_user = voice != Voice::Assistant;
    let is_short = text.len() <= LONGEST_OF_PARTS;
    let mut before: Option<(usize, Statement)> = None;
    let mut whole = None;
    // The list that is being read is one of rules.
    let mut rules = false;
    pool.begins(by_user);
    let mut sentences = Vec::new();
    units(text, |unit| match unit {
        Unit::Sentence(sentence) => {
            let mut statement = Statement::of(sentence);
            let start = sentence.as_ptr().addr() - text.as_ptr().addr();
            let mut told: Option<String> = None;
            // "Ground rules:" tells nothing, but what the list under it is.
            let is_heading = sentence.ends_with([':', '：']) && statement.weight() <= MOST_OF_HEADING;
            if is_heading {
                rules = voice == Voice::User && statement.cues.any(Cues::RULE);
            } else if rules && is_listed(&text[..start]) {
                statement.cues = statement.cues | Cues::RULE;
            } else {
                rules = false;
            }
            match &before {
                Some((begin, first)) if first.is_over_by(&statement) => {
                    pool.settle(&Statement::of(&text[*begin..start + sentence.len()]));
                }
                Some(_) => {}
                // An answer is about what was asked.
                None if voice == Voice::User
                    && statement.is_terse(sentence)
                    && answers(sentence, &statement) =>
                {
                    if let Some(asked) = pool.asked().and_then(question) {
                        let (question, answer) =
                            (clean(&asked, LONGEST_QUESTION, 0), clean(sentence, LONGEST_OF_USER, 0));
                        told = Some(format!("{answer}{ANSWERS}{question}]"));
                        // A word alone gives no other value.
                        if statement.gives_a_value() {
                            whole = Some(Statement::of(&asked));
                            statement.cues = statement.cues | Cues::CHANGE;
                        }
                    }
                }
                None => {}
            }
            let judged = if is_heading { None } else { judge(sentence, &statement, voice) };
            let judged = judged.or_else(|| told.as_ref().map(|_| (Section::Constraints, WEIGHT_OF_ANSWER)));
            if let Some((mut section, mut weight)) = judged {
                let is_rule = statement.cues.any(Cues::RULE) && goals < GOAL_SENTENCES;
                if goals > 0 && !is_rule && section != Section::Pending {
                    (section, weight) = (Section::Goal, 900);
                    goals -= 1;
                }
                let mut item = said(pool, section, sentence, weight, voice, &statement);
                let is_polite = statement.cues.any(Cues::CHAT) && statement.weight() <= FEW_WORDS;
                match told {
                    Some(told) => item.text = told,
                    // "ok, next: part 7" takes the place of "ok, next: part 6".
                    None if by_user && is_polite => {
                        item = item.named(&sentence.replace(|c: char| c.is_ascii_digit(), ""));
                    }
                    None => {}
                }
                pool.add(item.saying(statement.clone()));
            }
            pool.ask(sentence);
            if is_short {
                sentences.push((start..start + sentence.len(), statement.clone()));
            }
            before = Some((start, statement));
        }
        Unit::Code(line) => {
            let start = line.as_ptr().addr() - text.as_ptr().addr();
            outputs.line(pool, line, start, &Source::pasted(voice == Voice::User));
        }
    });
    outputs.tell_kept(pool, text, &Source::default());
    if is_short {
        pool.said_all(text, &sentences, whole.as_ref());
    }
    goal && goals < GOAL_SENTENCES
}

/// The last question among some sentences, each on a line; with the one before, if it says little by itself: "Which one?"
fn question(asked: &str) -> Option<String> {
    let lines: Vec<&str> = asked.lines().collect();
    let at = lines.iter().rposition(|line| is_question(line))?;
    let says_little = Statement::of(lines[at]).weight() < LEAST_WORDS;
    let from = if says_little { at.saturating_sub(1) } else { at };
    Some(lines[from..=at].join(" "))
}

/// Whether what follows this text is an item of a list, or a sentence of one.
fn is_listed(before: &str) -> bool {
    let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]).trim_start();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['-', '*', '•', '・']) || numbered.len() < line.len() && numbered.starts_with(['.', ')'])
}

/// Takes a line of an earlier summary of ours.
pub(super) fn recall(pool: &mut Pool, section: Section, line: &str) {
    if section == Section::Facts && line.contains(RESULT) {
        recall_shown(pool, line);
        return;
    }
    let user = matches!(section, Section::Goal | Section::Constraints);
    let voice = if user { Voice::User } else { Voice::Assistant };
    let mut tell = |text: &str| {
        let statement = Statement::of(text);
        let judged = judge(text, &statement, voice).map_or(0, |(_, weight)| weight);
        // It was found worth keeping once.
        let least = match section {
            Section::Goal => 900,
            Section::Constraints => 480,
            Section::Decisions => 540,
            Section::Pending => 420,
            Section::Errors => 360,
            // What only filled the room that was left does so again.
            Section::Facts if judged < WEIGHT_OF_NAMED => 110,
            Section::Changes | Section::Files | Section::Commands | Section::Facts | Section::Refs => 240,
        };
        // What it made untrue went when it was first said.
        let is_old = section == Section::Errors && text.ends_with(SINCE);
        let weight = if is_old { WEIGHT_OF_OLD_ERROR } else { judged.max(least) };
        let mut item = said(pool, section, text, weight, voice, &statement);
        item.when.by_user = user;
        let (signs, asks, when) = (item.signs, item.asks, item.when);
        let is_error = section == Section::Errors;
        let mut item =
            if is_error { error(item.text, item.weight, statement) } else { item.showing(statement) };
        (item.signs, item.asks, item.when) = (signs, asks, when);
        pool.add(item);
    };
    // An answer stays with what it answers, and what a tool has put out is no prose.
    if line.ends_with(']') && line.contains(ANSWERS) || section == Section::Errors {
        tell(line);
    } else {
        super::split::sentences(line, tell);
    }
}

/// Takes a line of an earlier summary that tells what a tool has put out.
fn recall_shown(pool: &mut Pool, line: &str) {
    let item = Item::new(Section::Facts, line.to_owned(), WEIGHT_OF_SHOWN).showing(Statement::of(line));
    pool.add(item.of_output(0));
}

/// The line of a sentence; the files that it names are told of too.
fn said(
    pool: &mut Pool,
    section: Section,
    text: &str,
    weight: u32,
    voice: Voice,
    statement: &Statement,
) -> Item {
    let most = if voice == Voice::Assistant { LONGEST } else { LONGEST_OF_USER };
    if statement.names > 0 {
        mention(pool, text, statement, if voice == Voice::Assistant { 260 } else { 440 });
    }
    let mut item = Item::new(section, clean(text, most, 0), weight);
    (item.signs, item.asks, item.when) = (Signs::of(text), is_question(text), pool.when());
    item
}

/// The files that a sentence names.
fn mention(pool: &mut Pool, text: &str, statement: &Statement, weight: u32) {
    let mut moved = statement.cues.any(Cues::MOVED).then_some(());
    tokens(text, |kind, range| {
        if kind != Kind::Path {
            return;
        }
        let path = &text[range.clone()];
        // "renamed a to b": the first is no longer there. But "moved the helper from a to b" leaves both.
        if moved.take().is_some() && is_object(&text[..range.start], &text[range.end..]) {
            pool.remove(Section::Files, path);
        } else {
            file(pool, path, weight, None);
        }
    });
}

fn is_object(before: &str, behind: &str) -> bool {
    let before = before.trim_end_matches(['`', '"', '\'', ' ', '「']);
    let verbs = ["renamed", "rename", "moved", "move", "moving", "relocated", "file"];
    let behind = behind.trim_start_matches(['`', '"', '\'', '」']);
    verbs.iter().any(|verb| before.ends_with(verb)) && behind.contains(" to ") || behind.starts_with('を')
}

/// A file, and what was done to it.
pub(super) fn file(pool: &mut Pool, path: &str, weight: u32, done: Option<&str>) {
    const LONGEST_PATH: usize = 240;
    if path.len() > LONGEST_PATH || path == "/dev/null" {
        return;
    }
    let weight = if GENERATED.iter().any(|folder| path.contains(folder)) { weight / 3 } else { weight };
    let name = clean(path, LONGEST_PATH, 0);
    let known = pool.named(Section::Files, &name).map(|item| item.text.clone());
    let text = match (done, known) {
        (Some("changed"), Some(known)) if known.ends_with("(created)") => known,
        (Some(done), _) => format!("{name} ({done})"),
        (None, Some(known)) => known,
        (None, None) => name.clone(),
    };
    pool.add(Item::new(Section::Files, text, weight).named(&name));
}

/// Folders of what tools make by themselves.
const GENERATED: &[&str] =
    &["node_modules/", "target/debug/", "target/release/", ".git/", "site-packages/", "__pycache__"];

/// Where a sentence is told and how much it matters; none if it says nothing.
fn judge(text: &str, statement: &Statement, voice: Voice) -> Option<(Section, u32)> {
    if statement.weight() == 0 {
        return None;
    }
    let is_narration = statement.cues.any(Cues::NARRATION) && statement.names + statement.numbers == 0;
    if voice == Voice::Assistant && is_narration && !statement.cues.any(TELLING) {
        return None;
    }
    // What shows nothing of what it is may matter all the same, and is told if there is room.
    let plain = |weight| (statement.weight() >= LEAST_WORDS).then_some((Section::Facts, weight));
    match voice {
        Voice::User => of_user(text, statement).or(plain(WEIGHT_OF_PLAIN + 10)),
        Voice::Assistant => of_assistant(text, statement).or(plain(WEIGHT_OF_PLAIN)),
        Voice::Summary => {
            let (section, weight) = of_user(text, statement).unwrap_or((Section::Facts, 0));
            Some((section, weight.max(600)))
        }
    }
}

fn names(statement: &Statement, each: u32) -> u32 {
    each * statement.names.min(3) + each / 2 * (statement.numbers.min(2) + statement.proper().min(2))
}

pub(super) fn is_question(text: &str) -> bool {
    let text = text.trim_end_matches('。');
    ["?", "？", "か", "かね", "っけ"].iter().any(|end| text.ends_with(end))
}

/// Whether a short sentence says something of its own to what was asked: more than that it may go on, or thanks.
fn answers(text: &str, statement: &Statement) -> bool {
    let says = statement.names + statement.numbers > 0;
    !is_question(text) && (says || !statement.cues.any(Cues::CHAT | Cues::AGREED))
}

fn of_user(text: &str, statement: &Statement) -> Option<(Section, u32)> {
    let cues = statement.cues;
    let telling =
        cues.any(Cues::RULE | Cues::CHANGE | Cues::DECISION | Cues::OPEN | Cues::GOAL | Cues::FOUND);
    let named = statement.names + statement.numbers > 0;
    if cues.any(Cues::CHAT) && !named && (!telling && text.chars().count() < 80 || statement.weight() <= 2) {
        return None;
    }
    let short = text.split_whitespace().count() < 3 && text.chars().count() < 10 || is_question(text);
    if statement.weight() < 2 && !telling && !named && !cues.any(Cues::WISH) && short {
        return None;
    }
    let mut weight = 400 + names(statement, 50);
    for (cue, more) in [
        (Cues::RULE, 320),
        (Cues::CHANGE, 120),
        (Cues::DECISION, 120),
        (Cues::GOAL, 100),
        (Cues::WISH, 80),
        (Cues::OPEN, 40),
        (Cues::FOUND, 40),
    ] {
        weight += if cues.any(cue) { more } else { 0 };
    }
    if statement.weight() < 2 {
        weight /= 2;
    }
    if is_question(text) && !cues.any(Cues::RULE) {
        // What is asked is answered, and matters less then; most of all if it names nothing.
        weight = weight * if named { 3 } else { 2 } / 5;
    }
    let section = if cues.any(Cues::RULE) {
        Section::Constraints
    } else if cues.any(Cues::DECISION) {
        Section::Decisions
    } else if cues.any(Cues::WRONG) && !cues.any(Cues::WISH | Cues::CHANGE) && statement.names > 0 {
        Section::Errors
    } else if cues.any(Cues::OPEN) && !cues.any(Cues::CHANGE) {
        Section::Pending
    } else if !cues.any(Cues::WISH | Cues::CHANGE) && named {
        Section::Facts
    } else {
        Section::Constraints
    };
    Some((section, weight.min(950)))
}

/// What matters of what the model says.
const TELLING: Cues = Cues::DECISION
    .with(Cues::FOUND)
    .with(Cues::OPEN)
    .with(Cues::WRONG)
    .with(Cues::DONE)
    .with(Cues::MADE)
    .with(Cues::CHANGE);

fn of_assistant(text: &str, statement: &Statement) -> Option<(Section, u32)> {
    let cues = statement.cues;
    let named = names(statement, 40);
    if cues.any(Cues::NARRATION | Cues::AGREED | Cues::CHAT) && !cues.any(TELLING) && named == 0 {
        return None;
    }
    let (section, weight) = if cues.any(Cues::DECISION) {
        (Section::Decisions, 500)
    } else if cues.any(Cues::OPEN) && !cues.any(Cues::DONE) {
        (Section::Pending, 380)
    } else if cues.any(Cues::WRONG) && cues.any(Cues::FOUND) {
        (Section::Facts, 380)
    } else if cues.any(Cues::WRONG) && !cues.any(Cues::DONE | Cues::PLAN | Cues::NARRATION) {
        (Section::Errors, 300)
    } else if cues.any(Cues::DONE | Cues::MADE) && !cues.any(Cues::PLAN) {
        (Section::Changes, 270)
    } else if cues.any(Cues::CHANGE | Cues::RULE) {
        (Section::Facts, 300)
    } else if cues.any(Cues::PLAN) && !cues.any(Cues::NARRATION | Cues::AGREED) {
        (Section::Decisions, 320)
    } else if cues.any(Cues::FOUND) {
        (Section::Facts, 240)
    } else if named > 0 {
        (Section::Facts, WEIGHT_OF_NAMED)
    } else if statement.weight() >= 4 {
        (Section::Facts, 70)
    } else {
        return None;
    };
    let mut weight = weight + named;
    if cues.any(Cues::AGREED | Cues::NARRATION) {
        weight = weight * 3 / 5;
    }
    if is_question(text) {
        weight /= 2;
    }
    Some((section, weight))
}
