//! The first generator: sessions of coding agents in English and Japanese, six kinds of work each. It lays a session out:
//! where facts are planted, what happens in between. What is said is in `english.rs` and `japanese.rs`, what
//! tools put out in `filler.rs`.

mod english;
mod filler;
mod japanese;

use fastrand::Rng;
use serde_json::json;

use super::session::{Kind, Session};
use filler::Filler;

/// Sessions of each kind of work.
const EACH: u64 = 4;
/// Steps of a session: a step is one exchange, or a tool call with its result.
const STEPS: std::ops::Range<usize> = 40..170;

/// A language of sessions: what people and models say in it. `{…}` is filled in, the same in all parts of an entry.
pub(crate) struct Language {
    pub(crate) code: &'static str,
    pub(crate) topics: &'static [Topic],
    /// What is said by the user, and its probe.
    pub(crate) constraints: &'static [(&'static str, &'static str)],
    /// By the assistant.
    pub(crate) decisions: &'static [(&'static str, &'static str)],
    /// By the user, by the assistant.
    pub(crate) user_facts: &'static [(Kind, &'static str, &'static str)],
    pub(crate) facts: &'static [(Kind, &'static str, &'static str)],
    /// Lines in the outputs of tools.
    pub(crate) errors: &'static [(&'static str, &'static str)],
    /// What is said and later no longer true.
    pub(crate) changes: &'static [Change],
    /// What the user says that means nothing, and the assistant.
    pub(crate) chat: &'static [&'static str],
    pub(crate) replies: &'static [&'static str],
    pub(crate) remarks: &'static [&'static str],
    pub(crate) narration: &'static [&'static str],
}

/// A kind of work.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    pub(crate) system: &'static str,
    pub(crate) goal: &'static str,
    pub(crate) components: &'static [&'static str],
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    User,
    Assistant,
    Tool,
}

/// Something that changes: what is said first, with its probe, and what is said later, with its probe.
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) old: (By, &'static str, &'static str),
    /// What the assistant does or says about it soon after; empty: nothing.
    pub(crate) echo: &'static str,
    pub(crate) new: (By, &'static str, &'static str),
}

/// The sessions.
pub(crate) fn sessions() -> Vec<Session> {
    let mut sessions = Vec::new();
    for language in [&english::ENGLISH, &japanese::JAPANESE] {
        for (at, topic) in language.topics.iter().enumerate() {
            for round in 0..EACH {
                let seed = at as u64 * 100 + round + if language.code == "ja" { 10_000 } else { 0 };
                sessions.push(session(language, topic, round, seed));
            }
        }
    }
    sessions
}

/// Something that happens at a step.
struct Event {
    by: By,
    text: String,
}

fn session(language: &Language, topic: &Topic, round: u64, seed: u64) -> Session {
    let mut rng = Rng::with_seed(0x5eed_0000 + seed);
    let mut filler = Filler::new(&mut rng, topic.components, language.code == "ja");
    let mut session = Session::new(format!("{}-{}-{round}", language.code, topic.name), topic.system);
    let steps = rng.usize(STEPS);
    let events = plan(language, &mut session, &mut filler, steps, &mut rng);

    session.user(&filler.fill(topic.goal));
    for here in &events {
        for event in here {
            happen(&mut session, &mut filler, language, event, &mut rng);
        }
        pass(&mut session, &mut filler, language, &mut rng);
    }
    session.user(rng.choice(language.chat).unwrap());
    session.assistant(rng.choice(language.replies).unwrap());
    session
}

