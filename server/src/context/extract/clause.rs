//! Parts of a sentence: its clauses, what stands before its verb, and what it says is no longer so.

use std::ops::Range;

use super::cues::Cues;
use super::statement::Statement;

/// Where a sentence says what is no longer so.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    /// Ends of words that it follows, and beginnings of those that follow it.
    behind: Vec<usize>,
    before: Vec<usize>,
}

impl Rejections {
    pub(super) fn of(text: &str, cues: Cues) -> Self {
        const BEHIND: [&str; 10] = [
            "Not ",
            "from ",
            "instead of ",
            "rather than ",
            " not ",
            "dropping ",
            "dropped ",
            "replaced ",
            "replace ",
            "no longer ",
        ];
        const BEFORE: [&str; 9] =
            ["ではなく", "じゃなく", "でなく", "をやめ", "はやめ", "の代わり", "に代わ", "は廃止", "から"];
        if !cues.any(Cues::CHANGED) {
            return Self::default();
        }
        let ends = |word: &&str| text.find(*word).map(|at| at + word.len());
        let behind = BEHIND.iter().filter_map(ends).collect();
        Self { behind, before: BEFORE.iter().filter_map(|word| text.find(*word)).collect() }
    }

    pub(super) fn reject(&self, token: &Range<usize>) -> bool {
        // An article or a quotation mark may be between.
        const NEAR: usize = 5;
        self.before.contains(&token.end)
            || self.behind.iter().any(|at| (*at..=at + NEAR).contains(&token.start))
    }
}

/// A clause with values: what it speaks about, and what sorts of values there are. Both are sorted.
#[derive(Debug, Clone, Default)]
pub(super) struct Facet {
    pub(super) words: Vec<u32>,
    pub(super) sorts: Vec<(u32, u32)>,
}

/// A part of a sentence.
#[derive(Debug, Default)]
pub(super) struct Clause {
    /// How many words and values there were before it.
    words: usize,
    values: usize,
    sorts: usize,
}

impl Clause {
    /// It ends here; its words count if it has a value.
    pub(super) fn close(&mut self, found: &mut Statement) {
        let values = found.values.len() + found.proper.len();
        if values > self.values {
            let words = &found.words[self.words..];
            found.core.extend_from_slice(words);
            if let Some(sorts) = found.sorts.get(self.sorts..).filter(|sorts| !sorts.is_empty()) {
                let mut facet = Facet { words: words.to_vec(), sorts: sorts.to_vec() };
                facet.words.sort_unstable();
                facet.sorts.sort_unstable();
                found.facets.push(facet);
            }
        }
        *self = Self { words: found.words.len(), values, sorts: found.sorts.len() };
    }
}

/// What stands between clauses.
pub(super) const CLAUSE_MARKS: [char; 7] = [',', ';', '、', '：', '(', '（', '—'];

/// Whether what stands before a word is what a sentence speaks of.
pub(super) fn is_copula(word: &str) -> bool {
    [
        "is", "are", "was", "were", "be", "becomes", "has", "have", "must", "should", "will", "can", "may",
        "cannot", "stays", "stay", "goes", "go", "takes", "needs", "need", "lives", "live", "moved", "moves",
        "runs", "listens", "points", "sits", "to", "on", "at",
    ]
    .contains(&word)
}

/// Whether a word begins a clause.
pub(super) fn is_joint(word: &str) -> bool {
    ["because", "since", "otherwise", "so", "which", "although", "while", "unless", "but", "as"]
        .contains(&word)
}
