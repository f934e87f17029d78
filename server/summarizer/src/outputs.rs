//! What tools put out: the lines that tell of errors, settings, the lines that look like no other and name something, and
//! the result in the last line. Listings of files are somebody else's text, and count little.

use std::ops::Range;

use super::TRIMMED;
use super::calls::{self, RESULT, Source, file};
use super::line::clean;
use super::notes::{Note, Notes, Rank, hash};
use super::said::Marks;
use super::scan::{Kind, tokens};
use super::section::Section;
use super::split::line_of;
use super::wrong::{error_at, is_code, is_error, is_success};

/// Characters of a line that are kept, and of a result.
const LONGEST: usize = 240;
const LONGEST_RESULT: usize = 120;
/// An output of so few bytes is told whole.
const SHORT: usize = 320;
/// Lines of one output that are told.
const MOST_ALIKE: usize = 4;
const MOST_FACTS: usize = 6;
const MOST_FILLERS: usize = 60;
const MOST_KEPT: usize = 256;
const MOST_FILES: usize = 32;

/// Takes the output of a tool; returns its result in a few words, if it tells one.
pub(super) fn take(notes: &mut Notes, text: &str, source: &Source) -> Option<String> {
    let text = without_note(text.trim());
    if text.starts_with(TRIMMED) {
        return None;
    }
    if source.command != 0 && !source.is_listing {
        notes.ran(source.command);
    }
    let mut outputs = Outputs::default();
    let (mut rest, mut last) = (text, "");
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let line;
        (line, rest) = line_of(rest);
        outputs.line(notes, line, at, source);
        if !line.trim().is_empty() {
            last = line;
        }
    }
    let first_error =
        outputs.errors.first().map(|(place, ..)| clean(&text[place.clone()], LONGEST_RESULT, 0));
    if first_error.is_none() && text.len() <= SHORT && !source.is_listing {
        if Marks::of(text).is_named() {
            fact(notes, text, 0, source, Rank::Named);
        }
    } else {
        outputs.tell_kept(notes, text, source);
    }
    let tells = last.len() <= LONGEST_RESULT && (is_success(last) || is_error(last));
    let result = if tells { Some(clean(last, LONGEST_RESULT, 0)) } else { first_error.clone() };
    if let Some(result) = &result {
        calls::result(notes, source, result, first_error.is_some());
    } else if text.len() > SHORT && !source.is_listing && Marks::of(last).is_named() {
        fact(notes, last, 0, source, Rank::Filler);
    }
    result
}

/// Takes lines that stand between fences in a message.
pub(super) fn pasted(notes: &mut Notes, text: &str, lines: &[&str], by_user: bool) {
    let (mut outputs, source) = (Outputs::default(), Source::pasted(by_user));
    for line in lines {
        let start = line.as_ptr().addr() - text.as_ptr().addr();
        outputs.line(notes, line, start, &source);
    }
    outputs.tell_kept(notes, text, &source);
}

/// Without our note of what was left out.
fn without_note(text: &str) -> &str {
    match text.rfind("[output cut: ") {
        Some(at) if text.ends_with(']') && (at == 0 || text[..at].ends_with('\n')) => text[..at].trim_end(),
        Some(_) | None => text,
    }
}

/// What is known of an output while it is read.
#[derive(Debug, Default)]
struct Outputs {
    /// Lines that tell of errors: where they are, their shapes, and where in them it is told.
    errors: Vec<(Range<usize>, usize, usize)>,
    files: usize,
    settings: usize,
    /// The last line said only that something went wrong; what it was comes next.
    error_goes_on: bool,
    /// How many lines looked like this, by a hash of their shape.
    shapes: Shapes,
    /// Lines with a name in them that may turn out to be like no other, and their shapes.
    kept: Vec<(Range<usize>, usize)>,
}

impl Outputs {
    /// Takes one line, which begins at a byte of the output.
    fn line(&mut self, notes: &mut Notes, line: &str, at: usize, source: &Source) {
        if line.len() < 4 {
            return;
        }
        let shape = self.shapes.count(line);
        let goes_on = std::mem::take(&mut self.error_goes_on);
        if let Some(wrong) = error_at(line).or(goes_on.then_some(0)) {
            // A panic of Rust says what went wrong in the next line, and so do many test runners.
            self.error_goes_on = line.trim_end().ends_with(':') || line.contains('❯');
            if self.errors.len() < MOST_KEPT && !is_code(line) {
                self.errors.push((at..at + line.len(), shape, wrong));
            }
            self.files(notes, line);
        } else if line.len() <= LONGEST && setting(line.trim()).is_some() {
            self.settings += 1;
            if self.settings <= MOST_FILLERS {
                fact(notes, line, 0, source, if source.is_listing { Rank::Filler } else { Rank::Named });
            }
        } else {
            let named = name_at(line).is_some();
            let paths = line.contains('/') && (source.is_listing || !self.errors.is_empty());
            if paths {
                self.files(notes, line);
            }
            if (named || !source.is_listing) && self.shapes.is_rare(shape) && self.kept.len() < MOST_KEPT {
                self.kept.push((at..at + line.len(), shape));
            }
        }
    }

