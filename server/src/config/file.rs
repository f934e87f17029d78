//! Reads the YAML file into a flat list of keys with their lines, and expands the variables in its values.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::error::Problem;
use super::value::Raw;

/// Largest file.
const MAX_BYTES: u64 = 1 << 20;

/// Deepest nesting: more than any key has, and safe for the recursive parser.
const MAX_DEPTH: usize = 16;

/// A key of the file.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// The name with its sections: `limits.message_bytes`.
    pub(super) key: String,
    /// The line number, from 1.
    pub(super) line: u64,
    pub(super) value: Given,
}

/// The value of a key in the file.
#[derive(Debug, PartialEq)]
pub(super) enum Given {
    /// A value, or a list of them.
    Value(Raw),
    /// No value.
    Nothing,
    /// A list that holds something other than values.
    Nested,
}

/// Reads a file. An empty one has no entries.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, Problem> {
    let failed = |problem: String| Problem::File { path: path.to_owned(), problem };
    let text = text_of(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    parse(&text).map_err(failed)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator's file, wherever it is; nothing of the data directory"
)]
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut options = serde_saphyr::Options::default();
    options.strict_booleans = true;
    options.with_snippet = false;
    if let Some(budget) = &mut options.budget {
        budget.max_depth = MAX_DEPTH;
    }
    let tree: Option<Spanned<Tree>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| words(&error))?;
    let mut entries = Vec::new();
    match tree.map(|tree| tree.value) {
        None | Some(Tree::Nothing) => {}
        Some(Tree::Map(map)) => flatten("", map, &mut entries),
        Some(Tree::Value(_) | Tree::List(_)) => return Err("must be a map of keys to values".to_owned()),
    }
    Ok(entries)
}

/// Returns the parser's message for people who write the file.
fn words(error: &serde_saphyr::Error) -> String {
    error.render_with_formatter(&serde_saphyr::UserMessageFormatter)
}

/// A node of a YAML document.
enum Tree {
    Nothing,
    Value(Raw),
    List(Vec<Tree>),
    Map(Vec<(String, Spanned<Tree>)>),
}

fn flatten(section: &str, map: Vec<(String, Spanned<Tree>)>, entries: &mut Vec<Entry>) {
    for (name, Spanned { value, referenced, .. }) in map {
        let key = format!("{section}{name}");
        let value = match value {
            Tree::Map(map) if !map.is_empty() => {
                flatten(&format!("{key}."), map, entries);
                continue;
            }
            Tree::Map(_) | Tree::Nothing => Given::Nothing,
            Tree::Value(raw) => Given::Value(raw),
            Tree::List(items) => texts(items).map_or(Given::Nested, |texts| Given::Value(Raw::List(texts))),
        };
        entries.push(Entry { key, line: referenced.line(), value });
    }
}

fn texts(items: Vec<Tree>) -> Option<Vec<String>> {
    let text = |item| match item {
        Tree::Value(Raw::Text(text)) => Some(text),
        Tree::Value(Raw::Plain(_) | Raw::List(_) | Raw::Path(_))
        | Tree::Nothing
        | Tree::List(_)
        | Tree::Map(_) => None,
    };
    items.into_iter().map(text).collect()
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a map")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_none<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Value(Raw::Plain(value.to_string())))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Value(Raw::Plain(value.to_string())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Value(Raw::Plain(value.to_string())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Value(Raw::Plain(value.to_string())))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Value(Raw::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

/// Expands variables: `${NAME}` is the value of NAME, `$${` is `${`. Expanded text is not expanded again.
pub(super) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        expanded.push_str(before);
        let Some((name, behind)) = from[2..].split_once('}') else {
            return Err("has ${ without }; write $${ where ${ itself is meant".to_owned());
        };
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!("has ${{{name}}}, and {name:?} is no name of a variable"));
        }
        let value = lookup(name)
            .ok_or_else(|| format!("needs the variable {name}, which is not set (or not UTF-8)"))?;
        expanded.push_str(&value);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
