//! What an assistant does: the commands that it runs, the files that it reads and changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Call;
use super::item::Item;
use super::line::clean;
use super::outputs::{Source, call_hash};
use super::pool::Pool;
use super::prose::file;
use super::scan::{Kind, tokens};
use super::sections::Section;
use super::statement::Statement;

/// Longer values are content, not names.
const LONGEST_VALUE: usize = 4096;
/// Characters of a command that are kept.
const LONGEST_COMMAND: usize = 200;
/// Characters of the arguments of another call.
const LONGEST_ARGUMENTS: usize = 140;

/// Stands between a command and its result.
pub(super) const RESULT: &str = " → ";

/// Takes a call, and tells what its result will be.
pub(super) fn take(pool: &mut Pool, call: &Call<'_>) -> Source {
    let call_hash = call_hash(call.name, call.arguments);
    let arguments = Arguments::of(call.arguments);
    let mut source =
        Source { tool: clean(call.name, 40, 0), call: call_hash, listing: is_listing(call.name) };
    if let Some(command) = arguments.command(call.name) {
        source.listing = shows_files(&command);
        source.tool = clean(&command, 60, 0);
        self::command(pool, &command, source.listing, call_hash);
        return source;
    }
    let done = what_is_done(call.name);
    let mut files = 0;
    for (name, path) in arguments.paths() {
        files += 1;
        let leaves = name.starts_with("old") || name.starts_with("source") || name == "from" || name == "src";
        match done {
            Some("deleted") => pool.remove(Section::Files, &path),
            Some("moved") if leaves => pool.remove(Section::Files, &path),
            Some(done) => file(pool, &path, 460, Some(done)),
            None => file(pool, &path, 180, None),
        }
    }
    files += patched(pool, call.arguments);
    if files == 0 && !source.listing {
        let text = format!("{} {}", call.name, arguments.short());
        let item = Item::new(Section::Commands, clean(&text, LONGEST_ARGUMENTS, 0), 170);
        pool.add(item.showing(Statement::of(&text)));
    }
    source
}

/// What a command came to, behind the command.
pub(super) fn result(pool: &mut Pool, source: &Source, result: &str) {
    if let Some(item) = pool.last_from(Section::Commands, source.call) {
        let command = item.text.split(RESULT).next().unwrap_or_default();
        item.text = format!("{command}{RESULT}{result}");
    }
}

/// A command of an earlier summary.
pub(super) fn recall(pool: &mut Pool, line: &str) {
    let command = line.split(RESULT).next().unwrap_or_default();
    let item = Item::new(Section::Commands, line.to_owned(), 180).named(command);
    pool.add(item.showing(Statement::of(command)));
}

/// The line that names a stored output.
pub(super) fn stored(pool: &mut Pool, output_ref: &str, source: &Source) {
    let text = if source.tool.is_empty() {
        output_ref.to_owned()
    } else {
        format!("{output_ref} ({})", source.tool)
    };
    pool.add(Item::new(Section::Refs, clean(&text, LONGEST_COMMAND, 0), 600).named(output_ref));
}

/// The source of a result whose call is not known.
pub(super) fn unknown(tool: &str) -> Source {
    Source { tool: clean(tool, 40, 0), call: 0, listing: is_listing(tool) }
}

/// What a call was given. Arguments that are no JSON are one text.
enum Arguments<'a> {
    Fields(BTreeMap<Cow<'a, str>, &'a RawValue>),
    Text(&'a str),
}

impl<'a> Arguments<'a> {
    fn of(arguments: &'a str) -> Self {
        serde_json::from_str(arguments).map_or(Self::Text(arguments), Self::Fields)
    }

    /// Short texts among them, by name.
    fn texts(&self) -> Vec<(&str, String)> {
        let Self::Fields(fields) = self else { return Vec::new() };
        let short = fields.iter().filter(|(_, value)| value.get().len() <= LONGEST_VALUE);
        short
            .flat_map(|(name, value)| {
                let json = value.get();
                let texts = serde_json::from_str::<String>(json).map(|text| vec![text]);
                let texts = texts.or_else(|_| serde_json::from_str::<Vec<String>>(json)).unwrap_or_default();
                texts.into_iter().map(|text| (name.as_ref(), text))
            })
            .collect()
    }

    /// The command line, if it is one.
    fn command(&self, tool: &str) -> Option<String> {
        const NAMES: [&str; 7] =
            ["command", "cmd", "script", "commands", "shell_command", "bash", "command_line"];
        let runs = ["bash", "shell", "exec", "run", "terminal", "command", "sh", "execute"];
        let is_shell = parts(tool).any(|part| runs.contains(&part));
        match self {
            Self::Text(text) if is_shell => Some((*text).to_owned()),
            Self::Text(_) => None,
            Self::Fields(_) => {
                let texts = self.texts().into_iter().filter(|(name, _)| NAMES.contains(name));
                let words: Vec<String> =
                    texts.map(|(_, text)| text).filter(|text| !is_wrapper(text)).collect();
                (!words.is_empty()).then(|| words.join(" "))
            }
        }
    }

    /// The paths, by the names of their arguments.
    fn paths(&self) -> Vec<(&str, String)> {
        let is_path = |name: &str, text: &str| {
            let named = [
                "path",
                "file",
                "filename",
                "filepath",
                "dir",
                "directory",
                "folder",
                "source",
                "destination",
            ];
            let by_name = parts(name).any(|part| named.contains(&part))
                || matches!(name, "from" | "to" | "src" | "dst");
            by_name
                && text.len() <= 300
                // A message goes to somebody, not to a file.
                && !text.contains(['\n', '@'])
                && text.contains(['/', '.', '\\'])
                && text.len() > 2
        };
        self.texts().into_iter().filter(|(name, text)| is_path(name, text)).collect()
    }

