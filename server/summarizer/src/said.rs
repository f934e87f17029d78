//! What people and models say: which sentences matter, and as what. Each rule goes by what a sentence shows of itself, never
//! by what was said before or after it.

use super::cues::Cues;
use super::line::clean;
use super::notes::Rank;
use super::scan::{Kind, tokens};
use super::section::Section;
use super::split::{Unit, units};

/// Characters of a sentence that are kept.
const LONGEST: usize = 700;
/// Characters of a request that stand under "Goal" or "Current request"; what is longer is among the instructions.
const LONGEST_REQUEST: usize = 900;
/// Sentences of the first request that tell the goal, beside its rules.
const GOAL_SENTENCES: usize = 3;
/// Words of a model's sentence of which nothing else is known, at least.
const LEAST_WORDS: usize = 3;
/// Words of a line that only stands above a list, at most.
const MOST_OF_HEADING: usize = 4;

/// What a sentence shows of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    pub(super) cues: Cues,
    /// Ids, paths, addresses and other names.
    pub(super) names: usize,
    pub(super) numbers: usize,
    /// Words of four letters and more, runs of kanji and katakana, names.
    pub(super) words: usize,
}

impl Marks {
    pub(super) fn of(text: &str) -> Self {
        let mut marks = Self { cues: Cues::of(text), ..Self::default() };
        tokens(text, |kind, range| match kind {
            Kind::Word => marks.words += usize::from(range.len() >= 4),
            Kind::Run => marks.words += 1,
            Kind::Number => marks.numbers += 1,
            Kind::Id | Kind::Name | Kind::Path | Kind::Url => {
                marks.names += 1;
                marks.words += 1;
            }
        });
        marks
    }

    pub(super) fn is_named(self) -> bool {
        self.names + self.numbers > 0
    }
}

/// A sentence of the user.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) rank: Rank,
    /// The user wants something done, or to know something.
    pub(super) asks: bool,
    /// It is a rule, which holds beyond the request that it came with.
    pub(super) is_rule: bool,
    /// It stands above a list.
    opens_list: bool,
    is_item: bool,
}

/// Returns the sentences of a user's message that say something. `code` is called with lines between fences.
pub(super) fn user<'a>(text: &'a str, mut code: impl FnMut(&'a str)) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    let mut heading: Option<(&str, bool)> = None;
    let mut is_list_of_rules = false;
    units(text, |unit| match unit {
        Unit::Sentence(sentence) => {
            let marks = Marks::of(sentence);
            let opens_list = sentence.ends_with([':', '：']);
            let is_item = is_listed(text, sentence);
            if opens_list && marks.words <= MOST_OF_HEADING && !asks(sentence, marks) && !is_item {
                is_list_of_rules = marks.cues.any(Cues::RULE);
                heading = Some((sentence, is_list_of_rules));
                return;
            }
            is_list_of_rules &= is_item;
            let item = (is_item && marks.words + marks.numbers > 0).then_some(Rank::Filler);
            let Some(mut rank) = of_user(sentence, marks).or(item) else { return };
            // What stands in a list of rules is a rule; the heading is told with its first item.
            let is_rule = marks.cues.any(Cues::RULE) || is_list_of_rules;
            rank = if is_rule { Rank::Firm } else { rank };
            let above = heading.take().map(|(above, _)| format!("{above} ")).unwrap_or_default();
            let text = clean(&format!("{above}{sentence}"), LONGEST, 0);
            let asks = asks(sentence, marks);
            all.push(Said { text, rank, asks, is_rule, opens_list, is_item });
        }
        Unit::Code(line) => code(line),
    });
    all
}

/// Takes the request out of a message: all of a short message that asks for something, and of a longer one the sentences
/// that ask, with their lists. Returns nothing if nothing is asked for. What is left is in `said`.
pub(super) fn request(said: &mut Vec<Said>) -> Vec<Said> {
    if !said.iter().any(|one| one.asks) {
        return Vec::new();
    }
    let length = |one: &Said| one.text.chars().count();
    let is_short = said.iter().map(length).sum::<usize>() <= LONGEST_REQUEST;
    let (mut left, mut in_list) = (LONGEST_REQUEST, false);
    take(said, |one| {
        in_list = one.asks && one.opens_list || in_list && one.is_item;
        let wanted = is_short || one.asks || in_list;
        let has_room = wanted && length(one) <= left;
        left -= if has_room { length(one) } else { 0 };
        has_room
    })
}

