//! Token counters of a task, and their correction by the usage that a provider reports.

use serde::{Deserialize, Serialize};

use super::{InvalidField, TaskConfig};

/// The method that counts the tokens of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenCounter {
    /// Weights by script and class of characters, fitted to `o200k`.
    #[default]
    Fitted,
    /// One token for four characters, or for two where at least half of them are Japanese.
    Heuristic,
    /// The exact tokeniser of OpenAI's models from GPT-4o on.
    O200k,
    /// The exact tokeniser of OpenAI's earlier models.
    Cl100k,
}

impl TokenCounter {
    /// All counters.
    pub const ALL: [Self; 4] = [Self::Fitted, Self::Heuristic, Self::O200k, Self::Cl100k];

    /// The key of a task's configuration that names a counter.
    pub const KEY: &str = "token_counter";

    /// Returns the name used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Heuristic => "heuristic",
            Self::O200k => "o200k",
            Self::Cl100k => "cl100k",
        }
    }

    /// Parses the name used in configurations.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let found = Self::ALL.into_iter().find(|counter| counter.as_str() == text);
        found.ok_or_else(|| {
            InvalidField::new("config.token_counter", "must be fitted, heuristic, o200k or cl100k")
        })
    }

    /// Returns the counter that a configuration names, if any.
    pub fn of(config: &TaskConfig) -> Option<Self> {
        config.other.get(Self::KEY)?.as_str().and_then(|word| Self::parse(word).ok())
    }
}

/// A factor on counted tokens: the ratio of reported to counted tokens, approached in bounded steps. The arithmetic
/// uses whole numbers, so that every reader of a log gets the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Calibration {
    millionths: u64,
}

impl From<u64> for Calibration {
    /// Clamps the value: a checkpoint of an older version may hold one below today's minimum.
    fn from(millionths: u64) -> Self {
        Self { millionths: millionths.clamp(Self::LEAST, Self::MOST) }
    }
}

impl From<Calibration> for u64 {
    fn from(calibration: Calibration) -> Self {
        calibration.millionths
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self { millionths: Self::ONE }
    }
}

impl Calibration {
    const ONE: u64 = 1_000_000;
    const LEAST: u64 = Self::ONE / 5 * 4;
    const MOST: u64 = Self::ONE * 2;
    /// Fewest counted tokens of a usable report. Below it, the overhead around messages outweighs their text.
    pub const MIN_COUNTED: u64 = 200;

    /// Returns the calibration after a call of the LLM that reported `reported` input tokens where `counted` were
    /// expected. One report changes the factor by at most a quarter up or a fifth down, which limits the effect of a
    /// wrong report.
    #[must_use]
    pub fn reported(self, reported: u64, counted: u64) -> Self {
        if counted < Self::MIN_COUNTED || !is_credible(reported, counted) {
            return self;
        }
        let ratio = u128::from(reported) * u128::from(Self::ONE) / u128::from(counted);
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX);
        let near = ratio.clamp(self.millionths * 4 / 5, self.millionths * 5 / 4);
        Self { millionths: near.clamp(Self::LEAST, Self::MOST) }
    }

    /// Converts counted tokens to the expected number of reported tokens.
    pub fn apply(self, counted: u64) -> u64 {
        let product = u128::from(counted) * u128::from(self.millionths) / u128::from(Self::ONE);
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// Returns the factor; 1 without any report.
    #[expect(clippy::cast_precision_loss, reason = "the value is at most two million")]
    pub fn factor(self) -> f64 {
        self.millionths as f64 / Self::ONE as f64
    }
}

/// Returns whether a report covers the whole view. A report of less than half of the counted tokens covers something
/// else, such as the input that was not in a cache.
fn is_credible(reported: u64, counted: u64) -> bool {
    reported > 0 && reported >= counted / 2
}

/// The tokens that a provider charged for an unchanged view, and the tokens counted for it. Unlike a calibration,
/// this applies at once and without bounds: the provider decides what fits into its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    input: u64,
    counted: u64,
}

impl Reported {
    /// Returns `None` if a report is less than half of the counted tokens.
    pub fn new(input: u64, counted: u64) -> Option<Self> {
        is_credible(input, counted).then_some(Self { input, counted })
    }

    /// Estimates the tokens of a view: the charged tokens plus the calibrated tokens added since.
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

/// Figures of a context that a model refused as too long, by the provider's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflow {
    /// Tokens that the model takes, if the refusal states them.
    pub limit: Option<u64>,
    /// Tokens of the context that was sent, if the refusal states them.
    pub sent: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_the_view_applies_at_once() {
        let calibration = Calibration::default();
        let reported = Reported::new(1700, 1000).unwrap();
        assert_eq!(reported.apply(1000, calibration), 1700);
        assert_eq!(reported.apply(1100, calibration), 1800);
        assert_eq!(reported.apply(500, calibration), 850);
        // A report applies in full, beyond the bounds of a calibration.
        assert_eq!(Reported::new(195_000, 46_000).unwrap().apply(46_100, calibration), 195_100);
        assert_eq!(Reported::new(400, 50).unwrap().apply(50, calibration), 400);
        // A report below half of the view covers something else.
        assert_eq!(
            (Reported::new(40, 1000), Reported::new(499, 1000), Reported::new(0, 1)),
            (None, None, None)
        );
        assert_eq!(Reported::new(500, 1000).unwrap().apply(1000, calibration), 500);
    }

    #[test]
    fn names_round_trip_and_unknown_names_are_rejected() {
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
        assert_eq!(fresh.reported(600, 1000).apply(1000), 800);
        // Five reports of input that was not in a cache.
        assert_eq!((0..5).fold(fresh, |so_far, _| so_far.reported(40, 1000)), fresh);
        // Too few counted tokens, or no report.
        assert_eq!(fresh.reported(400, 199), fresh);
        assert_eq!(fresh.reported(0, 1000), fresh);
        let (mut high, mut low) = (fresh, fresh);
        for _ in 0..20 {
            high = high.reported(u64::MAX, 1000);
            low = low.reported(600, 1000);
        }
        assert_eq!((high.apply(1000), low.apply(1000)), (2000, 800));
        // A checkpoint of an older version may hold this value.
        assert_eq!(serde_json::from_str::<Calibration>("500000").unwrap(), low);
        assert_eq!(high.apply(u64::MAX), u64::MAX);
        assert!((high.factor() - 2.0).abs() < f64::EPSILON);
    }
}
