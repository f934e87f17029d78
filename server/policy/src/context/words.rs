//! Words of the configuration that stand for how contexts are kept small, and what they mean in numbers.

/// Who summarises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Summarizer {
    /// The LLM if there is one, else the built-in one.
    #[default]
    Auto,
    /// The LLM.
    Llm,
    /// The built-in one.
    Extractive,
}

impl Summarizer {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Llm, Self::Extractive];

    /// The word used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Llm => "llm",
            Self::Extractive => "extractive",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|summarizer| summarizer.as_str() == text)
    }
}

/// How much a task is likely to need of what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complexity {
    /// Little: it is compressed early.
    Simple,
    /// As usual.
    Medium,
    /// Much: it is compressed late.
    Complex,
}

impl Complexity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Simple, Self::Medium, Self::Complex];

    /// The word used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Medium => "medium",
            Self::Complex => "complex",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|complexity| complexity.as_str() == text)
    }

    pub(super) fn threshold(self) -> f64 {
        match self {
            Self::Simple => 0.5,
            Self::Medium => 0.7,
            Self::Complex => 0.85,
        }
    }
}

/// Several settings under one name, for what is not given otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// 8000 tokens.
    Balanced,
    /// 6000 tokens, tidied up often.
    Conservative,
    /// 12000 tokens, filled nearly to the end.
    Aggressive,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Balanced, Self::Conservative, Self::Aggressive];

    /// The word used in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Conservative => "conservative",
            Self::Aggressive => "aggressive",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == text)
    }

    /// The limit, the threshold, and what `prune` leaves.
    pub(super) fn values(self) -> (u64, f64, f64) {
        match self {
            Self::Balanced => (8000, 0.8, 0.7),
            Self::Conservative => (6000, 0.6, 0.5),
            Self::Aggressive => (12_000, 0.9, 0.8),
        }
    }
}
