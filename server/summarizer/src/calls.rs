//! What an assistant does: the commands that it runs, the files that it reads and changes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Call;
use super::line::clean;
use super::notes::{Note, Notes, Rank, hash};
use super::scan::{Kind, tokens};
use super::section::Section;

/// Longer values are content, not names.
const LONGEST_VALUE: usize = 4096;
/// Characters of a command, and of the arguments of another call.
const LONGEST_COMMAND: usize = 160;
const LONGEST_ARGUMENTS: usize = 140;
/// Characters of what an output is labelled with.
const LONGEST_LABEL: usize = 80;
/// Paths of one call, and bytes of a path.
const MOST_PATHS: usize = 64;
const LONGEST_PATH: usize = 240;

/// Stands between a command and its result.
pub(super) const RESULT: &str = " → ";

/// What an output is of.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    /// The command or the tool, as it is told.
    pub(super) label: String,
    /// The same for the same command; 0: none.
    pub(super) command: u64,
    /// It shows what is in files: errors in it are not ours.
    pub(super) is_listing: bool,
    /// The note of the command, which its result is added to.
    told: Option<String>,
}

impl Source {
    /// Returns the source of an output whose call is not known.
    pub(super) fn unknown(tool: &str) -> Self {
        let label = clean(tool, LONGEST_LABEL, 0);
        let is_listing = is_listing(tool);
        Self { label, is_listing, ..Self::default() }
    }

    /// Returns the source of lines that stand between fences in a message.
    pub(super) fn pasted(by_user: bool) -> Self {
        Self { is_listing: !by_user, ..Self::default() }
    }
}

/// Takes a call, and tells what its output will be of.
pub(super) fn take(notes: &mut Notes, call: &Call<'_>) -> Source {
    let arguments = Arguments::of(call.arguments);
    if let Some(command) = arguments.command(call.name) {
        let is_listing = shows_files(&command);
        let text = clean(&command, LONGEST_COMMAND, 0);
        files_of(notes, &command, is_listing);
        let told = (!is_listing).then(|| text.clone());
        if !is_listing {
            notes.add(Note::new(Section::Commands, text.clone(), Rank::Filler).named(&text));
        }
        let label = clean(&command, LONGEST_LABEL, 0);
        return Source { command: hash(&label), label, is_listing, told };
    }
    let done = what_is_done(call.name);
    let (mut files, short) = (0, arguments.short());
    let mut about = short.as_str();
    for (name, path) in arguments.paths().take(MOST_PATHS) {
        files += 1;
        let leaves = name.starts_with("old") || name.starts_with("source") || name == "from" || name == "src";
        match done {
            Some("deleted") => notes.forget(Section::Files, path),
            Some("moved") if leaves => notes.forget(Section::Files, path),
            Some(done) => file(notes, path, Rank::Telling, Some(done)),
            None => file(notes, path, Rank::Filler, None),
        }
        about = path;
    }
    files += patched(notes, call.arguments);
    let is_listing = is_listing(call.name);
    let told =
        (files == 0 && !is_listing).then(|| clean(&format!("{} {short}", call.name), LONGEST_ARGUMENTS, 0));
    if let Some(text) = &told {
        notes.add(Note::new(Section::Commands, text.clone(), Rank::Filler).named(text));
    }
    let label = clean(&format!("{} {about}", call.name), LONGEST_LABEL, 0);
    Source { command: hash(&label), label, is_listing, told }
}

/// Adds what a command came to, behind the command.
pub(super) fn result(notes: &mut Notes, source: &Source, result: &str, is_wrong: bool) {
    if let Some(command) = &source.told {
        let rank = if is_wrong { Rank::Telling } else { Rank::Named };
        notes.add(Note::new(Section::Commands, format!("{command}{RESULT}{result}"), rank).named(command));
    }
}

