//! Who serves models. The words are those of the API, of the configuration and of a task's `llm_provider`.

/// A provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Chat completions of OpenAI.
    OpenAi,
    /// The Responses API of OpenAI.
    OpenAiResponses,
    /// The Messages API of Anthropic.
    Anthropic,
    /// Ollama's own API.
    Ollama,
    /// LM Studio, vLLM and others: chat completions as all who speak like OpenAI take them.
    LmStudio,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Ollama, Self::LmStudio];

    /// The field of an assistant message that says how thoughts, text and calls followed each other: `"thought"`,
    /// `"call"`, and numbers of characters of the content. Without it they did so in this order.
    pub const ORDER: &str = "reasoning_order";

    /// The field of an assistant message that holds what this provider wants back as it was.
    pub fn thoughts(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("thinking_blocks"),
            Self::OpenAiResponses => Some("reasoning_items"),
            Self::OpenAi | Self::Ollama | Self::LmStudio => None,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::LmStudio => "lmstudio",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text)
    }
}
