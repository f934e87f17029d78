//! A conversation of calls and outputs, and what its view still has of them.

use contextstore_proto::v1 as pb;
use serde_json::{Value, json};

use crate::scene::{Scene, assistant, by_hand};
use crate::server::{DEADLINE, eventually};

/// A task whose outputs have a budget.
pub fn with_budget(budget: u64) -> pb::TaskConfig {
    let outputs = pb::OutputsConfig { budget_tokens: Some(budget), ..Default::default() };
    // Nothing is trimmed below half of the limit.
    pb::TaskConfig { outputs: Some(outputs), ..by_hand(2 * budget) }
}

/// A call of a tool by its name.
pub fn call(tool: &str, id: &str) -> Value {
    let function = json!({"name": tool, "arguments": "{}"});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]})
}

/// What it gave: about a hundred tokens, no two the same.
pub fn output(id: &str) -> Value {
    let text = format!("{id}: {}", "all is well here, go on. ".repeat(16));
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

/// An output as the view has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub seq: u64,
    pub tokens: u64,
    pub content: String,
}

impl Output {
    pub fn is_trimmed(&self) -> bool {
        self.content.starts_with("[tool output trimmed; ")
    }
}

impl<S> Scene<S> {
    /// Calls a tool, and appends what it gave; answers its number.
    pub async fn step(&mut self, number: u64) -> u64 {
        let id = format!("call_{number}");
        self.append(&call("read", &id)).await;
        self.append(&output(&id)).await.seq
    }

    /// The outputs of a view of which nothing is missing, in order.
    pub async fn outputs(&mut self) -> Vec<Output> {
        let (lines, log) = (self.lines().await, self.log().await);
        assert_eq!(lines.len(), log.len());
        let both = lines.iter().zip(&log).filter(|(_, message)| message["role"] == "tool");
        let output = |(line, message): (&String, &Value)| {
            let shown: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&shown["role"], &shown["tool_call_id"]),
                (&message["role"], &message["tool_call_id"])
            );
            Output {
                seq: message["seq"].as_u64().unwrap(),
                tokens: message["tokens"].as_u64().unwrap(),
                content: shown["content"].as_str().unwrap().to_owned(),
            }
        };
        both.map(output).collect()
    }

    /// Tokens of the outputs in the view that are whole.
    pub async fn output_tokens(&mut self) -> u64 {
        let outputs = self.outputs().await;
        outputs.iter().filter(|output| !output.is_trimmed()).map(|output| output.tokens).sum()
    }

    /// Waits until outputs have at most so many tokens.
    pub async fn settled(&mut self, most: u64) -> Vec<Output> {
        let end = std::time::Instant::now() + DEADLINE;
        while self.output_tokens().await > most {
            assert!(std::time::Instant::now() < end, "{:?}", self.outputs().await);
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        self.outputs().await
    }

    /// Numbers of the outputs that are notes now.
    pub async fn trimmed(&mut self) -> Vec<u64> {
        let outputs = self.outputs().await;
        outputs.iter().filter(|output| output.is_trimmed()).map(|output| output.seq).collect()
    }

    /// Waits until the view is another one, and answers its generation.
    pub async fn rewritten(&mut self, since: u64) -> u64 {
        let (api, work) = (self.api.clone(), &self.work);
        eventually(DEADLINE, async || {
            let generation = crate::wire::task(&mut api.clone(), work).await.view_generation;
            (generation > since).then_some(generation)
        })
        .await
    }

    /// The model says something, and so has answered all outputs.
    pub async fn answered(&mut self) {
        self.append(&assistant("I see.")).await;
    }
}
