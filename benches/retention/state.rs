//! Whether a view still has a fact.

use super::session::{Fact, spaced};

/// What became of a fact in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It holds, and is in the view behind everything that it superseded.
    Kept,
    Lost,
    /// It holds and is in the view, but something that it superseded stands behind it.
    Contradicted,
    /// It was withdrawn, and is in the view without its withdrawal behind it.
    Stale,
    /// It was superseded or withdrawn, and misleads nobody.
    Harmless,
}

impl State {
    /// Returns the state of a fact in the plain text of a view.
    ///
    /// A model reads in order: an old value that stands before the newer one is no loss.
    pub(crate) fn of(fact: &Fact, all: &[Fact], text: &str) -> Self {
        let place = |probe: &str| text.rfind(&spaced(probe));
        let here = place(&fact.probe);
        if fact.holds() {
            let Some(here) = here else { return Self::Lost };
            let mut older = all.iter().filter(|older| older.newer.contains(&fact.probe));
            let is_last = older.all(|older| place(&older.probe).is_none_or(|place| place < here));
            return if is_last { Self::Kept } else { Self::Contradicted };
        }
        // A fact that has a newer value is counted with that.
        let is_replaced = fact.newer.iter().any(|newer| all.iter().any(|fact| fact.probe == *newer));
        let withdrawn = fact.newer.iter().filter_map(|newer| place(newer)).max();
        if is_replaced || here.is_none() || here < withdrawn { Self::Harmless } else { Self::Stale }
    }
}