/// Takes what tells the goal out of a request: its first sentences that are no rules, or its first one.
pub(super) fn goal(request: &mut Vec<Said>) -> Vec<Said> {
    let has_other = request.iter().any(|one| !one.is_rule);
    let mut left = if has_other { GOAL_SENTENCES } else { 1 };
    take(request, |one| {
        let wanted = left > 0 && !(has_other && one.is_rule);
        left -= usize::from(wanted);
        wanted
    })
}

/// Leaves the first sentences of a request that can be read elsewhere in full.
pub(super) fn shorten(request: &mut Vec<Said>) {
    const LONGEST: usize = 300;
    let (mut left, mut is_first) = (LONGEST, true);
    request.retain_mut(|one| {
        let length = one.text.chars().count();
        if std::mem::take(&mut is_first) {
            one.text = clean(&one.text, LONGEST, 0);
        } else if length > left {
            left = 0;
            return false;
        }
        left = left.saturating_sub(length);
        true
    });
}

fn take(said: &mut Vec<Said>, mut wanted: impl FnMut(&Said) -> bool) -> Vec<Said> {
    let (taken, left) = std::mem::take(said).into_iter().partition(|one| wanted(one));
    *said = left;
    taken
}

/// Whether a sentence is an item of a list in its text.
fn is_listed(text: &str, sentence: &str) -> bool {
    let start = sentence.as_ptr().addr() - text.as_ptr().addr();
    let near = &text[text.ceil_char_boundary(start.saturating_sub(8))..start];
    let line = near.rsplit('\n').next().unwrap_or_default().trim();
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.ends_with(['-', '*', '•', '・']) || numbered.len() < line.len() && matches!(numbered, "." | ")")
}

/// How much a sentence of the user matters; none if it is only polite.
pub(super) fn of_user(text: &str, marks: Marks) -> Option<Rank> {
    let cues = marks.cues;
    let says = cues.any(Cues::RULE.with(Cues::DECISION).with(Cues::CHANGE).with(Cues::WISH).with(Cues::GOAL));
    if is_acknowledgement(text) {
        return None;
    }
    if cues.any(Cues::RULE) && !is_question(text) {
        return Some(Rank::Firm);
    }
    if says && marks.words > 0 {
        return Some(if is_question(text) { Rank::Named } else { Rank::Telling });
    }
    if marks.is_named() {
        return Some(if is_question(text) { Rank::Named } else { Rank::Telling });
    }
    // Whatever else the user says may hold as well: nothing in the words tells.
    let rank = if is_question(text) { Rank::Named } else { Rank::Telling };
    (marks.words > 0 || asks(text, marks)).then_some(rank)
}

/// Whether a sentence only goes on or is polite: "ok", "thanks, looks good", "continue". "Continue with the refactoring" is
/// a request.
pub(super) fn is_acknowledgement(text: &str) -> bool {
    const LONGEST: usize = 100;
    const WORDS: &str = "ok okay k thanks thank thx you a lot so very much great nice cool awesome perfect excellent hello hi hey \
                         good morning evening job work looks sounds lgtm sure got it no problem hurry rush worries cheers \
                         take your time carry on go ahead keep going continue proceed please yes yep yeah no well done that \
                         this makes make sense fair enough interesting now and for the all is fine right understood hm ah \
                         next up i see how has have lovely weekend alright";
    const PHRASES: [&str; 21] = [
        "ありがとうございました",
        "ありがとうございます",
        "ありがとう",
        "お疲れ様です",
        "お疲れさま",
        "こんにちは",
        "おはようございます",
        "おはよう",
        "よろしくお願いします",
        "お願いします",
        "よろしく",
        "いいですね",
        "いいね",
        "了解しました",
        "了解です",
        "了解",
        "承知しました",
        "わかりました",
        "助かります",
        "続けてください",
        "進めてください",
    ];
    if text.len() > LONGEST {
        return false;
    }
    let mut left = text.to_lowercase();
    for phrase in PHRASES {
        left = left.replace(phrase, " ");
    }
    let mut words = left.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.all(|word| WORDS.split_whitespace().any(|polite| polite == word))
}

