//! Owns how noise is written: templates are filled in, block after block, until a tool output is long enough.
//!
//! In a template `$n` is a code word, `$j` a noun of the language, `$v` a verb, `$N` a type name, `$1` and `$2` words
//! that stay the same within a block, `$d` `$b` `$a` numbers (large, up to 99, up to 9), `$h` hexadecimal digits, `$t`
//! the time, `$D` the day, `$w` a person, `$m` a log message, `$c` a comment, `$s` a sentence, `$l` a level.

use super::rng::Rng;
use super::shapes::{Shape, shape};
use super::words::{CODE, Lang, VERBS, words};

/// Writes noise in one language.
pub(super) struct Bulk {
    pub(super) rng: Rng,
    pub(super) lang: Lang,
    clock: u64,
    first: &'static str,
    second: &'static str,
}

/// About how many tokens a text has: a quarter for an ASCII character, 0.8 for any other.
pub(super) fn tokens(text: &str) -> usize {
    text.chars().map(|sign| if sign.is_ascii() { 5 } else { 16 }).sum::<usize>() / 20
}

impl Bulk {
    pub(super) fn new(mut rng: Rng, lang: Lang) -> Self {
        let clock = 1_000 + rng.bits() % 70_000;
        Self { rng, lang, clock, first: "record", second: "batch" }
    }

    /// A tool output of the kind with about so many tokens, and the planted lines somewhere in it.
    pub(super) fn output(&mut self, kind: &str, size: usize, planted: &[String]) -> String {
        let Shape { head, blocks, foot, before } = shape(kind, self.lang);
        let mut parts: Vec<String> = head.iter().map(|line| self.fill(line)).collect();
        let mut length: usize = parts.iter().map(|part| tokens(part)).sum();
        let start = parts.len();
        while length < size {
            let block = self.rng.pick(blocks);
            let block = self.block(block);
            length += tokens(&block) + 1;
            parts.push(block);
        }
        let mut at = start;
        for line in planted {
            let room = parts.len().saturating_sub(at);
            at += room / 6 + self.rng.below(room * 2 / 3 + 1);
            let before = self.fill(before);
            parts.insert(at.min(parts.len()), format!("{before}{line}"));
            at += 1;
        }
        parts.extend(foot.iter().map(|line| self.fill(line)));
        parts.join("\n")
    }

    /// A template with new words of its own.
    pub(super) fn block(&mut self, template: &str) -> String {
        self.first = self.rng.pick(CODE);
        self.second = self.rng.pick(CODE);
        self.fill(template)
    }

    /// A template filled in.
    pub(super) fn fill(&mut self, template: &str) -> String {
        let mut text = String::with_capacity(template.len() * 2);
        let mut signs = template.chars();
        while let Some(sign) = signs.next() {
            if sign == '$' {
                let code = signs.next().unwrap_or('$');
                let word = self.word(code);
                text.push_str(&word);
            } else {
                text.push(sign);
            }
        }
        text
    }

    fn word(&mut self, code: char) -> String {
        let words = words(self.lang);
        match code {
            'n' => self.rng.pick(CODE).to_owned(),
            'j' => self.rng.pick(words.nouns).to_owned(),
            'v' => self.rng.pick(VERBS).to_owned(),
            'N' => capital(self.rng.pick(CODE)),
            '1' => self.first.to_owned(),
            '2' => self.second.to_owned(),
            'I' => capital(self.first),
            'd' => self.rng.between(100, 98_000).to_string(),
            'b' => self.rng.between(10, 99).to_string(),
            'a' => self.rng.between(1, 9).to_string(),
            'h' => format!("{:08x}", self.rng.bits() >> 32),
            't' => self.time(),
            'D' => format!("2025-{:02}-{:02}", self.rng.between(1, 12), self.rng.between(1, 28)),
            'w' => self.rng.pick(words.people).to_owned(),
            'l' => self.rng.pick(&["INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"]).to_owned(),
            'm' => self.nested(words.messages),
            'c' => self.nested(words.comments),
            's' => self.nested(words.prose),
            other => other.to_string(),
        }
    }

    fn nested(&mut self, templates: &[&'static str]) -> String {
        let template = self.rng.pick(templates);
        self.fill(template)
    }

    fn time(&mut self) -> String {
        self.clock += self.rng.bits() % 4;
        let (hours, minutes, seconds) = (self.clock / 3600 % 24, self.clock / 60 % 60, self.clock % 60);
        format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", self.rng.below(1000))
    }
}

fn capital(word: &str) -> String {
    let mut signs = word.chars();
    signs.next().map_or_else(String::new, |sign| sign.to_ascii_uppercase().to_string() + signs.as_str())
}
