//! What a sentence speaks about and what it says of it, and from that whether one sentence takes the place of another:
//! the same subject with another value, a change that is announced, something open that is done.
//!
//! Words are compared by hashes of their first letters, which is stemming enough for English; kanji by pairs.

use super::cues::Cues;
use super::scan::{Kind, tokens};

/// A sentence, taken apart.
#[derive(Debug, Clone, Default)]
pub(super) struct Statement {
    pub(super) cues: Cues,
    /// What it speaks about: hashes, sorted.
    words: Vec<u32>,
    /// Numbers, names and quotations: hashes, sorted.
    values: Vec<u32>,
    /// Of the values those that are unlikely to mean something else elsewhere.
    rare: Vec<u32>,
    /// One bit for each word and value, so that most pairs are told apart at once.
    bits: u64,
    /// How many ids, names, paths and addresses there are.
    pub(super) names: u32,
    /// How many numbers.
    pub(super) numbers: u32,
}

/// More of them say no more.
const MOST: usize = 48;
/// Letters of a word that count.
const STEM: usize = 6;

impl Statement {
    pub(super) fn of(text: &str) -> Self {
        let mut found = Self { cues: Cues::of(text), ..Self::default() };
        tokens(text, |kind, range| {
            if found.words.len() < MOST && found.values.len() < MOST {
                found.take(kind, &text[range]);
            }
        });
        for list in [&mut found.words, &mut found.values, &mut found.rare] {
            list.sort_unstable();
            list.dedup();
        }
        found.bits = found.words.iter().chain(&found.values).fold(0, |bits, hash| bits | 1 << (hash % 64));
        found
    }

    fn take(&mut self, kind: Kind, token: &str) {
        match kind {
            Kind::Word => self.word(token),
            Kind::Run => self.run(token),
            Kind::Number => {
                self.numbers += 1;
                let digits = token.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
                self.values.push(hash(digits));
                if digits.len() >= 4 {
                    self.rare.push(hash(digits));
                }
                self.word(&token[digits.len()..]);
            }
            Kind::Id | Kind::Path | Kind::Url => {
                self.names += 1;
                self.values.push(hash(token));
                self.rare.push(hash(token));
            }
            Kind::Name => {
                self.names += 1;
                self.words.push(hash(token));
            }
            Kind::Quoted => {
                self.values.push(hash(token));
                if token.len() >= 6 {
                    self.rare.push(hash(token));
                }
            }
        }
    }

    fn word(&mut self, token: &str) {
        for part in token.split(['-', '/', '.', '_', ':']).filter(|part| part.len() >= 2) {
            if !is_small(part) {
                let stem = &part[..part.floor_char_boundary(STEM)];
                self.words.push(hash(&stem.trim_end_matches('s').to_lowercase()));
            }
        }
    }

    fn run(&mut self, run: &str) {
        let first = run.chars().next().unwrap_or_default();
        if !('\u{3400}'..='\u{9fff}').contains(&first) {
            if run.chars().count() >= 2 {
                self.words.push(hash(run));
            }
            return;
        }
        let mut ends: Vec<usize> = run.char_indices().map(|(at, _)| at).take(MOST).collect();
        ends.push(run.len());
        for pair in ends.windows(3) {
            let pair = &run[pair[0]..pair[2]];
            if !SMALL_RUNS.contains(&pair) {
                self.words.push(hash(pair));
            }
        }
    }

    /// How many words it has that say something.
    pub(super) fn weight(&self) -> usize {
        self.words.len() + self.values.len()
    }