/// Adds the line of a stored output: what it is of, its result, and its ref.
pub(super) fn stored(notes: &mut Notes, output_ref: &str, source: &Source, result: Option<&str>) {
    const LONGEST_RESULT: usize = 60;
    let mut text = source.label.clone();
    if let Some(result) = result {
        let result = clean(result, LONGEST_RESULT, 0);
        text = if text.is_empty() { result } else { format!("{text}, {result}") };
    }
    let text = if text.is_empty() { output_ref.to_owned() } else { format!("{text}: {output_ref}") };
    notes.add(Note::new(Section::Refs, text, Rank::Telling).named(output_ref));
}

/// Adds a file, and what was done to it.
pub(super) fn file(notes: &mut Notes, path: &str, rank: Rank, done: Option<&str>) {
    const GENERATED: [&str; 6] =
        ["node_modules/", "target/debug/", "target/release/", ".git/", "site-packages/", "__pycache__"];
    if path.len() > LONGEST_PATH || path == "/dev/null" {
        return;
    }
    let rank = if GENERATED.iter().any(|folder| path.contains(folder)) { Rank::Filler } else { rank };
    let name = clean(path, LONGEST_PATH, 0);
    let known = notes.named(Section::Files, &name).map(|note| note.text.clone());
    let text = match (done, known) {
        (Some("changed"), Some(known)) if known.ends_with("(created)") => known,
        (Some(done), _) => format!("{name} ({done})"),
        (None, Some(known)) => known,
        (None, None) => name.clone(),
    };
    notes.add(Note::new(Section::Files, text, rank).named(&name));
}

/// What a call was given: its short texts by name. Arguments that are no JSON are one text without a name.
struct Arguments(Vec<(String, String)>);

impl Arguments {
    fn of(arguments: &str) -> Self {
        let Ok(fields) = serde_json::from_str::<BTreeMap<String, Value>>(arguments) else {
            return Self(vec![(
                String::new(),
                arguments[..arguments.floor_char_boundary(LONGEST_VALUE)].to_owned(),
            )]);
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let texts = fields.into_iter().flat_map(|(name, value)| match value.as_array() {
            Some(items) => items.iter().map(|item| (name.clone(), text(item))).collect(),
            None => vec![(name, text(&value))],
        });
        Self(texts.filter(|(_, text)| text.len() <= LONGEST_VALUE).collect())
    }

    /// The command line, if it is one.
    fn command(&self, tool: &str) -> Option<String> {
        const NAMES: [&str; 7] =
            ["command", "cmd", "script", "commands", "shell_command", "bash", "command_line"];
        const SHELLS: [&str; 8] = ["bash", "shell", "exec", "run", "terminal", "command", "sh", "execute"];
        const WRAPPERS: [&str; 8] = ["bash", "sh", "zsh", "-c", "-lc", "-l", "/bin/bash", "/bin/sh"];
        let is_one = |name: &str| NAMES.contains(&name) || name.is_empty() && has_part(tool, &SHELLS);
        let words = self.0.iter().filter(|(name, text)| is_one(name) && !WRAPPERS.contains(&text.as_str()));
        let words: Vec<&str> = words.map(|(_, text)| text.as_str()).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// The paths, by the names of their arguments. A message goes to somebody, not to a file.
    fn paths(&self) -> impl Iterator<Item = &(String, String)> {
        const NAMED: [&str; 9] =
            ["path", "file", "filename", "filepath", "dir", "directory", "folder", "source", "destination"];
        let by_name = |name: &str| has_part(name, &NAMED) || matches!(name, "from" | "to" | "src" | "dst");
        let is_path =
            |text: &str| text.len() > 2 && !text.contains(['\n', '@']) && text.contains(['/', '.', '\\']);
        self.0.iter().filter(move |(name, text)| by_name(name) && is_path(text))
    }

    /// All of it on one line.
    fn short(&self) -> String {
        let told = |(name, text): &(String, String)| {
            let text = clean(text, 60, 0);
            if name.is_empty() { text } else { format!("{name}={text}") }
        };
        self.0.iter().take(6).map(told).collect::<Vec<_>>().join(" ")
    }
}

/// The words of a name: `read_file`, `readFile`.
fn has_part(name: &str, words: &[&str]) -> bool {
    let name = &name[..name.floor_char_boundary(100)];
    let starts = |at: &usize| *at == 0 || name.as_bytes()[*at].is_ascii_uppercase();
    let cuts: Vec<usize> = (0..name.len()).filter(|at| name.is_char_boundary(*at)).filter(starts).collect();
    let ends = cuts.iter().copied().skip(1).chain([name.len()]);
    let parts =
        cuts.iter().zip(ends).flat_map(|(start, end)| name[*start..end].split(['_', '-', '.', '/', ' ']));
    parts.into_iter().any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word)))
}

