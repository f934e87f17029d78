//! The model's messages: which sentences are decisions, findings, open items, changes.

use super::keywords::KeywordSet;
use super::line::one_line;
use super::names::{first_name, is_specific};
use super::notes::{Note, Priority};
use super::section::Section;
use super::user::is_question;

/// Characters of a sentence that are kept.
const LONGEST: usize = 400;
/// Characters of a sentence without keywords and names, at least.
const SHORTEST: usize = 12;

/// Returns a sentence as a line of a summary, if it says something. The same item of a list of tasks replaces the older one,
/// be it ticked off or not.
pub(super) fn note(sentence: &str, keywords: KeywordSet) -> Option<Note> {
    let (section, priority) = classify(sentence, keywords)?;
    let text = one_line(sentence, LONGEST, 0);
    let item = ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| sentence.strip_prefix(mark));
    Some(match item {
        Some(item) => Note::new(Section::Pending, text, priority).named(item),
        None => Note::new(section, text, priority),
    })
}

/// Returns a line of an earlier summary in the section that it stood in.
pub(super) fn recall(section: Section, line: &str) -> Note {
    match note(line, KeywordSet::of(line)) {
        Some(note) if note.section == section => note,
        found => {
            let priority = found.map_or(Priority::Low, |note| note.priority);
            Note::new(section, line.to_owned(), priority)
        }
    }
}

/// Returns the section of a sentence, and how much it matters; none if it says nothing.
fn classify(sentence: &str, keywords: KeywordSet) -> Option<(Section, Priority)> {
    let is_done = keywords.any(KeywordSet::DONE);
    let is_error = keywords.any(KeywordSet::ERROR);
    let (section, priority) = if keywords.any(KeywordSet::DECISION) {
        (Section::Decisions, Priority::High)
    } else if keywords.any(KeywordSet::OPEN) && !is_done {
        (Section::Pending, Priority::High)
    } else if keywords.any(KeywordSet::FINDING) && (is_error || first_name(sentence).is_some()) {
        (Section::Facts, Priority::High)
    } else if is_error && !is_done {
        (Section::Errors, Priority::Medium)
    } else if is_done {
        (Section::Changes, Priority::Medium)
    } else if keywords.any(KeywordSet::FINDING) || is_specific(sentence) {
        (Section::Facts, Priority::Medium)
    } else {
        (Section::Facts, Priority::Low)
    };
    let is_empty = keywords.any(KeywordSet::NARRATION) || sentence.chars().count() < SHORTEST;
    let says_nothing = is_empty && priority == Priority::Low;
    (!says_nothing).then_some((section, if is_question(sentence) { Priority::Low } else { priority }))
}
