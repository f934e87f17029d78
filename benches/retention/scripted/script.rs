//! Reads a script: a header with the world that its noise is made of, then beats.
//!
//! A beat starts with `=U` (user), `=A` (model), `=R` (a request of the user that starts a round) or
//! `=T tool | key=value ;; key=value | noise`; the lines below it go on with it, those of a tool are planted in its noise. A small `a` or `b` after the letter keeps the beat for that variant; `<<one||other>>` picks
//! by variant anywhere. `[[i|probe]]` marks a fact in place: `c`, `d`, `p`, `e`, `i` for its kind (`g` and `r` for the
//! goal and the request in a session of rounds), then `-n` if
//! it is superseded by the one marked `+n`; a capital letter (`[[iA|probe]]`) makes it a fact in one variant only.
//! `[[+n]]` alone marks a withdrawal.

use super::super::session::{Kind, spaced};

pub(crate) struct World {
    pub(crate) japanese: bool,
    /// Names in code, of services, tables, files.
    pub(crate) words: Vec<String>,
    /// What people talk about, in their language.
    pub(crate) nouns: Vec<String>,
    pub(crate) dirs: Vec<String>,
    pub(crate) ext: String,
    /// Kinds of noise, more often named if more often wanted.
    pub(crate) kinds: Vec<String>,
    /// Remarks of the model that fit this work.
    pub(crate) remarks: Vec<String>,
    /// Year and month of the noise.
    pub(crate) month: String,
}

pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) system: String,
    pub(crate) world: World,
    pub(crate) beats: Vec<Beat>,
}

#[derive(Clone)]
pub(crate) enum Who {
    User,
    Request,
    Model,
    Tool { name: String, arguments: Vec<(String, String)>, noise: String },
}

#[derive(Clone)]
pub(crate) struct Beat {
    pub(crate) who: Who,
    pub(crate) text: String,
    pub(crate) marks: Vec<Mark>,
}

impl Beat {
    pub(crate) fn who_is_user(&self) -> bool {
        matches!(self.who, Who::User | Who::Request)
    }
}

/// A fact marked in a text; without a kind it only says what is withdrawn.
#[derive(Clone)]
pub(crate) struct Mark {
    pub(crate) kind: Option<Kind>,
    pub(crate) probe: String,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
    /// The sentence that it stands in.
    pub(crate) sentence: String,
}

pub(crate) fn parse(source: &str, variant: char) -> Script {
    let source = choose(source, variant == 'b');
    let (header, body) = source.split_once("\n\n=").unwrap();
    let field = |name: &str| -> String {
        let line = header.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
    };
    let list = |name: &str| -> Vec<String> {
        field(name)
            .split([',', '、'])
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect()
    };
    let remarks =
        header.lines().filter_map(|line| line.strip_prefix("say:")).map(|line| line.trim().to_owned());
    let name = field("name");
    let world = World {
        japanese: name.starts_with("ja-"),
        words: list("words"),
        nouns: list("nouns"),
        dirs: list("dirs"),
        ext: field("ext"),
        kinds: list("kinds"),
        remarks: remarks.collect(),
        month: field("month"),
    };
    let body = format!("\n={body}");
    let beats = body.split("\n=").skip(1).filter_map(|beat| read_beat(beat, variant)).collect();
    Script { system: field("system"), name, world, beats }
}

