//! The user's messages: which sentences are requests, rules and other statements, and what the goal and the current request
//! are. Each rule goes by the words of the sentence alone.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

use super::keywords::KeywordSet;
use super::line::one_line;
use super::notes::{Note, Priority};
use super::section::Section;
use super::sentences::{ProseUnit, units};

/// Characters of a sentence that are kept.
const LONGEST: usize = 700;
/// Characters of a request that stand under "Goal" or "Current request"; what is longer is among the instructions.
const LONGEST_REQUEST: usize = 900;
/// Characters of a request that the reader sees in full elsewhere.
const LONGEST_REPEATED: usize = 300;
/// Sentences of a request that are the goal, beside its rules.
const GOAL_SENTENCES: usize = 3;
/// Characters of a line that only stands above a list.
const LONGEST_HEADING: usize = 30;

/// Bytes of a sentence that only goes on or is polite.
const LONGEST_ACKNOWLEDGEMENT: usize = 100;

/// Between an answer and the question that it answers.
const ANSWERS: &str = " [re: ";

/// A sentence of the user.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) priority: Priority,
    /// The user wants something done, or to know something.
    is_request: bool,
    /// It holds beyond the request that it came with.
    is_rule: bool,
    is_item: bool,
}

impl Statement {
    /// Returns the sentence as a line of a summary. The same setting with a new value replaces the older one.
    pub(super) fn into_note(self) -> Note {
        let name = setting(self.text.trim_end_matches('.')).map(|name| format!("{name}="));
        let note = Note::new(Section::Constraints, self.text, self.priority);
        match name {
            Some(name) => note.named(&name),
            None => note,
        }
    }

    fn length(&self) -> usize {
        self.text.chars().count()
    }
}

/// Returns the sentences of a user's message that say something, and the lines that stand between fences.
pub(super) fn read(text: &str) -> (Vec<Statement>, String) {
    let (mut statements, mut code) = (Vec::new(), String::new());
    let mut heading = String::new();
    let mut is_list_of_rules = false;
    units(text, |unit| match unit {
        ProseUnit::Code(line) => {
            code.push_str(line);
            code.push('\n');
        }
        ProseUnit::Sentence { text, is_item } => {
            let keywords = KeywordSet::of(text);
            let is_request = is_request(text, keywords);
            let is_short = text.chars().count() <= LONGEST_HEADING;
            if text.ends_with([':', '：']) && is_short && !is_request && !is_item {
                is_list_of_rules = keywords.any(KeywordSet::RULE);
                heading = format!("{text} ");
                return;
            }
            is_list_of_rules &= is_item;
            let is_rule = is_list_of_rules || keywords.any(KeywordSet::RULE) && !is_question(text);
            if is_acknowledgement(text) {
                return;
            }
            let priority = match (is_rule, is_question(text)) {
                (true, _) => Priority::Critical,
                (false, true) => Priority::Medium,
                (false, false) => Priority::High,
            };
            // The heading stands in front of its first item.
            let text = one_line(&format!("{}{text}", std::mem::take(&mut heading)), LONGEST, 0);
            statements.push(Statement { text, priority, is_request, is_rule, is_item });
        }
    });
    (statements, code)
}

/// Returns a line of an earlier summary as a statement.
pub(super) fn recall(line: &str) -> Statement {
    let keywords = KeywordSet::of(line);
    let is_answer = line.ends_with(']') && line.contains(ANSWERS);
    let priority =
        if keywords.any(KeywordSet::RULE) || is_answer { Priority::Critical } else { Priority::High };
    Statement { text: line.to_owned(), priority, is_request: false, is_rule: false, is_item: false }
}

/// Takes the request out of a message: all of a short message that asks for something, and of a longer one the sentences
/// that ask, with their lists. Returns nothing if nothing is asked for.
pub(super) fn take_request(statements: &mut Vec<Statement>) -> Vec<Statement> {
    if !statements.iter().any(|one| one.is_request) {
        return Vec::new();
    }
    let is_short = statements.iter().map(Statement::length).sum::<usize>() <= LONGEST_REQUEST;
    let (mut left, mut is_in_list) = (LONGEST_REQUEST, false);
    take(statements, |one| {
        is_in_list = one.is_request && one.text.ends_with([':', '：']) || is_in_list && one.is_item;
        let has_room = (is_short || one.is_request || is_in_list) && one.length() <= left;
        left -= if has_room { one.length() } else { 0 };
        has_room
    })
}

/// Takes the goal out of a request: its first sentences that are no rules, or its first one.
pub(super) fn take_goal(request: &mut Vec<Statement>) -> Vec<Statement> {
    let has_other = request.iter().any(|one| !one.is_rule);
    let mut left = if has_other { GOAL_SENTENCES } else { 1 };
    take(request, |one| {
        let is_wanted = left > 0 && !(has_other && one.is_rule);
        left -= usize::from(is_wanted);
        is_wanted
    })
}

/// Leaves the first sentences of a request that the reader sees in full elsewhere.
pub(super) fn shorten(request: &mut Vec<Statement>) {
    let mut left = LONGEST_REPEATED;
    for one in &mut *request {
        one.text = one_line(&one.text, left, 0);
        left = left.saturating_sub(one.length());
    }
    request.retain(|one| one.length() > 1);
}

