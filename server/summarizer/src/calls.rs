//! Tool calls: the commands that are run, and the files that are read and changed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Call;
use super::line::one_line;
use super::notes::{Note, Notes, Priority};
use super::section::Section;

/// Longer values are content, not names.
const LONGEST_VALUE: usize = 4096;
/// Characters of a command or a call, of what an output is labelled with, of the result there, and of a path.
const LONGEST_CALL: usize = 160;
const LONGEST_LABEL: usize = 80;
const LONGEST_RESULT: usize = 60;
const LONGEST_PATH: usize = 240;
/// Files of one call.
const MOST_PATHS: usize = 64;

/// Between a command and its result.
pub(super) const RESULT: &str = " → ";

/// The call that an output is of.
#[derive(Debug, Clone, Default)]
pub(super) struct OutputSource {
    /// The command, or the tool and its subject.
    pub(super) label: String,
    /// It shows what is in files: errors in it are not ours.
    pub(super) is_listing: bool,
    /// The note of the call, which its result is added to.
    call: Option<String>,
}

impl OutputSource {
    /// Returns the source of an output whose call is not known.
    pub(super) fn unknown(tool: &str) -> Self {
        Self { label: one_line(tool, LONGEST_LABEL, 0), is_listing: is_listing(tool), call: None }
    }
}

/// Takes a call; returns the source of its output.
pub(super) fn take(notes: &mut Notes, call: &Call<'_>) -> OutputSource {
    let arguments = arguments(call.arguments);
    let command = command(&arguments, call.name);
    let files = if command.is_none() { add_files(notes, call, &arguments) } else { Vec::new() };
    let is_listing = command.as_deref().map_or_else(|| is_listing(call.name), shows_files);
    let about = files.into_iter().next_back();
    let has_files = about.is_some();
    let label = command.unwrap_or_else(|| {
        let all = || arguments.iter().map(|(name, text)| format!("{name}={}", one_line(text, 60, 0)));
        format!("{} {}", call.name, about.unwrap_or_else(|| all().collect::<Vec<_>>().join(" ")))
    });
    let text = one_line(&label, LONGEST_CALL, 0);
    let call = (!is_listing && !has_files).then_some(text);
    if let Some(text) = &call {
        notes.add(Note::new(Section::Commands, text.clone(), Priority::Low).named(text));
    }
    OutputSource { label: one_line(&label, LONGEST_LABEL, 0), is_listing, call }
}

/// Adds the result of a call behind it.
pub(super) fn add_result(notes: &mut Notes, source: &OutputSource, result: &str, is_error: bool) {
    if let Some(call) = &source.call {
        let priority = if is_error { Priority::High } else { Priority::Medium };
        notes.add(Note::new(Section::Commands, format!("{call}{RESULT}{result}"), priority).named(call));
    }
}

/// Adds the line of a stored output: its source, its result, and its ref.
pub(super) fn add_ref(notes: &mut Notes, output_ref: &str, source: &OutputSource, result: Option<&str>) {
    let result = result.map(|result| one_line(result, LONGEST_RESULT, 0)).unwrap_or_default();
    let parts = [source.label.as_str(), &result].into_iter().filter(|part| !part.is_empty());
    let label = parts.collect::<Vec<_>>().join(", ");
    let text = if label.is_empty() { output_ref.to_owned() } else { format!("{label}: {output_ref}") };
    notes.add(Note::new(Section::Refs, text, Priority::High).named(output_ref));
}

/// Adds a file, and what was done to it. A file that is only read keeps what is known of it.
pub(super) fn add_file(notes: &mut Notes, path: &str, priority: Priority, done: &str) {
    let name = one_line(path, LONGEST_PATH, 0);
    if done.is_empty() && notes.has(Section::Files, &name) {
        return;
    }
    let text = if done.is_empty() { name.clone() } else { format!("{name} ({done})") };
    notes.add(Note::new(Section::Files, text, priority).named(&name));
}

