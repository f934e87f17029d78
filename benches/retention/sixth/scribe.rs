//! Writes turns into a session: in the voice of its user, with the roles in an order that a chat may have, and with
//! the facts that the turns state.

use serde_json::json;

use super::Session;
use super::script::{Turn, unmarked};
use super::session_text;
use super::world::{Known, World};

/// How the user of one session writes.
#[derive(Debug)]
struct Voice {
    leads: Vec<String>,
    tails: Vec<String>,
    /// In how many cases of a hundred something is said around what matters.
    around: usize,
    small_letters: bool,
    no_stops: bool,
}

/// Who spoke last.
#[derive(Debug, PartialEq, Eq)]
enum Last {
    User,
    Assistant,
    Tool,
}

/// A session while it is written.
#[derive(Debug)]
pub(super) struct Scribe<'a> {
    pub(super) session: Session,
    pub(super) world: World<'a>,
    voice: Voice,
    last: Last,
    /// Messages that were counted already, and about how many tokens they have.
    counted: (usize, f64),
}

impl<'a> Scribe<'a> {
    pub(super) fn new(session: Session, mut world: World<'a>) -> Self {
        let some = |world: &mut World<'_>, pool: &str, count| (0..count).map(|_| world.say(pool)).collect();
        let voice = Voice {
            leads: some(&mut world, "leads", 6),
            tails: some(&mut world, "tails", 5),
            around: world.rng.between(5, 55),
            small_letters: world.rng.chance(25),
            no_stops: world.rng.chance(35),
        };
        Self { session, world, voice, last: Last::Assistant, counted: (0, 0.0) }
    }

    /// About how many tokens the session has so far.
    pub(super) fn tokens(&mut self) -> f64 {
        for message in &self.session.messages[self.counted.0..] {
            let text = session_text(message);
            let ascii = text.chars().filter(char::is_ascii).count();
            let other = text.chars().count() - ascii;
            self.counted.1 += ascii as f64 / 4.0 + other as f64 * 0.8;
        }
        self.counted.0 = self.session.messages.len();
        self.counted.1
    }

    /// Writes an item and plants its facts. Gives the probes, and the messages that state them.
    pub(super) fn item(&mut self, turns: &[Turn], known: &mut Known) -> Item {
        let mut item = Item { first: 0, end: 0, probes: Vec::new(), superseded: Vec::new() };
        for (index, turn) in turns.iter().enumerate() {
            match turn {
                Turn::User(text) => {
                    let text = self.world.fill(text, known);
                    let text = self.voiced(&text);
                    let text = self.planted(&text, &mut item);
                    self.user(&text);
                }
                Turn::Assistant(text) => {
                    let text = self.world.fill(text, known);
                    let text = self.planted(&text, &mut item);
                    self.assistant(&text);
                }
                Turn::Tool { name, key, value, says, output } => {
                    let says = self.world.fill(says, known);
                    let value = self.world.fill(value, known);
                    let output = self.with_noise(output, known);
                    let says = self.planted(&says, &mut item);
                    let value = self.planted(&value, &mut item);
                    let output = self.planted(&output, &mut item);
                    self.tool(&says, name, key, &value, &output);
                }
            }
            if index == 0 {
                let messages = if matches!(turn, Turn::Tool { .. }) { 2 } else { 1 };
                item.first = self.session.messages.len() - messages;
            }
        }
        item.end = self.session.messages.len();
        item
    }

    pub(super) fn user(&mut self, text: &str) {
        match self.last {
            Last::User => {
                let answer = self.world.say("acks");
                self.session.assistant(&answer);
            }
            Last::Tool => {
                let answer = self.world.say("findings");
                self.session.assistant(&answer);
            }
            Last::Assistant => (),
        }
        self.session.user(text);
        self.last = Last::User;
    }

    pub(super) fn assistant(&mut self, text: &str) {
        if self.last == Last::Assistant {
            let more = self.world.say("go_on");
            self.session.user(&more);
        }
        self.session.assistant(text);
        self.last = Last::Assistant;
    }

    pub(super) fn tool(&mut self, says: &str, name: &str, key: &str, value: &str, output: &str) {
        if self.last == Last::Assistant {
            let more = self.world.say("go_on");
            self.session.user(&more);
        }
        self.session.tool(Some(says).filter(|says| !says.is_empty()), name, &json!({key: value}), output);
        self.last = Last::Tool;
    }

    /// What the user says, the way this user writes.
    fn voiced(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        let mut letters = text.bytes();
        let starts_plainly = letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && letters.next().is_some_and(|second| second.is_ascii_lowercase());
        if self.voice.small_letters && starts_plainly {
            let (first, rest) = text.split_at(1);
            text = first.to_ascii_lowercase() + rest;
        }
        if self.voice.no_stops && !text.contains('\n') {
            text = text.trim_end_matches(['.', '。']).to_owned();
        }
        // Nobody starts with an aside.
        let around = if self.session.messages.len() == 1 { 0 } else { self.voice.around };
        if self.world.rng.chance(around) {
            let lead = if self.world.rng.chance(60) {
                self.world.rng.pick(&self.voice.leads).clone()
            } else {
                self.world.say("chatter")
            };
            let space = if lead.is_ascii() { " " } else { "" };
            text = format!("{lead}{space}{text}");
        }
        if self.world.rng.chance(around) {
            let tail = if self.world.rng.chance(50) {
                self.world.rng.pick(&self.voice.tails).clone()
            } else {
                self.world.say("chatter")
            };
            let between = match (text.contains('\n'), tail.is_ascii()) {
                (true, _) => "\n\n",
                (false, true) => " ",
                (false, false) => "",
            };
            let ended = text.trim_end_matches(']').ends_with(['.', '。', '!', '?', '！', '？', ')', '」']);
            let stop = match (ended, tail.is_ascii()) {
                (true, _) => "",
                (false, true) => ".",
                (false, false) => "。",
            };
            text = format!("{text}{stop}{between}{tail}");
        }
        text
    }

    /// The output of a tool with its lines of noise.
    fn with_noise(&mut self, output: &str, known: &mut Known) -> String {
        let mut lines = Vec::new();
        for line in output.lines() {
            let noise = line.strip_prefix('@').and_then(|line| line.split_once(' '));
            match noise.and_then(|(pool, count)| Some((pool, count.parse().ok()?))) {
                Some((pool, count)) => lines.push(self.world.noise(pool, count)),
                None => lines.push(self.world.fill(line, known)),
            }
        }
        lines.join("\n")
    }

    fn planted(&mut self, text: &str, item: &mut Item) -> String {
        let (text, marks) = unmarked(text);
        for (kind, superseded, words) in marks {
            item.probes.push(words.clone());
            if superseded {
                item.superseded.push(words.clone());
                self.session.superseded(kind, words);
            } else {
                self.session.fact(kind, words);
            }
        }
        text
    }
}

/// Where an item stands in the session, and what was planted by it.
#[derive(Debug)]
pub(super) struct Item {
    /// Its first message.
    pub(super) first: usize,
    /// Behind its last message.
    pub(super) end: usize,
    pub(super) probes: Vec<String>,
    /// Those of the probes that will not hold.
    pub(super) superseded: Vec<String>,
}
