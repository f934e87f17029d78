//! How large a question may be, and how it is put to each provider.

use serde_json::{Map, Value, json};

use super::transcript::cost;
use super::{ModelError, Question};
use crate::compress::prompt::Prompt;
use crate::llm::{ErrorClass, Gateway, LlmError, thinks};
use crate::model::{Overflow, Provider};

/// Tokens of an answer beside the summary: tags, JSON.
const AROUND: u64 = 1024;
/// Tokens that a model may think.
const THOUGHTS_OF_OPENAI: u64 = 8192;
const THOUGHTS_AT_HOME: u64 = 4096;
/// Tokens that every model can answer with.
const EVERYBODY: u64 = 4096;
/// Fewest tokens of an answer.
const LEAST: u64 = 256;
/// The share of the window that is left free, as counts are estimates.
const FREE_SHARE: u64 = 16;
/// What stands in for the name of a block: as long as one.
const FENCE: &str = "history-000000000000";

/// The sizes of a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestSize {
    /// Tokens that the model takes.
    window: u64,
    /// Most tokens of the answer, with thoughts.
    pub(super) most: u64,
    /// Tokens of a summary.
    pub(super) budget: u64,
    /// Tokens that are asked for, all together.
    pub(super) asked: u64,
    temperature: Option<f64>,
    halved: bool,
}

impl RequestSize {
    pub(super) fn new(gateway: &Gateway, question: &Question<'_>, gaps: Option<usize>) -> Self {
        let Question { provider, model, budget, window, .. } = *question;
        let summaries = gaps.map_or(1, |gaps| gaps as u64);
        let thinking = thinks(model);
        let thoughts = match provider {
            Provider::OpenAi | Provider::OpenAiResponses if thinking => THOUGHTS_OF_OPENAI,
            Provider::Ollama | Provider::LmStudio => THOUGHTS_AT_HOME,
            Provider::OpenAi | Provider::OpenAiResponses | Provider::Anthropic => 0,
        };
        let asked = budget.saturating_mul(summaries);
        let most = asked.saturating_add(asked / 4).saturating_add(AROUND + thoughts);
        let most = gateway.max_output_tokens(provider).map_or(most, |limit| most.min(limit));
        // Models of OpenAI that think have a temperature of their own.
        let temperature = gaps.map(|_| question.policy.scoring.gap_temperature).filter(|_| !thinking);
        let mut shape = Self { window, most, budget, asked, temperature, halved: false };
        shape.limit(most);
        shape
    }

    /// Lowers what is answered to what the model can.
    fn limit(&mut self, most: u64) {
        self.most = most.min(self.window / 2).max(LEAST);
        let share = self.most - self.most / 5;
        if self.asked > share {
            self.budget = (u128::from(self.budget) * u128::from(share) / u128::from(self.asked)) as u64;
            self.budget = self.budget.max(1);
            self.asked = share;
        }
    }

    /// Tokens that there are for the history.
    pub(super) fn room(&self, prompt: &Prompt<'_>) -> u64 {
        let tokens = cost(&prompt.system(FENCE)) + cost(prompt.closing());
        self.window.saturating_sub(self.window / FREE_SHARE).saturating_sub(self.most).saturating_sub(tokens)
    }

    /// Whether the question can be put otherwise, so that this would not be said of it. Does so.
    pub(super) fn yields_to(&mut self, error: &LlmError) -> bool {
        match error.class() {
            Some(ErrorClass::Overflow(Overflow { limit, .. })) => {
                let once = !self.halved;
                self.halved = true;
                self.window = limit.filter(|limit| *limit < self.window).unwrap_or(self.window / 2);
                self.limit(self.most);
                once
            }
            Some(ErrorClass::LongAnswer { most }) => {
                let most = most.unwrap_or(EVERYBODY);
                let fewer = most < self.most;
                self.limit(most.min(self.most));
                fewer
            }
            Some(ErrorClass::Refused) => {
                error.to_string().contains("temperature") && self.temperature.take().is_some()
            }
            Some(ErrorClass::Throttled | ErrorClass::Failed) | None => false,
        }
    }

    /// The parameters of a request, as JSON.
    pub(super) fn params(
        &self,
        gateway: &Gateway,
        provider: Provider,
        model: &str,
    ) -> Result<String, ModelError> {
        let mut params = Map::new();
        params.extend(self.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
        let name = match provider {
            Provider::OpenAi => "max_completion_tokens",
            Provider::OpenAiResponses => "max_output_tokens",
            Provider::Anthropic | Provider::LmStudio => "max_tokens",
            Provider::Ollama => "num_predict",
        };
        params.insert(name.to_owned(), json!(self.most));
        if provider == Provider::Ollama {
            params = Map::from_iter([("options".to_owned(), Value::Object(params))]);
        }
        let params = Value::Object(params).to_string();
        gateway
            .params(provider, model, &params, gateway.context_length(provider).unwrap_or(self.window))
            .map_err(|error| ModelError::NotConfigured { problem: error.to_string() })
    }
}