/// Returns the short arguments of a call by name, each item of a list by itself. What is no JSON is one text without a name.
fn arguments(arguments: &str) -> Vec<(String, String)> {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, Value>>(arguments) else {
        return vec![(String::new(), arguments[..arguments.floor_char_boundary(LONGEST_VALUE)].to_owned())];
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut texts = Vec::new();
    for (name, value) in fields {
        match value.as_array() {
            Some(items) => texts.extend(items.iter().map(|item| (name.clone(), text(item)))),
            None => texts.push((name, text(&value))),
        }
    }
    texts.retain(|(_, text)| text.len() <= LONGEST_VALUE);
    texts
}

/// Returns the command line of a call, if it has one.
fn command(arguments: &[(String, String)], tool: &str) -> Option<String> {
    const NAMES: &str = "command cmd script commands shell_command bash command_line";
    const SHELLS: &str = "bash shell exec run terminal command sh execute";
    const WRAPPERS: &str = "bash sh zsh -c -lc -l /bin/bash /bin/sh";
    let is_command = |name: &str| is_in(NAMES, name) || name.is_empty() && has_word(tool, SHELLS);
    let words = arguments.iter().filter(|(name, text)| is_command(name) && !is_in(WRAPPERS, text));
    let words: Vec<&str> = words.map(|(_, text)| text.as_str()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Adds the files of a call, and returns them: those among its arguments, and those that a patch names.
fn add_files(notes: &mut Notes, call: &Call<'_>, arguments: &[(String, String)]) -> Vec<String> {
    const PATHS: &str = "path file filename filepath dir directory folder source destination from to src dst";
    const PATCHES: [(&str, &str); 4] = [
        ("*** Update File: ", "changed"),
        ("*** Add File: ", "created"),
        ("*** Delete File: ", "deleted"),
        ("+++ b/", "changed"),
    ];
    let done = done_by(call.name);
    // A message goes to somebody, not to a file.
    let is_path =
        |text: &str| text.len() > 2 && !text.contains(['\n', '@']) && text.contains(['/', '.', '\\']);
    let paths = arguments.iter().filter(|(name, text)| has_word(name, PATHS) && is_path(text));
    let mut files: Vec<(String, &str)> = paths.map(|(_, path)| (path.clone(), done)).collect();
    for (mark, done) in PATCHES {
        for (at, _) in call.arguments.match_indices(mark).take(MOST_PATHS) {
            // The arguments are JSON: a line ends with an escape.
            let path = call.arguments[at + mark.len()..].split(['\n', '\\', '"']).next().unwrap_or_default();
            files.push((path.trim().to_owned(), done));
        }
    }
    files.retain(|(path, _)| !path.is_empty() && path.len() <= LONGEST_PATH);
    for (path, done) in files.iter().take(MOST_PATHS) {
        let priority = if done.is_empty() { Priority::Low } else { Priority::High };
        add_file(notes, path, priority, done);
    }
    files.into_iter().map(|(path, _)| path).collect()
}

/// Returns what a tool does to files; empty: nothing.
fn done_by(tool: &str) -> &'static str {
    const DONE: [(&str, &str); 4] = [
        ("delete remove unlink rm", "deleted"),
        ("rename move mv", "moved"),
        ("create mkdir new", "created"),
        // An existing file may be written too: it is certain only that it changed.
        ("edit write patch replace insert append apply update modify str", "changed"),
    ];
    DONE.into_iter().find(|(words, _)| has_word(tool, words)).map_or("", |(_, done)| done)
}

/// Returns whether a tool shows what is there and changes nothing.
fn is_listing(tool: &str) -> bool {
    const SHOWS: &str = "read cat view grep ls glob tree diff rg search find";
    const MAY_SHOW: &str = "open list show browse get fetch";
    const FILES: &str = "file files dir directory folder code repo content contents";
    let shows_files = has_word(tool, MAY_SHOW) && has_word(tool, FILES);
    (has_word(tool, SHOWS) || shows_files) && !has_word(tool, "log logs")
}

/// Returns whether a command line only shows files.
fn shows_files(command: &str) -> bool {
    const SHOWS: &str = "cat sed head less more grep rg ls find tree awk wc bat fd ag nl";
    let mut rest = command;
    // What stands before `&&` is only where it happens.
    while let Some((_, behind)) = rest.trim_start().strip_prefix("cd ").and_then(|rest| rest.split_once("&&"))
    {
        rest = behind;
    }
    let mut words = rest.split_whitespace().skip_while(|word| word.contains('=') || *word == "sudo");
    match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        ("git", second) => is_in("diff show log grep blame", second),
        (first, _) => is_in(SHOWS, first) && !rest.contains(" -i "),
    }
}

/// Returns whether a name like `read_file` or `readFile` has one of these words.
fn has_word(name: &str, list: &str) -> bool {
    let mut words = String::new();
    for c in name.chars().take(100) {
        if c.is_ascii_uppercase() || !c.is_alphanumeric() {
            words.push(' ');
        }
        words.extend(c.is_alphanumeric().then(|| c.to_ascii_lowercase()));
    }
    words.split_whitespace().any(|word| is_in(list, word))
}

fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}