/// Whether a tool shows what is there and changes nothing.
fn is_listing(tool: &str) -> bool {
    const SHOW: [&str; 11] =
        ["read", "cat", "view", "grep", "ls", "glob", "tree", "diff", "rg", "search", "find"];
    const MAY_SHOW: [&str; 6] = ["open", "list", "show", "browse", "get", "fetch"];
    const FILES: [&str; 9] =
        ["file", "files", "dir", "directory", "folder", "code", "repo", "content", "contents"];
    has_part(tool, &SHOW) && !has_part(tool, &["log", "logs"])
        || has_part(tool, &MAY_SHOW) && has_part(tool, &FILES)
}

fn what_is_done(tool: &str) -> Option<&'static str> {
    const DONE: [(&[&str], &str); 4] = [
        (&["delete", "remove", "unlink", "rm"], "deleted"),
        (&["rename", "move", "mv"], "moved"),
        (&["create", "mkdir", "new"], "created"),
        // An existing file may be written too: it is certain only that it changed.
        (
            &["edit", "write", "patch", "replace", "insert", "append", "apply", "update", "modify", "str"],
            "changed",
        ),
    ];
    DONE.iter().find(|(words, _)| has_part(tool, words)).map(|(_, done)| *done)
}

/// Adds the files that a patch names, and tells how many they are.
fn patched(notes: &mut Notes, arguments: &str) -> usize {
    const MARKS: [(&str, &str); 4] = [
        ("*** Update File: ", "changed"),
        ("*** Add File: ", "created"),
        ("*** Delete File: ", "deleted"),
        ("+++ b/", "changed"),
    ];
    let mut files = 0;
    for (mark, done) in MARKS {
        for at in memchr::memmem::find_iter(arguments.as_bytes(), mark).take(MOST_PATHS) {
            let rest = &arguments[at + mark.len()..];
            let rest = &rest[..rest.floor_char_boundary(LONGEST_PATH + 1)];
            // The arguments are JSON: a line ends with an escape.
            let path = rest.split(['\n', '\\', '"']).next().unwrap_or_default().trim();
            files += usize::from(!path.is_empty());
            match done {
                _ if path.is_empty() => {}
                "deleted" => notes.forget(Section::Files, path),
                _ => file(notes, path, Rank::Telling, Some(done)),
            }
        }
    }
    files
}

/// Adds the files that a command names.
fn files_of(notes: &mut Notes, command: &str, is_listing: bool) {
    let head = &command[..command.floor_char_boundary(LONGEST_VALUE)];
    let mut paths = Vec::new();
    tokens(head, |kind, range| {
        if kind == Kind::Path && !head[range.clone()].ends_with('/') && paths.len() < MOST_PATHS {
            paths.push(&head[range]);
        }
    });
    let rank = if is_listing { Rank::Filler } else { Rank::Named };
    paths.iter().for_each(|path| file(notes, path, rank, None));
}

/// Whether a command line only shows files.
fn shows_files(command: &str) -> bool {
    const SHOW: [&str; 16] = [
        "cat", "sed", "head", "less", "more", "grep", "rg", "ls", "find", "tree", "awk", "wc", "bat", "fd",
        "ag", "nl",
    ];
    let mut rest = command;
    // What stands before `&&` is only where it happens.
    while let Some(behind) = rest.trim_start().strip_prefix("cd ").and_then(|rest| rest.split_once("&&")) {
        rest = behind.1;
    }
    let mut words = rest.split_whitespace().skip_while(|word| word.contains('=') || *word == "sudo");
    match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        ("git", second) => matches!(second, "diff" | "show" | "log" | "grep" | "blame"),
        (first, _) => SHOW.contains(&first) && !rest.contains(" -i "),
    }
}
