//! The outputs of tools: the lines of errors, the lines that look like no other, and the result in the last line.

use super::TRIMMED;
use super::calls::{self, OutputSource, RESULT};
use super::keywords::KeywordSet;
use super::line::one_line;
use super::names::first_name;
use super::notes::{Note, Notes, Priority, hash};
use super::section::Section;
use super::sentences::first_line;

/// Characters of a line that are kept, and of a result.
const LONGEST: usize = 240;
const LONGEST_RESULT: usize = 120;
/// Lines of one output that may be kept: errors that look alike, lines that look like no other, and all that are looked at.
const MOST_ALIKE: usize = 4;
const MOST_RARE: usize = 60;
const MOST: usize = 256;
/// Shapes of lines that are counted.
const SHAPES: usize = 1024;

/// Takes the output of a tool; returns its result in a few words, if it has one.
pub(super) fn take(notes: &mut Notes, text: &str, source: &OutputSource) -> Option<String> {
    let text = without_note(text.trim());
    if text.starts_with(TRIMMED) {
        return None;
    }
    let output = OutputLines::read(text);
    output.add_errors(notes, source);
    output.add_rare_lines(notes, source);
    let first_error = output.errors.first().map(|error| one_line(error.line, LONGEST_RESULT, 0));
    let last = output.last;
    let is_result = KeywordSet::of(last).any(KeywordSet::SUCCESS) || KeywordSet::error_at(last).is_some();
    let is_result = is_result && last.len() <= LONGEST_RESULT;
    let result = if is_result { Some(one_line(last, LONGEST_RESULT, 0)) } else { first_error.clone() };
    if let Some(result) = &result {
        calls::add_result(notes, source, result, first_error.is_some());
    }
    result
}

/// Returns an output without our note of what was left out.
fn without_note(text: &str) -> &str {
    match text.rfind("[output cut: ") {
        Some(at) if text.ends_with(']') && (at == 0 || text[..at].ends_with('\n')) => text[..at].trim_end(),
        Some(_) | None => text,
    }
}

/// An output by its lines.
struct OutputLines<'a> {
    errors: Vec<OutputLine<'a>>,
    others: Vec<OutputLine<'a>>,
    /// The last line that is not empty.
    last: &'a str,
    /// How many lines have each shape.
    shapes: [u8; SHAPES],
}

/// A line of an output.
struct OutputLine<'a> {
    line: &'a str,
    shape: usize,
    /// Where it says that something went wrong.
    error_at: usize,
}

impl<'a> OutputLines<'a> {
    fn read(text: &'a str) -> Self {
        let mut output = Self { errors: Vec::new(), others: Vec::new(), last: "", shapes: [0; SHAPES] };
        let mut error_goes_on = false;
        let mut rest = text;
        while !rest.is_empty() {
            let line;
            (line, rest) = first_line(rest);
            if line.len() < 4 {
                continue;
            }
            let shape = shape(line);
            output.shapes[shape] = output.shapes[shape].saturating_add(1);
            output.last = line;
            let error_at = KeywordSet::error_at(line).or(error_goes_on.then_some(0));
            // A panic of Rust says what went wrong in the next line, and so do many test runners.
            error_goes_on = !error_goes_on && error_at.is_some() && line.trim_end().ends_with([':', '❯']);
            let (is_error, error_at) = (error_at.is_some(), error_at.unwrap_or(0));
            let list = if is_error { &mut output.errors } else { &mut output.others };
            if list.len() < MOST && (is_error || output.shapes[shape] == 1) {
                list.push(OutputLine { line, shape, error_at });
            }
        }
        output
    }

    fn is_rare(&self, line: &OutputLine<'_>) -> bool {
        self.shapes[line.shape] == 1
    }

    /// Adds the errors: the first one with the command, those that look like no other, and a few that look like many. What a
    /// listing shows is somebody else's text.
    fn add_errors(&self, notes: &mut Notes, source: &OutputSource) {
        let mut alike = 0;
        for (at, error) in self.errors.iter().enumerate() {
            let is_rare = self.is_rare(error);
            alike += usize::from(!is_rare);
            if !is_rare && alike > MOST_ALIKE {
                continue;
            }
            let text = one_line(error.line, LONGEST, error.error_at);
            let is_first = at == 0 && !source.label.is_empty();
            notes.add(if source.is_listing {
                Note::new(Section::Facts, text, Priority::Low)
            } else if is_first {
                let text = format!("{}{RESULT}{text}", source.label);
                Note::new(Section::Errors, text, Priority::Critical).of_command(&source.label)
            } else {
                let is_telling = is_rare && at < MOST_ALIKE;
                Note::new(Section::Errors, text, if is_telling { Priority::High } else { Priority::Low })
            });
        }
    }

    /// Adds the lines that look like no other. Of a listing only those with a name say something.
    fn add_rare_lines(&self, notes: &mut Notes, source: &OutputSource) {
        let rare = self.others.iter().filter(|line| self.is_rare(line));
        let named = rare.map(|line| (line.line, first_name(line.line)));
        for (line, name) in named.filter(|(_, name)| name.is_some() || !source.is_listing).take(MOST_RARE) {
            let text = one_line(line, LONGEST, name.unwrap_or(0));
            notes.add(Note::new(Section::Facts, text, Priority::Low));
        }
    }
}

/// Takes a line of an earlier summary about an error.
pub(super) fn recall(notes: &mut Notes, line: &str) {
    let (command, priority) = match line.split_once(RESULT) {
        Some((label, _)) => (label, Priority::Critical),
        None => ("", Priority::Medium),
    };
    notes.add(Note::new(Section::Errors, line.to_owned(), priority).of_command(command));
}

/// Returns the shape of a line as a small number: letters and digits are all the same, and so are runs of them.
fn shape(line: &str) -> usize {
    let mut classes: Vec<u8> = line.bytes().take(LONGEST).collect();
    for byte in &mut classes {
        *byte = match *byte {
            b'0'..=b'9' => b'0',
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => b'a',
            other => other,
        };
    }
    classes.dedup();
    hash(&classes) as usize % SHAPES
}
