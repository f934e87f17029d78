//! Which counter counts a task's tokens, and how reported usage corrects what it says.

use serde::{Deserialize, Serialize};

use super::{InvalidField, TaskConfig};

/// How the tokens of a message are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenCounter {
    /// Weights by script and class of characters, fitted to `o200k`.
    #[default]
    Fitted,
    /// Four characters make one, two where at least half of them are Japanese.
    Heuristic,
    /// Exactly as OpenAI's models from GPT-4o on.
    O200k,
    /// Exactly as OpenAI's models before.
    Cl100k,
}

impl TokenCounter {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fitted, Self::Heuristic, Self::O200k, Self::Cl100k];

    /// The key of a task's configuration that names one.
    pub const KEY: &str = "token_counter";

    /// The word used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Heuristic => "heuristic",
            Self::O200k => "o200k",
            Self::Cl100k => "cl100k",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let found = Self::ALL.into_iter().find(|counter| counter.as_str() == text);
        found.ok_or_else(|| {
            InvalidField::new("config.token_counter", "is not fitted, heuristic, o200k or cl100k")
        })
    }

    /// The counter that a configuration names, if it does.
    pub fn of(config: &TaskConfig) -> Option<Self> {
        config.other.get(Self::KEY)?.as_str().and_then(|word| Self::parse(word).ok())
    }
}

/// What counts are multiplied by: the ratio of reported to counted tokens, approached in bounded steps. Whole
/// numbers throughout, so that every reader of a log comes to the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Calibration {
    millionths: u64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { millionths: Self::ONE }
    }
}

impl Calibration {
    const ONE: u64 = 1_000_000;
    const LEAST: u64 = Self::ONE / 2;
    const MOST: u64 = Self::ONE * 2;
    /// A request of fewer counted tokens says more about what is around messages than about their text.
    pub const MIN_COUNTED: u64 = 200;

    /// After a call of the LLM whose input was `reported` tokens, where `counted` were expected. A report moves
    /// it by a quarter up or a fifth down at most, so that a wrong one does little.
    #[must_use]
    pub fn reported(self, reported: u64, counted: u64) -> Self {
        if counted < Self::MIN_COUNTED || reported == 0 {
            return self;
        }
        let ratio = u128::from(reported) * u128::from(Self::ONE) / u128::from(counted);
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX);
        let near = ratio.clamp(self.millionths * 4 / 5, self.millionths * 5 / 4);
        Self { millionths: near.clamp(Self::LEAST, Self::MOST) }
    }

    /// What so many counted tokens are.
    pub fn apply(self, counted: u64) -> u64 {
        let product = u128::from(counted) * u128::from(self.millionths) / u128::from(Self::ONE);
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// As a number: 1 if nothing was reported.
    #[expect(clippy::cast_precision_loss, reason = "it is at most two million")]
    pub fn factor(self) -> f64 {
        self.millionths as f64 / Self::ONE as f64
    }
}

/// What a provider charged for a view as it is, and what was counted of that. It counts at once, where a calibration
/// takes several reports: a context that is nearly full has no time for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    input: u64,
    counted: u64,
}

impl Reported {
    /// None if nothing can be told from it, as by [`Calibration::reported`]; more than a calibration can come to is not
    /// believed either.
    pub fn new(input: u64, counted: u64) -> Option<Self> {
        let most = Calibration { millionths: Calibration::MOST }.apply(counted);
        (counted >= Calibration::MIN_COUNTED && input > 0).then(|| Self { input: input.min(most), counted })
    }

    /// What so many counted tokens are: what was charged, and what came since.
    pub fn apply(self, counted: u64, calibration: Calibration) -> u64 {
        match counted.checked_sub(self.counted) {
            Some(since) => self.input.saturating_add(calibration.apply(since)),
            None => {
                let part = u128::from(self.input) * u128::from(counted) / u128::from(self.counted.max(1));
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_at_once_what_a_view_has() {
        let calibration = Calibration::default();
        let reported = Reported::new(1700, 1000).unwrap();
        assert_eq!(reported.apply(1000, calibration), 1700);
        assert_eq!(reported.apply(1100, calibration), 1800);
        assert_eq!(reported.apply(500, calibration), 850);
        // Nonsense is believed as little as by a calibration.
        assert_eq!(Reported::new(1 << 40, 1000).unwrap().apply(1000, calibration), 2000);
        assert_eq!((Reported::new(400, 199), Reported::new(0, 1000)), (None, None));
    }

    #[test]
    fn words_go_both_ways_and_others_are_refused() {
        for counter in TokenCounter::ALL {
            assert_eq!(TokenCounter::parse(counter.as_str()), Ok(counter));
        }
        let refused = TokenCounter::parse("o200k_base").unwrap_err();
        assert_eq!(refused.field, "config.token_counter");
    }

    #[test]
    fn a_report_moves_the_factor_by_a_bounded_step() {
        let fresh = Calibration::default();
        assert_eq!(fresh.apply(1234), 1234);
        assert_eq!(fresh.reported(1100, 1000).apply(1000), 1100);
        assert_eq!(fresh.reported(9000, 1000).apply(1000), 1250);
        assert_eq!(fresh.reported(1, 1000).apply(1000), 800);
        // Too small to tell, or not told.
        assert_eq!(fresh.reported(400, 199), fresh);
        assert_eq!(fresh.reported(0, 1000), fresh);
        let (mut high, mut low) = (fresh, fresh);
        for _ in 0..20 {
            high = high.reported(u64::MAX, 1000);
            low = low.reported(1, u64::MAX);
        }
        assert_eq!((high.apply(1000), low.apply(1000)), (2000, 500));
        assert_eq!(high.apply(u64::MAX), u64::MAX);
        assert!((high.factor() - 2.0).abs() < f64::EPSILON);
    }
}