    /// Tells the lines that nothing else looks like.
    fn tell_kept(&mut self, notes: &mut Notes, text: &str, source: &Source) {
        self.tell_errors(notes, text, source);
        let kept = std::mem::take(&mut self.kept);
        let alone = kept.into_iter().filter(|(_, shape)| self.shapes.is_rare(*shape));
        let (mut facts, mut fillers) = (0, 0);
        for (place, _) in alone {
            let line = &text[place];
            let name = name_at(line);
            let is_fact = name.is_some() && !source.is_listing && facts < MOST_FACTS;
            facts += usize::from(is_fact);
            fillers += usize::from(!is_fact);
            if is_fact || fillers <= MOST_FILLERS {
                fact(
                    notes,
                    line,
                    name.unwrap_or(0),
                    source,
                    if is_fact { Rank::Named } else { Rank::Filler },
                );
            }
        }
    }

    /// Adds the errors: the first one with the command, those that look like no other, and a few that look like many.
    fn tell_errors(&mut self, notes: &mut Notes, text: &str, source: &Source) {
        let is_ours = !source.is_listing || source.label.contains("log");
        let mut alike = 0;
        for (at, (place, shape, wrong)) in std::mem::take(&mut self.errors).into_iter().enumerate() {
            let (line, is_rare) = (&text[place], self.shapes.is_rare(shape));
            alike += usize::from(!is_rare);
            let text = clean(line, LONGEST, wrong);
            let rank = match (is_ours, at, is_rare) {
                (false, ..) => Rank::Filler,
                (true, 0, _) if !source.label.is_empty() => Rank::Firm,
                (true, at, true) if at < MOST_ALIKE => Rank::Telling,
                (true, ..) => Rank::Filler,
            };
            if !is_rare && alike > MOST_ALIKE {
                continue;
            }
            if !is_ours {
                fact(notes, line, wrong, source, rank);
                continue;
            }
            let text = if at > 0 || source.label.is_empty() {
                text
            } else {
                format!("{}{RESULT}{text}", source.label)
            };
            notes.add(Note::new(Section::Errors, text, rank).of_command(source.command));
        }
    }

    fn files(&mut self, notes: &mut Notes, line: &str) {
        tokens(line, |kind, range| {
            // A bare name in a listing says nothing.
            if kind == Kind::Path && self.files < MOST_FILES && line[range.clone()].contains('/') {
                self.files += 1;
                file(notes, &line[range], Rank::Filler, None);
            }
        });
    }
}

/// Takes a line of an earlier summary that tells of an error.
pub(super) fn recall(notes: &mut Notes, line: &str) {
    let (command, rank) = match line.split_once(RESULT) {
        Some((label, _)) => (hash(&label.to_owned()), Rank::Firm),
        None => (0, Rank::Named),
    };
    notes.add(Note::new(Section::Errors, line.to_owned(), rank).of_command(command));
}

/// Where a line has an id or an address.
fn name_at(line: &str) -> Option<usize> {
    let mut first = None;
    tokens(line, |kind, range| {
        let token = &line[range.clone()];
        let is_name = match kind {
            // A time or a version is none.
            Kind::Id => {
                let letters = token.bytes().filter(u8::is_ascii_alphabetic).count();
                letters >= 2 || token.len() >= 8 && !token.contains([':', '.'])
            }
            Kind::Url => true,
            Kind::Word | Kind::Run | Kind::Number | Kind::Name | Kind::Path => false,
        };
        if is_name {
            first.get_or_insert(range.start);
        }
    });
    first
}

/// Adds a line that says something.
fn fact(notes: &mut Notes, line: &str, focus: usize, source: &Source, rank: Rank) {
    let text = clean(line, LONGEST, focus);
    if let Some(name) = setting(&text) {
        let name = format!("{name}=");
        notes.add(Note::new(Section::Facts, text, rank).named(&name));
        return;
    }
    let text = if source.label.is_empty() { text } else { format!("{}{RESULT}{text}", source.label) };
    notes.add(Note::new(Section::Facts, text, rank));
}

/// Returns the name in `name=value` and `name: value`, if it looks like that of a setting.
pub(super) fn setting(line: &str) -> Option<&str> {
    let at = line.find(['=', ':'])?;
    let name = line[..at].trim_start_matches("export ").trim().trim_matches('"');
    let value = line[at + 1..].trim().trim_end_matches([',', ';', '.']);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    // A colon follows many words; a name that is none of a sentence has a mark in it.
    let telling = line.as_bytes()[at] == b'=' || name.contains(['_', '.', '-']);
    let is_name = telling && (2..=60).contains(&name.len()) && name.bytes().all(plain);
    let is_value = !value.is_empty() && !value.contains(' ') && !value.starts_with('=');
    (is_name && is_value).then_some(name)
}

/// How often shapes were seen, roughly: letters and digits are all the same, and so are runs of them.
#[derive(Debug)]
struct Shapes(Box<[u8; 1024]>);

impl Default for Shapes {
    fn default() -> Self {
        Self(Box::new([0; 1024]))
    }
}

impl Shapes {
    /// Counts the shape of a line, and tells its place.
    fn count(&mut self, line: &str) -> usize {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut last = 0;
        for &byte in line.as_bytes().iter().take(LONGEST) {
            let class = match byte {
                b'0'..=b'9' => b'0',
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => b'a',
                other => other,
            };
            if class != last {
                hash = (hash ^ u64::from(class)).wrapping_mul(0x0100_0000_01b3);
                last = class;
            }
        }
        let place = (hash >> 32) as usize % self.0.len();
        self.0[place] = self.0[place].saturating_add(1);
        place
    }

    fn is_rare(&self, place: usize) -> bool {
        self.0[place] <= 1
    }
}