    /// Whether an older statement no longer holds, now that this one was made. `firm` is a rule of the user's, which
    /// goes only if this one is clearly about the same.
    pub(super) fn replaces(&self, old: &Self, firm: bool) -> bool {
        if self.bits & old.bits == 0 {
            return false;
        }
        let shared = common(&self.words, &old.words);
        let same_values = common(&self.values, &old.values);
        let gone = old.values.len() > same_values;
        let come = self.values.len() > same_values;
        let least = self.words.len().min(old.words.len());
        let all = self.words.len() + old.words.len() - shared;
        if self.cues.any(Cues::CHANGE) {
            let of_old = shared * 10 >= old.words.len() * if firm { 6 } else { 5 };
            let named = same_values > 0 && shared > 0 && shared * 4 >= old.words.len();
            let changed = gone && come && shared > 0 && shared * 2 >= least;
            return named && (gone || come || !firm)
                || changed && (shared >= 2 || least <= 2)
                || shared >= 2 && of_old
                || shared >= 3 && shared * 2 >= least && !firm;
        }
        // The same said of the same thing with another value. Two values that both differ are of another thing.
        let one_differs =
            gone && come && (same_values > 0 || self.values.len() == 1 && old.values.len() == 1);
        one_differs && shared > 0 && shared * 10 >= all * 7
    }

    /// Whether this one says that something open, or an error, is over.
    pub(super) fn settles(&self, open: &Self) -> bool {
        if !self.cues.any(Cues::DONE) || self.cues.any(Cues::STILL) || self.bits & open.bits == 0 {
            return false;
        }
        let shared = common(&self.words, &open.words);
        shared >= 2 && shared * 10 >= open.words.len() * 6
            || shared >= 1 && open.words.len() <= 2
            || common(&self.rare, &open.rare) > 0
    }

    /// The values of this statement that another does not have, where they are unlikely to mean something else.
    pub(super) fn lost(&self, newer: &Self) -> Vec<u32> {
        self.rare.iter().copied().filter(|value| newer.values.binary_search(value).is_err()).collect()
    }

    /// Whether one of these values is in it.
    pub(super) fn has_any(&self, values: &[u32]) -> bool {
        values.iter().any(|value| self.values.binary_search(value).is_ok())
    }
}

/// How many are in both; both are sorted.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().filter(|hash| other.binary_search(hash).is_ok()).count()
}

/// FNV-1a: the same in every run, so that the same history gives the same summary.
pub(super) fn hash(text: &str) -> u32 {
    let long = long_hash(text);
    (long ^ long >> 32) as u32
}