fn take(statements: &mut Vec<Statement>, mut is_wanted: impl FnMut(&Statement) -> bool) -> Vec<Statement> {
    let (taken, left) = std::mem::take(statements).into_iter().partition(|one| is_wanted(one));
    *statements = left;
    taken
}

/// Returns a short answer together with the model's question, without which it says nothing.
pub(super) fn answer(text: &str, question: &str) -> Option<Note> {
    const MOST_WORDS: usize = 6;
    const LONGEST: usize = 80;
    let text = text.trim();
    let is_short = text.chars().count() <= LONGEST && text.split_whitespace().count() <= MOST_WORDS;
    let lower = text.to_lowercase();
    let is_yes = ["yes", "no", "yep", "はい", "いいえ"].iter().any(|yes| lower.starts_with(yes));
    (is_short && !text.contains('\n') && !is_question(text) && (is_yes || !is_acknowledgement(text))).then(
        || {
            let text = format!("{}{ANSWERS}{question}]", one_line(text, LONGEST, 0));
            Note::new(Section::Constraints, text, Priority::Critical)
        },
    )
}

/// Returns whether a sentence only goes on or is polite: "ok", "thanks, looks good", "continue". "Continue with the
/// refactoring" is a request.
fn is_acknowledgement(text: &str) -> bool {
    text.len() <= LONGEST_ACKNOWLEDGEMENT && ACKNOWLEDGEMENT.is_match(text)
}

/// Returns whether a sentence is a question.
pub(super) fn is_question(text: &str) -> bool {
    let text = text.trim_end_matches(['。', ')', '"']);
    ["?", "？", "か", "かね", "っけ"].iter().any(|end| text.ends_with(end))
}

/// Returns whether a sentence asks for something: as a question, by its words, or by the verb that it begins with. A rule does
/// not.
fn is_request(text: &str, keywords: KeywordSet) -> bool {
    let ends = ["て", "てね", "てくれ"].iter().any(|end| text.trim_end_matches(['。', '！']).ends_with(end));
    is_question(text)
        || keywords.any(KeywordSet::GOAL)
        || IMPERATIVE.is_match(text)
        || (keywords.any(KeywordSet::REQUEST) || ends) && !keywords.any(KeywordSet::RULE)
}

/// Returns the name in `name=value` and `name: value`, if it looks like that of a setting.
pub(super) fn setting(line: &str) -> Option<&str> {
    let at = line.find(['=', ':'])?;
    let (name, value) = (line[..at].trim(), line[at + 1..].trim());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    // A colon follows many words; a name that is no word has a mark in it.
    let is_sure = line.as_bytes()[at] == b'=' || name.contains(['_', '.', '-']);
    let is_name = is_sure && (2..=60).contains(&name.len()) && name.bytes().all(is_plain);
    let is_value = !value.is_empty() && !value.contains(' ') && !value.starts_with('=');
    (is_name && is_value).then_some(name)
}

/// A sentence of nothing but polite words.
static ACKNOWLEDGEMENT: LazyLock<Regex> = LazyLock::new(|| {
    words(
        r"(?xi) ^ (?: [\s\p{P}\p{S}]
        | (?: ok | okay | k | thanks | thank | thx | you | a | lot | so | very | much | great | nice | cool | awesome | perfect
            | excellent | hello | hi | hey | good | morning | evening | job | work | looks | sounds | lgtm | sure | got | it | no
            | problem | hurry | rush | worries | cheers | take | your | time | carry | on | go | ahead | keep | going | continue
            | proceed | please | yes | yep | yeah | well | done | that | this | makes | make | sense | fair | enough
            | interesting | now | and | for | the | all | is | fine | right | understood | hm | ah | next | up | i | see | how
            | has | have | lovely | weekend | alright) (?-u:\b)
        | ありがとう | ございました | ございます | お疲れ様 | お疲れさま | こんにちは | おはよう | よろしく | お願いします | いいですね
        | いいね | 了解 | 承知 | わかりました | しました | です | 助かります | 続けてください | 進めてください )+ $",
    )
});

/// A sentence that begins with a verb of a request, behind polite words perhaps.
static IMPERATIVE: LazyLock<Regex> = LazyLock::new(|| {
    words(
        r"(?xi-u) ^ (?: (?: please | now | then | next | also | ok | okay | so | and | first | finally | great | thanks )
            [,.!:]? \s+ ){0,5}
        (?: add | analy[sz]e | apply | build | bump | change | check | clean | commit | compare | configure | connect | continue
            | convert | copy | create | debug | deploy | describe | design | document | draft | drop | enable | evaluate
            | explain | export | extend | extract | find | finish | fix | generate | give | implement | import | improve
            | inline | install | integrate | investigate | list | look | make | measure | merge | migrate | move | open
            | optimi[sz]e | plan | port | prepare | publish | pull | push | rebase | refactor | release | remove | rename
            | replace | research | resume | retry | review | revert | rewrite | run | set | setup | show | simplify | sketch
            | split | start | summari[sz]e | support | switch | test | tidy | try | update | upgrade | verify | wire | write )
        (?: [,.!:]* (?: \s | $ ))",
    )
});

#[expect(clippy::expect_used, reason = "the patterns are constant, and tests build them")]
fn words(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}
