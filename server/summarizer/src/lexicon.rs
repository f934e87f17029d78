//! Tables of words that show something about a text, for English and Japanese alike, searched in one pass.

use aho_corasick::AhoCorasick;

/// Words, and what each shows, as bits.
pub(super) struct Lexicon {
    automaton: AhoCorasick,
    entries: Vec<Entry>,
}

struct Entry {
    shows: u32,
    /// The word may go on.
    open_end: bool,
    /// Only the beginning of a text shows it.
    at_start: bool,
}

impl Lexicon {
    /// Lists of words by comma; `^`: only at the beginning, `*`: the word may go on, `+`: a comma.
    pub(super) fn new(lists: impl IntoIterator<Item = (u32, &'static str)>) -> Self {
        let mut words = Vec::new();
        let mut entries = Vec::new();
        for (shows, list) in lists {
            for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let at_start = word.starts_with('^');
                let open_end = word.ends_with('*');
                words.push(word.trim_start_matches('^').trim_end_matches('*').replace('+', ","));
                entries.push(Entry { shows, open_end, at_start });
            }
        }
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&words);
        #[expect(clippy::expect_used, reason = "the tables are constants, and tests build them")]
        Self { automaton: automaton.expect("a table of a few hundred words"), entries }
    }

    /// All that the words of a text show.
    pub(super) fn of(&self, text: &str) -> u32 {
        let mut shown = 0;
        for hit in self.automaton.find_overlapping_iter(text) {
            let entry = &self.entries[hit.pattern().as_usize()];
            let whole = is_whole(text.as_bytes(), hit.start(), hit.end(), entry.open_end);
            if whole && !(entry.at_start && hit.start() > 0) {
                shown |= entry.shows;
            }
        }
        shown
    }
}

/// Whether a hit is not a part of a longer word. Words are those of ASCII: other scripts need no borders.
fn is_whole(text: &[u8], start: usize, end: usize, open_end: bool) -> bool {
    let is_word = |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = start > 0 && is_word(start) && is_word(start - 1);
    let behind = !open_end && is_word(end - 1) && is_word(end);
    !before && !behind
}