fn read_beat(beat: &str, variant: char) -> Option<Beat> {
    let (head, text) = beat.split_once('\n').unwrap_or((beat, ""));
    let (tag, rest) = head.split_once(' ').unwrap_or((head, ""));
    let (who, only) = tag.split_at(1);
    if !only.is_empty() && !only.starts_with(variant) {
        return None;
    }
    let who = match who {
        "U" => Who::User,
        "R" => Who::Request,
        "A" => Who::Model,
        "T" => {
            let mut parts = rest.split(" | ");
            let name = parts.next().unwrap_or_default().trim().to_owned();
            let arguments = parts.next().unwrap_or_default().split(" ;; ");
            let pair =
                |part: &str| part.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
            let arguments = arguments.filter_map(pair).collect();
            Who::Tool { name, arguments, noise: parts.next().unwrap_or("log").trim().to_owned() }
        }
        _ => panic!("what is {head:?}?"),
    };
    let mut marks = Vec::new();
    // A tool's call can hold a mark too, in its arguments.
    let who = match who {
        Who::Tool { name, arguments, noise } => {
            let arguments = arguments
                .into_iter()
                .map(|(key, value)| (key, unmark(&value, variant, &mut marks)))
                .collect();
            Who::Tool { name, arguments, noise }
        }
        Who::User | Who::Request | Who::Model => who,
    };
    // What a person or the model says may start beside the tag.
    let text = match who {
        Who::Tool { .. } => text.to_owned(),
        Who::User | Who::Request | Who::Model => format!("{rest}\n{text}"),
    };
    let text = unmark(text.trim(), variant, &mut marks);
    Some(Beat { who, text, marks })
}

/// The text without its marks, which are added to the list.
fn unmark(text: &str, variant: char, marks: &mut Vec<Mark>) -> String {
    let mut parts = text.split("[[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    let before = marks.len();
    let mut places = Vec::new();
    for part in parts {
        let (mark, rest) = part.split_once("]]").unwrap_or_else(|| panic!("mark not closed: {part}"));
        let (head, probe) = mark.split_once('|').unwrap_or((mark, ""));
        let place = plain.len();
        plain.push_str(probe);
        plain.push_str(rest);
        // A capital letter after the kind: a fact in that variant only.
        if let Some(only) = head.chars().find(char::is_ascii_uppercase)
            && only.to_ascii_lowercase() != variant
        {
            continue;
        }
        let head = head.trim_end_matches(['A', 'B']);
        let mut labels = head.split('+');
        let (start, new) = (labels.next().unwrap_or_default(), labels.next());
        let (kind, old) = start.split_once('-').map_or((start, None), |(kind, old)| (kind, Some(old)));
        let kind = match kind {
            "c" => Some(Kind::Constraint),
            "d" => Some(Kind::Decision),
            "p" => Some(Kind::Path),
            "e" => Some(Kind::Error),
            "i" => Some(Kind::Id),
            "g" => Some(Kind::Goal),
            "r" => Some(Kind::Request),
            "" => None,
            _ => panic!("what kind is {mark:?}?"),
        };
        assert!(kind.is_some() != probe.is_empty(), "a mark without a probe or a kind: {mark:?}");
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        places.push(place);
        marks.push(Mark { kind, probe: probe.to_owned(), old, new, sentence: String::new() });
    }
    for (mark, place) in marks[before..].iter_mut().zip(places) {
        mark.sentence = sentence(&plain, place);
    }
    plain
}

/// Returns the sentence of a text that goes on at a place.
fn sentence(text: &str, place: usize) -> String {
    let is_end = |c: char| "。！？!?\n".contains(c);
    let start = text[..place].trim_end().rfind(is_end).map_or(0, |at| at + 1);
    let start = text[..place].trim_end().rfind(". ").map_or(start, |at| start.max(at + 1));
    let start = (start..=place).find(|at| text.is_char_boundary(*at)).unwrap_or(place);
    let rest = &text[place..];
    let end = rest.find(is_end).unwrap_or(rest.len());
    let end = rest.find(". ").map_or(end, |at| end.min(at));
    spaced(&text[start..place + end])
}

/// The text of one variant.
fn choose(source: &str, second: bool) -> String {
    let mut parts = source.split("<<");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (choice, rest) = part.split_once(">>").unwrap_or_else(|| panic!("choice not closed: {part}"));
        let (one, other) = choice.split_once("||").unwrap_or_else(|| panic!("no choice: {choice}"));
        text.push_str(if second { other } else { one });
        text.push_str(rest);
    }
    text
}