/// The same with 64 bits.
pub(super) fn long_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether a word says nothing about what a sentence speaks of.
fn is_small(word: &str) -> bool {
    if word.len() > 9 {
        return false;
    }
    let mut lower = [0; 9];
    let lower = &mut lower[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    SMALL.binary_search_by(|small| small.as_bytes().cmp(lower)).is_ok()
}

/// In order. With the verbs that stand in every second instruction.
const SMALL: &[&str] = &[
    "about",
    "above",
    "actually",
    "add",
    "added",
    "after",
    "again",
    "all",
    "already",
    "also",
    "always",
    "am",
    "an",
    "and",
    "any",
    "anymore",
    "are",
    "as",
    "at",
    "back",
    "be",
    "because",
    "been",
    "before",
    "being",
    "but",
    "by",
    "can",
    "cannot",
    "change",
    "changed",
    "complete",
    "could",
    "create",
    "created",
    "decided",
    "decision",
    "did",
    "do",
    "does",
    "doing",
    "done",
    "each",
    "earlier",
    "either",
    "else",
    "even",
    "ever",
    "every",
    "few",
    "finish",
    "finished",
    "first",
    "fix",
    "fixed",
    "for",
    "forget",
    "from",
    "get",
    "given",
    "go",
    "going",
    "good",
    "got",
    "had",
    "has",
    "have",
    "here",
    "how",
    "if",
    "implement",
    "in",
    "instead",
    "into",
    "is",
    "it",
    "item",
    "items",
    "its",
    "just",
    "keep",
    "kept",
    "know",
    "last",
    "later",
    "left",
    "let",
    "ll",
    "longer",
    "look",
    "made",
    "make",
    "may",
    "me",
    "might",
    "more",
    "most",
    "much",
    "must",
    "my",
    "need",
    "needs",
    "never",
    "new",
    "next",
    "no",
    "not",
    "note",
    "now",
    "of",
    "off",
    "on",
    "once",
    "one",
    "only",
    "open",
    "or",
    "other",
    "our",
    "out",
    "over",
    "pending",
    "please",
    "put",
    "rather",
    "re",
    "really",
    "remaining",
    "remains",
    "run",
    "s",
    "same",
    "second",
    "see",
    "set",
    "shall",
    "should",
    "so",
    "some",
    "step",
    "still",
    "such",
    "sure",
    "switch",
    "take",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "this",
    "those",
    "thought",
    "through",
    "to",
    "todo",
    "too",
    "two",
    "under",
    "until",
    "up",
    "update",
    "updated",
    "us",
    "use",
    "used",
    "uses",
    "using",
    "ve",
    "very",
    "want",
    "was",
    "way",
    "we",
    "well",
    "went",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "why",
    "will",
    "with",
    "without",
    "would",
    "write",
    "written",
    "wrote",
    "yes",
    "yet",
    "you",
    "your",
];

/// Pairs of kanji that stand in every second sentence.
const SMALL_RUNS: &[&str] = &[
    "変更", "必要", "今後", "以降", "場合", "使用", "利用", "対応", "確認", "修正", "追加", "設定", "作業",
    "実装", "処理", "以前", "今回", "最初", "最後", "現在", "決定", "採用", "方針", "代替", "絶対", "必須",
    "禁止", "完了", "お願",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn replaces(new: &str, old: &str) -> bool {
        Statement::of(new).replaces(&Statement::of(old), false)
    }

    #[test]
    fn the_small_words_are_in_order() {
        assert!(SMALL.is_sorted());
        assert!(SMALL.iter().all(|word| is_small(word)));
    }

    #[test]
    fn a_newer_statement_about_the_same_thing_replaces_the_older() {
        for (old, new) in [
            ("The database port is 5432.", "The database port is now 6543."),
            ("The port is 5432.", "The port is 6543."),
            (
                "Use Redis for the session cache.",
                "On second thought, the session cache goes into Postgres instead.",
            ),
            ("Retry 3 times.", "Retry 5 times."),
            ("Shard 3 is on node-7.", "Shard 3 is on node-9."),
            ("Keep response times under 200 ms.", "Relax the response time limit to 350 ms."),
            ("データベースのポートは5432です。", "データベースのポートは6543に変更してください。"),
            ("キャッシュにはRedisを使います。", "キャッシュはRedisをやめてMemcachedにします。"),
            ("認証方式はJWTを採用します。", "認証方式はJWTではなくセッションに変更します。"),
        ] {
            assert!(replaces(new, old), "{old} -> {new}");
        }
    }

    #[test]
    fn others_stay() {
        for (old, new) in [
            ("The database port is 5432.", "The cache port is 6379."),
            ("Shard 3 is on node-7.", "Shard 4 is on node-9."),
            ("Never touch files under legacy/.", "The build now runs on node 20 instead of 18."),
            ("ログは7日間保存します。", "データベースのポートは6543に変更してください。"),
        ] {
            assert!(!replaces(new, old), "{old} -> {new}");
        }
    }

    #[test]
    fn what_is_done_is_no_longer_open() {
        let settles = |new: &str, old: &str| Statement::of(new).settles(&Statement::of(old));
        assert!(settles("The migration script is done.", "TODO: write the migration script"));
        assert!(settles("Fixed E0308 in the parser.", "error[E0308]: mismatched types"));
        assert!(settles("移行スクリプトは完了しました。", "残り: 移行スクリプトの作成"));
        assert!(!settles("The migration script is not done yet.", "TODO: write the migration script"));
        assert!(!settles("The parser is done.", "TODO: write the migration script"));
    }
}
