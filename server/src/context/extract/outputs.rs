//! What tools put out: the lines that tell of errors, and those with names in them that nothing else in the output looks
//! like. Listings of files are somebody else's text, and count little.

use std::cmp::Reverse;
use std::ops::Range;

use super::TRIMMED;
use super::calls::{self, RESULT};
use super::item::Item;
use super::line::clean;
use super::pool::Pool;
use super::prose::file;
use super::scan::{Kind, tokens};
use super::sections::Section;
use super::split::line_of;
use super::statement::{Statement, hash, long_hash};
use super::wrong::{error_at, is_code, is_error, is_success};

/// Where an output comes from.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    /// The tool.
    pub(super) tool: String,
    /// The same for the same call.
    pub(super) call: u64,
    /// It shows what is in files: errors in it are not ours.
    pub(super) listing: bool,
}

impl Source {
    /// Lines between fences in a message.
    pub(super) fn pasted(by_user: bool) -> Self {
        Self { listing: !by_user, ..Self::default() }
    }
}

/// Characters of a line that are kept.
const LONGEST: usize = 240;
/// An output of so few bytes is told whole.
const SHORT: usize = 320;
/// An output of so few is told by lines.
const MEDIUM: usize = 2000;
/// Bytes of a line that is the result of a command.
const LONGEST_RESULT: usize = 120;
/// Lines of one output that are told, by kind.
const MOST_ERRORS: u32 = 96;
const MOST_FACTS: usize = 4;
/// With those that are told only if there is room.
const MOST_KEPT_FACTS: usize = 120;
const MOST_OF_LISTING: usize = 48;
pub(super) const WEIGHT_OF_MORE: u32 = 62;
const MOST_KEPT: usize = 192;
/// What the last line weighs, if it has so many words.
const WEIGHT_OF_LAST: u32 = 90;
const LEAST_OF_LAST: usize = 2;
const MOST_FILES: u32 = 32;