pub(super) fn is_question(text: &str) -> bool {
    let text = text.trim_end_matches(['。', ')', '"']);
    ["?", "？", "か", "かね", "っけ"].iter().any(|end| text.ends_with(end))
}

/// Whether a sentence asks for something: by its words, as a question, or by the verb that it begins with. A rule does not.
pub(super) fn asks(text: &str, marks: Marks) -> bool {
    const BEFORE: &str = "please now then next also ok okay so and first finally great thanks";
    const VERBS: &str = "add analyse analyze apply build bump change check clean commit compare configure connect continue convert \
                         copy create debug deploy describe design document draft drop enable evaluate explain export extend \
                         extract find finish fix generate give implement import improve inline install integrate investigate \
                         list look make measure merge migrate move open optimise optimize plan port prepare publish pull push \
                         rebase refactor release remove rename replace research resume retry review revert rewrite run set \
                         setup show simplify sketch split start summarise summarize support switch test tidy try update upgrade \
                         verify wire write";
    let is_in = |list: &str, word: &str| list.split_whitespace().any(|one| word.eq_ignore_ascii_case(one));
    let mut words = text.split_whitespace().take(6).map(|word| word.trim_matches([',', '.', '!', ':']));
    let first = words.find(|word| !is_in(BEFORE, word)).unwrap_or_default();
    let ends = ["て", "てね", "てくれ"].iter().any(|end| text.trim_end_matches(['。', '！']).ends_with(end));
    let cues = marks.cues;
    is_question(text)
        || cues.any(Cues::GOAL)
        || is_in(VERBS, first)
        || (cues.any(Cues::ASK) || ends) && !cues.any(Cues::RULE)
}

/// In which section a sentence of the model is told, and how much it matters; none if it tells nothing.
pub(super) fn of_model(text: &str, marks: Marks) -> Option<(Section, Rank)> {
    const TELLING: Cues =
        Cues::DECISION.with(Cues::FOUND).with(Cues::OPEN).with(Cues::WRONG).with(Cues::DONE).with(Cues::MADE);
    let cues = marks.cues;
    let is_talk = cues.any(Cues::TALK);
    if marks.words == 0 || is_talk && !cues.any(TELLING.with(Cues::CHANGE)) && !marks.is_named() {
        return None;
    }
    let (section, rank) = if cues.any(Cues::DECISION) {
        (Section::Decisions, Rank::Telling)
    } else if cues.any(Cues::OPEN) && !cues.any(Cues::DONE) {
        (Section::Pending, Rank::Telling)
    } else if cues.any(Cues::FOUND) && (cues.any(Cues::WRONG) || marks.names > 0) {
        (Section::Facts, Rank::Telling)
    } else if cues.any(Cues::WRONG) && !cues.any(Cues::DONE.with(Cues::PLAN).with(Cues::TALK)) {
        (Section::Errors, Rank::Named)
    } else if cues.any(Cues::DONE.with(Cues::MADE)) && !cues.any(Cues::PLAN) {
        (Section::Changes, Rank::Named)
    } else if cues.any(Cues::PLAN) && !is_talk {
        (Section::Decisions, Rank::Named)
    } else if cues.any(Cues::FOUND.with(Cues::CHANGE).with(Cues::RULE)) || marks.is_named() {
        (Section::Facts, Rank::Named)
    } else if marks.words >= LEAST_WORDS {
        (Section::Facts, Rank::Filler)
    } else {
        return None;
    };
    let weak = is_question(text) || is_talk || marks.names == 0 && rank == Rank::Named && !cues.any(TELLING);
    Some((section, if weak { rank.min(Rank::Filler) } else { rank }))
}
