//! Reads a script: a header with the world that its noise is made of, then beats.
//!
//! A beat starts with `=U` (user), `=A` (model) or `=T tool | key=value ;; key=value | noise` (the lines below it are
//! planted in the noise). A small `a` or `b` after the letter keeps the beat for that variant; `<<one||other>>` picks
//! by variant anywhere. `[[i|probe]]` marks a fact in place: `c`, `d`, `p`, `e`, `i` for its kind, then `-n` if
//! it is superseded by the one marked `+n`; a capital letter (`[[iA|probe]]`) makes it a fact in one variant only.
//! `[[+n]]` alone marks a withdrawal.

use super::super::session::Kind;

pub(super) struct World {
    pub(super) japanese: bool,
    /// Names in code, of services, tables, files.
    pub(super) words: Vec<String>,
    /// What people talk about, in their language.
    pub(super) nouns: Vec<String>,
    pub(super) dirs: Vec<String>,
    pub(super) ext: String,
    /// Kinds of noise, more often named if more often wanted.
    pub(super) kinds: Vec<String>,
    /// Remarks of the model that fit this work.
    pub(super) remarks: Vec<String>,
    /// Year and month of the noise.
    pub(super) month: String,
}

pub(super) struct Script {
    pub(super) name: String,
    pub(super) system: String,
    pub(super) world: World,
    pub(super) beats: Vec<Beat>,
}

#[derive(Clone)]
pub(super) enum Who {
    User,
    Model,
    Tool { name: String, arguments: Vec<(String, String)>, noise: String },
}

#[derive(Clone)]
pub(super) struct Beat {
    pub(super) who: Who,
    pub(super) text: String,
    pub(super) marks: Vec<Mark>,
}

/// A fact marked in a text; without a kind it only says what is withdrawn.
#[derive(Clone)]
pub(super) struct Mark {
    pub(super) kind: Option<Kind>,
    pub(super) probe: String,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    /// The text that it stands in.
    pub(super) home: String,
}

pub(super) fn parse(source: &str, variant: char) -> Script {
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
        Who::User | Who::Model => who,
    };
    let text = unmark(text.trim_end(), variant, &mut marks);
    marks.iter_mut().for_each(|mark| mark.home.clone_from(&text));
    Some(Beat { who, text, marks })
}

/// The text without its marks, which are added to the list.
fn unmark(text: &str, variant: char, marks: &mut Vec<Mark>) -> String {
    let mut parts = text.split("[[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = part.split_once("]]").unwrap_or_else(|| panic!("mark not closed: {part}"));
        let (head, probe) = mark.split_once('|').unwrap_or((mark, ""));
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
            "" => None,
            _ => panic!("what kind is {mark:?}?"),
        };
        assert!(kind.is_some() != probe.is_empty(), "a mark without a probe or a kind: {mark:?}");
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        marks.push(Mark { kind, probe: probe.to_owned(), old, new, home: String::new() });
    }
    plain
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
