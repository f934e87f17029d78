//! The third generator: sessions in which people and models change their minds in many ways, and correct themselves and
//! each other, in English and Japanese. Made for tuning: a session is woven from short stories, and every second story of
//! a list is only in every second session, so that rules found by one half can be held against the other.
//!
//! A story is what is said of one matter, turn by turn; other things happen between its turns. Stories are in
//! `english.rs`, `japanese.rs` and the files beside them, what stands for `{…}` in `names.rs`, what happens in between in
//! `noise.rs`.

mod english;
mod english_changes;
mod japanese;
mod japanese_changes;
mod names;
mod noise;

use fastrand::Rng;
use serde_json::json;

use super::session::{Kind, Session};
use names::Names;
use noise::Noise;

/// Sessions of each kind of work.
const EACH: usize = 4;
/// Steps of a session.
const STEPS: std::ops::Range<usize> = 45..120;
/// Stories of a session: in which something changes, and in which nothing does.
const CHANGES: usize = 9;
const FACTS: usize = 13;

/// What is said in a language.
pub(crate) struct Language {
    pub(crate) code: &'static str,
    pub(crate) works: &'static [Work],
    pub(crate) changes: &'static [&'static [&'static str]],
    pub(crate) facts: &'static [&'static [&'static str]],
    pub(crate) people: &'static [&'static str],
    pub(crate) places: &'static [&'static str],
    /// What means nothing, by the user and by the assistant.
    pub(crate) nods: &'static [&'static str],
    pub(crate) acks: &'static [&'static str],
    pub(crate) musings: &'static [&'static str],
}

/// A kind of work.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) system: &'static str,
    pub(crate) goal: &'static str,
    pub(crate) services: &'static [&'static str],
}

/// The sessions: those with an even number are of one half, the others of the other.
pub(crate) fn sessions() -> Vec<Session> {
    let mut sessions = Vec::new();
    for language in [&english::ENGLISH, &japanese::JAPANESE] {
        for work in language.works {
            for round in 0..EACH {
                sessions.push(session(language, work, round, sessions.len() as u64));
            }
        }
    }
    sessions
}

fn session(language: &'static Language, work: &'static Work, round: usize, seed: u64) -> Session {
    let mut rng = Rng::with_seed(0x0074_6869_7264 + seed);
    let name = format!("third-{}-{}-{round}", language.code, work.name);
    let mut session = Session::new(name, work.system);
    let mut names = Names::new(&mut rng, language, work);
    let mut noise = Noise::new(&mut rng, work.services);
    let steps = rng.usize(STEPS);
    let mut turns: Vec<Vec<String>> = vec![Vec::new(); steps];
    let half = |all: &'static [&'static [&'static str]], count: usize, rng: &mut Rng| {
        let mut stories: Vec<_> = all.iter().skip(round % 2).step_by(2).copied().collect();
        rng.shuffle(&mut stories);
        stories.truncate(count);
        stories
    };
    for story in half(language.changes, CHANGES, &mut rng) {
        tell(story, &mut turns, &mut session, &mut names, &mut rng);
    }
    for story in half(language.facts, FACTS, &mut rng) {
        tell(story, &mut turns, &mut session, &mut names, &mut rng);
    }
    session.user(work.goal);
    for here in &turns {
        here.iter().for_each(|turn| say(&mut session, turn, language, &mut noise, &mut rng));
        noise.pass(&mut session, language, &mut rng);
    }
    session.user(rng.choice(language.nods).unwrap());
    session.assistant(rng.choice(language.acks).unwrap());
    session
}

/// Lays the turns of a story into a session. A turn that begins with `+` follows the one before at once.
fn tell(story: &[&str], turns: &mut [Vec<String>], session: &mut Session, names: &mut Names, rng: &mut Rng) {
    names.begin();
    // The last steps are known to every strategy.
    let end = turns.len() - 6;
    let apart = story.iter().filter(|turn| !turn.starts_with('+')).count();
    let mut places: Vec<usize> = Vec::new();
    while places.len() < apart {
        let place = rng.usize(1..end);
        // Two turns of a story are never close.
        if places.iter().all(|other| place.abs_diff(*other) >= 4) {
            places.push(place);
        }
    }
    places.sort_unstable();
    let mut place = 0;
    let mut joined = String::new();
    let mut next = places.into_iter();
    for turn in story {
        let text = facts(&names.fill(&chosen(turn, rng)), session);
        match text.strip_prefix('+') {
            Some(text) => {
                joined.push('\u{1e}');
                joined.push_str(text);
            }
            None => {
                if !joined.is_empty() {
                    turns[place].push(std::mem::take(&mut joined));
                }
                place = next.next().unwrap();
                joined = text;
            }
        }
    }
    turns[place].push(joined);
}

/// One of each of the choices `<<…||…>>` in a text.
fn chosen(text: &str, rng: &mut Rng) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("<<") {
        let (choice, after) = behind.split_once(">>").unwrap();
        let all: Vec<&str> = choice.split("||").collect();
        made.push_str(before);
        made.push_str(rng.choice(all).unwrap());
        rest = after;
    }
    made + rest
}

/// A text without its marks, of which the session is told: `[[i|…]]` is a fact that holds, `[[-i|…]]` one that does not.
fn facts(text: &str, session: &mut Session) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[[") {
        let (mark, after) = behind.split_once("]]").unwrap();
        let (kind, probe) = mark.split_once('|').unwrap();
        let letter = kind.trim_start_matches('-');
        let kind_of = Kind::ALL.into_iter().find(|kind| kind.as_str().starts_with(letter)).unwrap();
        if kind.starts_with('-') {
            session.superseded(kind_of, probe);
        } else {
            session.fact(kind_of, probe);
        }
        made.push_str(before);
        made.push_str(probe);
        rest = after;
    }
    made + rest
}

/// Says a turn: `U: …` the user, `A: …` the assistant, `T: command => output` a tool, `R: path => content` a file that is
/// read, `E: path` one that is edited; with those that follow it at once.
fn say(session: &mut Session, turn: &str, language: &Language, noise: &mut Noise, rng: &mut Rng) {
    let mut parts = turn.split('\u{1e}').peekable();
    while let Some(part) = parts.next() {
        let (who, text) = part.split_once(": ").unwrap();
        match who {
            "U" => {
                session.user(text);
                if parts.peek().is_none() && rng.u8(..3) > 0 {
                    session.assistant(rng.choice(language.acks).unwrap());
                }
            }
            "A" => {
                let more = rng.u8(..3);
                let musing = rng.choice(language.musings).unwrap();
                session.assistant(&match more {
                    0 => format!("{text}\n\n{musing}"),
                    1 => format!("{musing}\n\n{text}"),
                    _ => text.to_owned(),
                });
            }
            "T" => {
                let (command, output) = text.split_once(" => ").unwrap();
                let output = noise.around(output);
                session.tool(None, "shell", &json!({"cmd": command}), &output);
            }
            "R" => {
                let (path, content) = text.split_once(" => ").unwrap();
                session.tool(None, "view", &json!({"file_path": path}), content);
            }
            "E" => {
                let patch = noise.patch();
                session.tool(None, "str_replace", &json!({"file_path": text, "patch": patch}), "ok, 1 hunk");
            }
            other => panic!("nobody is {other}"),
        }
    }
}