/// Takes the output of a tool.
pub(super) fn take(pool: &mut Pool, text: &str, source: &Source) {
    let text = without_note(text.trim());
    if text.starts_with(TRIMMED) {
        return;
    }
    // Compilers and linters say nothing if all is well.
    if text.is_empty() || text == "(no output)" {
        pool.succeeded(source.call);
        return;
    }
    if source.listing {
        pool.shows_again(source.call);
    }
    let mut outputs = Outputs { bytes: text.len(), ..Outputs::default() };
    if text.len() <= SHORT && !source.listing && !is_error(text) {
        outputs.whole(pool, text, source);
        return;
    }
    let mut rest = text;
    let mut last = "";
    while !rest.is_empty() {
        let line;
        let at = text.len() - rest.len();
        (line, rest) = line_of(rest);
        outputs.line(pool, line, at, source);
        if !line.trim().is_empty() {
            last = line;
        }
    }
    if outputs.errors == 0 && source.call != 0 && is_success(last) {
        pool.succeeded(source.call);
    }
    outputs.tell_kept(pool, text, source);
    // The last line is often the result of it all.
    let tells = Statement::of(last);
    if tells.weight() >= LEAST_OF_LAST && !is_error(last) && !is_code(last) {
        let named = 30 * tells.names.min(2) + 10 * tells.numbers.min(2);
        let weight = if source.listing { WEIGHT_OF_MORE } else { WEIGHT_OF_LAST + named };
        fact(pool, last, 0, source, weight);
    }
    if !source.listing && last.len() <= LONGEST_RESULT && tells.numbers > 0 {
        calls::result(pool, source, &clean(last, LONGEST_RESULT, 0));
    }
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
pub(super) struct Outputs {
    bytes: usize,
    errors: u32,
    files: u32,
    /// Lines in which the place of the last error may be told.
    near_error: u32,
    /// The last line said only where something went wrong; what it was comes next.
    error_goes_on: bool,
    /// How many lines looked like this, by a hash of their shape.
    shapes: Shapes,
    /// How often words were there, by a hash.
    words: Words,
    /// Lines with a name in them that may turn out to be like no other.
    kept: Vec<Kept>,
}

/// A line of an output.
#[derive(Debug)]
struct Kept {
    place: Range<usize>,
    /// Where its shape is counted.
    shape: usize,
    /// How many of its words were new.
    new: usize,
    /// There is an id or an address in it.
    named: bool,
}

impl Outputs {
    /// A short output.
    fn whole(&mut self, pool: &mut Pool, text: &str, source: &Source) {
        let statement = Statement::of(text);
        if is_success(text) && source.call != 0 {
            pool.succeeded(source.call);
        }
        let (names, numbers) = (statement.names.min(3), statement.numbers.min(2));
        if statement.weight() < 2 || names + numbers == 0 {
            return;
        }
        self.files(pool, text, 120);
        fact(pool, text, 0, source, 130 + 40 * names + 20 * numbers);
    }

    /// One line, which begins at a byte of the output.
    pub(super) fn line(&mut self, pool: &mut Pool, line: &str, at: usize, source: &Source) {
        if line.len() < 4 {
            return;
        }
        let (shape, seen) = self.shapes.count(line);
        let goes_on = std::mem::take(&mut self.error_goes_on);
        if let Some(wrong) = error_at(line).or(goes_on.then_some(0)) {
            self.words.count(line, pool);
            self.error(pool, line, wrong, seen, source);
            return;
        }
        if self.near_error > 0 {
            self.near_error -= 1;
            self.files(pool, line, if source.listing { 60 } else { 200 });
        }
        if line.len() <= LONGEST && setting(line.trim()).is_some() {
            fact(pool, line, 0, source, if source.listing { 75 } else { 160 });
            return;
        }
        if source.listing && self.files < MOST_FILES && line.contains('/') {
            self.files(pool, line, 60);
        }
        let (new, named) = self.words.count(line, pool);
        if new == 0 && (seen > 1 || !named) {
            return;
        }
        if self.kept.len() >= MOST_KEPT {
            let least = self.kept.iter().enumerate().min_by_key(|(_, kept)| (kept.named, kept.new));
            match least {
                Some((place, kept)) if (kept.named, kept.new) < (named, new) => self.kept.swap_remove(place),
                _ => return,
            };
        }
        self.kept.push(Kept { place: at..at + line.len(), shape, new, named });
    }

    /// The lines that nothing else looks like.
    pub(super) fn tell_kept(&mut self, pool: &mut Pool, text: &str, source: &Source) {
        let weight = if self.bytes <= MEDIUM { 120 } else { 85 };
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_by_key(|kept| {
            let once = self.words.once(&text[kept.place.clone()]);
            (Reverse((kept.named, once + usize::from(self.shapes.0[kept.shape] == 1))), kept.place.start)
        });
        kept.truncate(if source.listing { MOST_OF_LISTING } else { MOST_KEPT_FACTS });
        kept.retain(|kept| self.shapes.0[kept.shape] == 1 || self.words.once(&text[kept.place.clone()]) >= 2);
        let best = kept.iter().take(MOST_FACTS).filter(|kept| kept.named && !source.listing);
        let best: Vec<usize> = best.map(|kept| kept.place.start).collect();
        kept.sort_by_key(|kept| kept.place.start);
        for kept in kept {
            let weight = if best.contains(&kept.place.start) { weight } else { WEIGHT_OF_MORE };
            let line = &text[kept.place];
            fact(pool, line, name_at(line).unwrap_or(0), source, weight);
        }
    }

    fn error(&mut self, pool: &mut Pool, line: &str, at: usize, seen: u32, source: &Source) {
        if self.errors >= MOST_ERRORS || is_code(line) {
            return;
        }
        self.errors += 1;
        self.near_error = 3;
        // A panic of Rust says what went wrong in the next line, and so do many test runners.
        self.error_goes_on = line.trim_end().ends_with(':') || line.contains('❯');
        let statement = Statement::of(line);
        let weight = if source.listing { 90 } else { 330 };
        let weight: u32 = weight + 35 * statement.names.min(3) + 15 * statement.numbers.min(2);
        self.files(pool, line, if source.listing { 60 } else { 200 });
        let weight = weight.saturating_sub(25 * seen.min(8));
        if source.listing && !source.tool.contains("log") {
            // They are not of what was run; in logs they are.
            fact(pool, line, at, source, weight);
            return;
        }
        pool.add(error(clean(line, LONGEST, at), weight, statement).from(source.call).of_output(0));
    }

    fn files(&mut self, pool: &mut Pool, line: &str, weight: u32) {
        tokens(line, |kind, range| {
            // A bare name in a listing says nothing.
            if kind == Kind::Path && self.files < MOST_FILES && line[range.clone()].contains('/') {
                self.files += 1;
                file(pool, &line[range], weight, None);
            }
        });
    }
}

/// Where a line has an id or an address.
fn name_at(line: &str) -> Option<usize> {
    let mut first = None;
    tokens(line, |kind, range| {
        if is_name(kind, &line[range.clone()]) {
            first.get_or_insert(range.start);
        }
    });
    first
}

/// Whether a token is an id or an address, and not a time or a version.
fn is_name(kind: Kind, token: &str) -> bool {
    match kind {
        Kind::Id => {
            let letters = token.bytes().filter(u8::is_ascii_alphabetic).count();
            letters >= 2 || token.len() >= 8 && !token.contains([':', '.'])
        }
        Kind::Url => true,
        Kind::Word | Kind::Run | Kind::Number | Kind::Name | Kind::Path | Kind::Quoted => false,
    }
}

/// A line that tells of an error. One with a name in it is the same error whatever the numbers are.
pub(super) fn error(text: String, weight: u32, statement: Statement) -> Item {
    let mut name = String::new();
    if statement.names > 0 {
        tokens(&text, |kind, range| {
            if kind != Kind::Number {
                name.push_str(&text[range]);
            }
        });
    }
    let item = Item::new(Section::Errors, text, weight).showing(statement);
    if name.is_empty() { item } else { item.named(&name) }
}

/// A line that says something of a name.
fn fact(pool: &mut Pool, line: &str, focus: usize, source: &Source, weight: u32) {
    let text = clean(line, LONGEST, focus);
    let name = setting(&text).map(|name| format!("{name}="));
    let told = if name.is_some() || source.tool.is_empty() {
        text
    } else {
        format!("{}{RESULT}{text}", source.tool)
    };
    let statement = Statement::of(&told);
    let item = Item::new(Section::Facts, told, weight).showing(statement).of_output(source.call);
    pool.add(match name {
        Some(name) => item.named(&name),
        None => item,
    });
}

/// The name in `name=value` and `name: value`, if it looks like that of a setting.
fn setting(line: &str) -> Option<&str> {
    let at = line.find(['=', ':'])?;
    let name = line[..at].trim_start_matches("export ").trim().trim_matches('"');
    let value = line[at + 1..].trim().trim_end_matches([',', ';']);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let telling = name.contains(['_', '.', '-']) && (5..=60).contains(&name.len()) && name.bytes().all(plain);
    (telling && !value.is_empty() && !value.contains(' ')).then_some(name)
}

/// How often shapes were seen, roughly: letters and digits are all the same, and so are runs of them.
#[derive(Debug)]
struct Shapes([u8; 512]);

impl Default for Shapes {
    fn default() -> Self {
        Self([0; 512])
    }
}

impl Shapes {
    /// Where it is counted, and how many there are.
    fn count(&mut self, line: &str) -> (usize, u32) {
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
        (place, u32::from(self.0[place]))
    }
}

/// How often words were there, roughly.
#[derive(Debug)]
struct Words(Box<[u8; 4096]>);

impl Default for Words {
    fn default() -> Self {
        Self(Box::new([0; 4096]))
    }
}

impl Words {
    /// Counts the words of a line, and tells how many of them are new and whether there is a name among them.
    fn count(&mut self, line: &str, pool: &mut Pool) -> (usize, bool) {
        let (mut new, mut named) = (0, false);
        tokens(line, |kind, range| {
            named |= is_name(kind, &line[range.clone()]);
            pool.shown.count(kind, &line[range.clone()]);
            if let Some(place) = Self::place(kind, &line[range]) {
                new += usize::from(self.0[place] == 0);
                self.0[place] = self.0[place].saturating_add(1);
            }
        });
        (new, named)
    }

    /// How many words of a line are in no other.
    fn once(&self, line: &str) -> usize {
        let mut once = 0;
        tokens(line, |kind, range| {
            let is_once = Self::place(kind, &line[range]).is_some_and(|place| self.0[place] == 1);
            once += usize::from(is_once);
        });
        once
    }

    fn place(kind: Kind, word: &str) -> Option<usize> {
        matches!(kind, Kind::Word | Kind::Run | Kind::Name).then(|| hash(word) as usize % 4096)
    }
}

/// The same for the same call.
pub(super) fn call_hash(name: &str, arguments: &str) -> u64 {
    long_hash(name) ^ long_hash(arguments).rotate_left(1) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_known_by_their_names() {
        assert_eq!(setting("MAX_RETRIES=5"), Some("MAX_RETRIES"));
        assert_eq!(setting("db.port: 5432,"), Some("db.port"));
        assert_eq!(setting("id: 5"), None);
        assert_eq!(setting("this_is: a sentence of words"), None);
    }
}
