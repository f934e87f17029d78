//! Providers of models. The names are those of the API, of the configuration and of a task's `llm_provider`.

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
    /// LM Studio, vLLM and others: the subset of chat completions that all OpenAI-compatible servers accept.
    LmStudio,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Ollama, Self::LmStudio];

    /// The field of an assistant message with the order of its thoughts, text and calls: `"thought"`, `"call"`, and
    /// numbers of characters of the content. Without it, the order is thoughts, text, calls.
    pub const ORDER: &str = "reasoning_order";

    /// Returns the field of an assistant message that holds the thoughts which this provider must get back unchanged.
    pub fn thoughts(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("thinking_blocks"),
            Self::OpenAiResponses => Some("reasoning_items"),
            Self::OpenAi | Self::Ollama | Self::LmStudio => None,
        }
    }

    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::LmStudio => "lmstudio",
        }
    }

    /// Parses the name used in the API.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text)
    }
}