    /// All of it on one line.
    fn short(&self) -> String {
        match self {
            Self::Text(text) => clean(text, LONGEST_ARGUMENTS, 0),
            Self::Fields(fields) => {
                let mut line = String::new();
                for (name, value) in fields.iter().take(6) {
                    let json = value.get();
                    let text: String = match serde_json::from_str(&json[..json.len().min(LONGEST_VALUE)]) {
                        Ok(text) => text,
                        Err(_) => json.chars().take(60).collect(),
                    };
                    line.push_str(&format!("{name}={} ", clean(&text, 60, 0)));
                }
                line
            }
        }
    }
}

/// The words of a name: `read_file`, `readFile`.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    let starts = |at: &usize| *at == 0 || name.as_bytes()[*at].is_ascii_uppercase();
    let cuts: Vec<usize> = (0..name.len()).filter(|at| name.is_char_boundary(*at)).filter(starts).collect();
    let ends = cuts.clone().into_iter().skip(1).chain([name.len()]);
    let camel = cuts.into_iter().zip(ends).map(|(start, end)| &name[start..end]);
    camel.flat_map(|part| part.split(['_', '-', '.', '/', ' ']))
}

fn has_part(name: &str, words: &[&str]) -> bool {
    parts(name).any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word)))
}

fn is_wrapper(word: &str) -> bool {
    ["bash", "sh", "zsh", "-c", "-lc", "-l", "/bin/bash", "/bin/sh"].contains(&word)
}

/// Whether a tool shows what is there and changes nothing.
fn is_listing(tool: &str) -> bool {
    const SHOW: [&str; 9] = ["read", "cat", "view", "grep", "ls", "glob", "tree", "diff", "rg"];
    const MAY_SHOW: [&str; 8] = ["open", "search", "find", "list", "show", "browse", "get", "fetch"];
    const FILES: [&str; 9] =
        ["file", "files", "dir", "directory", "folder", "code", "repo", "content", "contents"];
    has_part(tool, &SHOW) && !has_part(tool, &["log", "logs"])
        || has_part(tool, &MAY_SHOW) && has_part(tool, &FILES)
}

fn what_is_done(tool: &str) -> Option<&'static str> {
    const DONE: [(&[&str], &str); 4] = [
        (&["delete", "remove", "unlink", "rm"], "deleted"),
        (&["rename", "move", "mv"], "moved"),
        (&["create", "write", "mkdir", "new"], "created"),
        (&["edit", "patch", "replace", "insert", "append", "apply", "update", "modify", "str"], "changed"),
    ];
    // An existing file may be written too; only what says so is certain.
    let found = DONE.iter().find(|(words, _)| has_part(tool, words)).map(|(_, done)| *done);
    if found == Some("created") && !has_part(tool, &["create", "new", "mkdir"]) {
        Some("changed")
    } else {
        found
    }
}

/// The files that a patch names.
fn patched(pool: &mut Pool, arguments: &str) -> usize {
    const MARKS: [(&str, &str); 4] = [
        ("*** Update File: ", "changed"),
        ("*** Add File: ", "created"),
        ("*** Delete File: ", "deleted"),
        ("+++ b/", "changed"),
    ];
    let mut files = 0;
    for (mark, done) in MARKS {
        for at in memchr::memmem::find_iter(arguments.as_bytes(), mark).take(64) {
            let rest = &arguments[at + mark.len()..];
            // The arguments are JSON: a line ends with an escape.
            let path = rest.split(['\n', '\\', '"']).next().unwrap_or_default().trim();
            if path.is_empty() {
                continue;
            }
            files += 1;
            match done {
                "deleted" => pool.remove(Section::Files, path),
                _ => file(pool, path, 460, Some(done)),
            }
        }
    }
    files
}

fn command(pool: &mut Pool, command: &str, listing: bool, call: u64) {
    let mut paths = Vec::new();
    let head = &command[..command.floor_char_boundary(LONGEST_VALUE)];
    tokens(head, |kind, range| {
        if kind == Kind::Path && !head[range.clone()].ends_with('/') {
            paths.push(&head[range]);
        }
    });
    let words: Vec<&str> = head.split_whitespace().take(2).collect();
    let (first, second) =
        (words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
    let verb = if first == "git" { second } else { first };
    match verb {
        "mv" => {
            let target = paths.pop();
            paths.iter().for_each(|path| pool.remove(Section::Files, path));
            target.into_iter().for_each(|path| file(pool, path, 300, Some("moved here")));
        }
        "rm" => paths.iter().for_each(|path| pool.remove(Section::Files, path)),
        _ => paths.iter().take(16).for_each(|path| file(pool, path, if listing { 140 } else { 190 }, None)),
    }
    if !listing {
        let text = clean(command, LONGEST_COMMAND, 0);
        let item = Item::new(Section::Commands, text.clone(), 200).named(&text).from(call);
        pool.add(item.showing(Statement::of(&text)));
    }
}

/// Whether a command line only shows files.
fn shows_files(command: &str) -> bool {
    const SHOW: [&str; 16] = [
        "cat", "sed", "head", "less", "more", "grep", "rg", "ls", "find", "tree", "awk", "wc", "bat", "fd",
        "ag", "nl",
    ];
    let mut words = command.split_whitespace().skip_while(|word| word.contains('=') || *word == "sudo");
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    match first {
        "cd" => command.split_once("&&").is_some_and(|(_, rest)| shows_files(rest)),
        "git" => matches!(second, "diff" | "show" | "log" | "grep" | "blame"),
        first => SHOW.contains(&first) && !command.contains(" -i "),
    }
}
