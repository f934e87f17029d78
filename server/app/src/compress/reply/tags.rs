//! The parts of an answer between tags, and the thoughts before them.

use std::ops::Range;

use super::says_something;

/// The longest tag that is looked at.
const MAX_TAG_BYTES: usize = 2048;
/// Tags of thoughts that some models have in their text.
const THOUGHTS: [&str; 5] = ["think", "thinking", "analysis", "scratchpad", "reasoning"];
/// Tags with which an answer begins.
const ANSWERS: [&str; 3] = ["summary", "retain", "keep"];

/// Where a tag is.
#[derive(Debug, Clone)]
pub(super) struct Tag {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The first tag of a name from a place on, of any case; `</name>` if it is to close.
pub(super) fn tag(text: &str, name: &str, closes: bool, from: usize) -> Option<Tag> {
    let begin = if closes { "</" } else { "<" };
    let mut at = from;
    while let Some(found) = text[at..].find(begin) {
        let start = at + found;
        at = start + begin.len();
        let after = &text[at..];
        let named = after.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name));
        if !named {
            continue;
        }
        let rest = &after[name.len()..];
        if !rest.starts_with(|c: char| c == '>' || c == '/' || c.is_whitespace()) {
            continue;
        }
        let near = &rest[..rest.floor_char_boundary(MAX_TAG_BYTES.min(rest.len()))];
        if let Some(end) = near.find('>') {
            return Some(Tag { start, end: at + name.len() + end + 1 });
        }
    }
    None
}

/// A part of an answer between tags.
#[derive(Debug)]
pub(super) struct Block {
    name: &'static str,
    /// With its tags.
    whole: Range<usize>,
    inner: Range<usize>,
}

/// The blocks of an answer that are asked for, in order: ends may be missing, and what stands in a block or around it may speak
/// of tags.
pub(super) fn blocks(text: &str, names: &[&'static str]) -> Vec<Block> {
    let tags = tags(text, names);
    let mut found: Vec<Block> = Vec::new();
    let mut at = 0;
    while let Some((tag, name, closes)) = tags.get(at) {
        let from = found.last().map_or(0, |block| block.whole.end);
        at += 1;
        if *closes {
            // One that only ends has begun where the answer does.
            if found.is_empty() && ends_here(text, tag.end, names) {
                found.push(Block { name, whole: 0..tag.end, inner: 0..tag.start });
            }
            continue;
        }
        let (inner, whole, next) = block_end(text, &tags, at - 1);
        let line = text[from..tag.start].rsplit('\n').next().unwrap_or_default();
        // In the middle of a sentence it is one only if nothing comes behind it.
        if line.trim().is_empty() || (whole > inner && ends_here(text, whole, names)) {
            found.push(Block { name, whole: tag.start..whole, inner: tag.end..inner });
            at = next;
        }
    }
    found
}

/// Where the block that a tag opens ends, without its last tag and with it, and the first tag behind it.
fn block_end(text: &str, tags: &[(Tag, &'static str, bool)], open: usize) -> (usize, usize, usize) {
    let name = tags[open].1;
    let is_end = |(_, of, closes): &(Tag, &str, bool)| *closes && *of == name;
    let mut depth = 1_usize;
    for (at, tag) in tags.iter().enumerate().skip(open + 1) {
        let behind = &tags[at + 1..];
        match (tag.1 == name, tag.2) {
            (true, false) => depth += 1,
            (true, true) if depth > 1 => depth -= 1,
            // An end behind which comes another one is what the text speaks of.
            (true, true) if behind.first().is_some_and(is_end) => {}
            (true, true) => return (tag.0.start, tag.0.end, at + 1),
            // Another block begins, unless this one goes on behind it.
            (false, false) if !behind.iter().any(is_end) => return (tag.0.start, tag.0.start, at),
            (false, _) => {}
        }
    }
    (text.len(), text.len(), tags.len())
}

/// Whether nothing but blocks and marks comes behind a place, up to the end of the line at least.
fn ends_here(text: &str, from: usize, names: &[&str]) -> bool {
    let line = text[from..].lines().next().unwrap_or_default().trim_start();
    let opens = |name: &&str| tag(line, name, false, 0).is_some_and(|tag| tag.start == 0);
    !says_something(line) || names.iter().any(opens)
}

/// All tags of some names, in order, with whether they close.
fn tags(text: &str, names: &[&'static str]) -> Vec<(Tag, &'static str, bool)> {
    let mut tags = Vec::new();
    for (name, closes) in names.iter().flat_map(|name| [(*name, false), (*name, true)]) {
        let mut from = 0;
        while let Some(found) = tag(text, name, closes, from) {
            from = found.end;
            tags.push((found, name, closes));
        }
    }
    tags.sort_by_key(|(tag, ..)| tag.start);
    tags
}

/// What stands in the blocks of a name: some models give several.
pub(super) fn content(text: &str, blocks: &[Block], name: &str) -> Option<String> {
    let own: Vec<&Block> = blocks.iter().filter(|block| block.name == name).collect();
    let parts = own.iter().map(|block| text[block.inner.clone()].trim());
    let parts: Vec<&str> = parts.filter(|part| says_something(part)).collect();
    (!own.is_empty()).then(|| parts.join("\n\n"))
}

/// What stands in no block.
pub(super) fn outside(text: &str, blocks: &[Block]) -> String {
    let mut said = String::new();
    let mut from = 0;
    for block in blocks {
        said.push_str(&text[from..block.whole.start]);
        from = block.whole.end;
    }
    said.push_str(&text[from..]);
    said
}

/// An answer without the thoughts that it begins with.
pub(super) fn without_thoughts(answer: &str) -> &str {
    let mut text = answer.trim();
    // The beginning may have been left out, as it is part of what some models are asked.
    if let Some(close) = tag(text, "think", true, 0)
        && tag(text, "think", false, 0).is_none()
    {
        let (thought, rest) = (&text[..close.start], text[close.end..].trim_start());
        let answered = |text: &str, at_once: bool| {
            let mut tags = ANSWERS.iter().filter_map(|name| tag(text, name, false, 0));
            tags.any(|tag| tag.start == 0 || !at_once)
        };
        // A summary may speak of it.
        let own_line = thought.trim_end_matches([' ', '\t']).ends_with('\n') || thought.trim().is_empty();
        if !answered(thought, false) && (answered(rest, true) || own_line) {
            text = rest;
        }
    }
    loop {
        let thought = THOUGHTS.iter().find_map(|name| {
            let open = tag(text, name, false, 0).filter(|open| open.start == 0)?;
            // One that has no end is all there is.
            Some(tag(text, name, true, open.end).map_or(text.len(), |close| close.end))
        });
        match thought {
            Some(end) => text = text[end..].trim_start(),
            None => return text,
        }
    }
}

/// Where what was asked for begins, in an answer of which everything before a place was looked at: thoughts aloud may come first.
pub(in super::super) fn begins_at(answer: &str, looked: usize) -> Option<usize> {
    const LONGEST: usize = "<summary".len();
    let from = answer.floor_char_boundary(looked.saturating_sub(LONGEST));
    let begins = |(at, _): &(usize, &str)| {
        let behind = &answer.as_bytes()[from + at + 1..];
        ANSWERS.iter().any(|name| {
            behind.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    answer[from..].match_indices('<').find(begins).map(|(at, _)| from + at)
}
