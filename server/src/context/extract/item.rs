//! One line of a summary, perhaps: what it says, how much it matters, and what is left of it when a part no longer holds.

use super::cues::Cues;
use super::overrule::When;
use super::sections::Section;
use super::signs::Signs;
use super::statement::{Statement, long_hash};

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
    /// How firm it is by its words, and whether it is a question.
    pub(super) signs: Signs,
    pub(super) asks: bool,
    /// Who said it, and when.
    pub(super) when: When,
    /// Of which command it is the result; 0: of none.
    pub(super) source: u64,
    /// It supersedes nothing.
    pub(super) quiet: bool,
    /// It is a line of what a tool put out, and of what it was asked.
    pub(super) of_output: bool,
    pub(super) call: u64,
    /// How often it was found.
    pub(super) hits: u32,
    /// Bytes that it takes, as they were counted.
    pub(super) size: usize,
    pub(super) key: u64,
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
            signs: Signs::default(),
            asks: false,
            when: When::default(),
            source: 0,
            quiet: false,
            of_output: false,
            call: 0,
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
    pub(super) fn without(&self, new: &Statement) -> Option<(Self, Statement)> {
        let old = self.statement.as_deref()?;
        let changed = new.changes(old);
        let (gone, parts): (Vec<&str>, Vec<&str>) =
            clauses(&self.text).partition(|part| Statement::of(part).has_any(&changed));
        if gone.is_empty() || parts.is_empty() {
            return None;
        }
        let text = parts.concat();
        let text = text.trim().trim_end_matches([',', ';', '、']);
        let rest = self.with_text(text);
        let tells = rest.statement.as_deref().is_some_and(|said| said.names > 0 || said.cues.any(Cues::RULE));
        tells.then(|| (rest, Statement::of(&gone.concat())))
    }

    /// What is still open of a list when a part of it is done; none if that is all there is to it.
    pub(super) fn unsettled(&self, new: &Statement) -> Option<Self> {
        let is_done = |part: &str| new.settles(&Statement::of(part));
        let (done, open): (Vec<&str>, Vec<&str>) = clauses(&self.text).partition(|part| is_done(part));
        // Two parts are a sentence rather than a list.
        if done.is_empty() || open.is_empty() || done.len() + open.len() < 3 {
            return None;
        }
        let text = open.concat();
        let text = text.trim().trim_end_matches([',', ';', '、']);
        Some(self.with_text(text))
    }

    /// The same with other words.
    fn with_text(&self, text: &str) -> Self {
        let statement = Statement::of(text);
        let mut other = Self::new(self.section, text.to_owned(), self.weight).saying(statement);
        (other.order, other.message, other.when) = (self.order, self.message, self.when);
        (other.signs, other.asks) = (self.signs, self.asks);
        other
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