/// What happens at each step.
fn plan(
    language: &Language,
    session: &mut Session,
    filler: &mut Filler,
    steps: usize,
    rng: &mut Rng,
) -> Vec<Vec<Event>> {
    let mut events: Vec<Vec<Event>> = (0..steps).map(|_| Vec::new()).collect();
    // The last steps are known to every strategy, so nothing is planted there.
    let end = steps - 6;
    let mut plant =
        |session: &mut Session, kind, by, entry: (&str, &str), filler: &mut Filler, rng: &mut Rng| {
            let names = filler.names();
            session.fact(kind, names.fill(entry.1));
            events[rng.usize(1..end)].push(Event { by, text: sentence(&names.fill(entry.0), by) });
        };
    for entry in some(language.constraints, 7, rng) {
        plant(session, Kind::Constraint, By::User, *entry, filler, rng);
    }
    for entry in some(language.decisions, 6, rng) {
        plant(session, Kind::Decision, By::Assistant, *entry, filler, rng);
    }
    for entry in some(language.errors, 5, rng) {
        plant(session, Kind::Error, By::Tool, *entry, filler, rng);
    }
    for (kind, text, probe) in some(language.user_facts, 5, rng) {
        plant(session, *kind, By::User, (text, probe), filler, rng);
    }
    for (kind, text, probe) in some(language.facts, 8, rng) {
        plant(session, *kind, By::Assistant, (text, probe), filler, rng);
    }
    for _ in 0..4 {
        let path = filler.names().fill("{path}");
        session.fact(Kind::Path, path.clone());
        events[rng.usize(1..end)].push(Event { by: By::Tool, text: format!("edit {path}") });
    }
    for change in some(language.changes, 8, rng) {
        let names = filler.names();
        session.superseded(change.kind, names.fill(change.old.2));
        session.fact(change.kind, names.fill(change.new.2));
        let first = rng.usize(1..end / 2);
        let second = rng.usize(first + 8..end);
        for (at, (by, text, _)) in [(first, &change.old), (second, &change.new)] {
            events[at].push(Event { by: *by, text: sentence(&names.fill(text), *by) });
        }
        if !change.echo.is_empty() {
            let text = sentence(&names.fill(change.echo), By::Assistant);
            events[first + rng.usize(1..5)].push(Event { by: By::Assistant, text });
        }
    }
    events
}

/// With a capital, if somebody says it.
fn sentence(text: &str, by: By) -> String {
    match text.strip_prefix("the ") {
        Some(rest) if by != By::Tool => format!("The {rest}"),
        _ => text.to_owned(),
    }
}

/// Some of a list, in a random order.
fn some<'a, T>(list: &'a [T], count: usize, rng: &mut Rng) -> Vec<&'a T> {
    let mut chosen: Vec<&T> = list.iter().collect();
    rng.shuffle(&mut chosen);
    chosen.truncate(count);
    chosen
}

fn happen(session: &mut Session, filler: &mut Filler, language: &Language, event: &Event, rng: &mut Rng) {
    let around = |list: &[&str], rng: &mut Rng| {
        if rng.bool() { rng.choice(list).unwrap().to_string() } else { String::new() }
    };
    let space = if language.code == "ja" { "" } else { " " };
    match event.by {
        By::User => {
            let before = around(language.chat, rng);
            session.user(format!("{before}{space}{}", event.text).trim());
            session.assistant(rng.choice(language.replies).unwrap());
        }
        By::Assistant => {
            let before = around(language.remarks, rng);
            let behind = around(language.remarks, rng);
            session.assistant(format!("{before}{space}{}{space}{behind}", event.text).trim());
        }
        By::Tool => match event.text.strip_prefix("edit ") {
            Some(path) => {
                let arguments = json!({"path": path, "old": filler.code(2), "new": filler.code(3)});
                session.tool(None, "edit_file", &arguments, "The file was updated.");
            }
            None => {
                let command = filler.command();
                let log = filler.log(Some(&event.text));
                session.tool(None, "bash", &json!({"command": command}), &log);
            }
        },
    }
}

/// A step on which nothing happens that anybody must remember.
fn pass(session: &mut Session, filler: &mut Filler, language: &Language, rng: &mut Rng) {
    let says = rng.choice(language.narration).unwrap();
    let says = rng.bool().then_some(*says);
    match rng.u8(..20) {
        0..7 => {
            let lines = rng.usize(20..70);
            session.tool(says, "read_file", &json!({"path": filler.other_path()}), &filler.code(lines));
        }
        7..10 => {
            let (pattern, hits) = filler.grep();
            session.tool(says, "grep", &json!({"pattern": pattern}), &hits);
        }
        10..14 => {
            let command = filler.command();
            let log = filler.log(None);
            session.tool(says, "bash", &json!({"command": command}), &log);
        }
        14..16 => {
            let command = format!("ls {}", filler.folder());
            session.tool(says, "bash", &json!({"command": command}), &filler.listing());
        }
        16..18 => {
            session.user(rng.choice(language.chat).unwrap());
            session.assistant(rng.choice(language.replies).unwrap());
        }
        _ => session
            .assistant(&some(language.remarks, 3, rng).into_iter().copied().collect::<Vec<_>>().join(" ")),
    }
}
