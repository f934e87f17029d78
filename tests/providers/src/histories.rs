//! Hostile histories: OpenAI chat messages as an agent may append them, whatever happened to it.
//!
//! Every message is one that `AppendMessage` takes (a known role, content as text or parts with a type, calls with
//! an id, a name and text); everything else is odd. The same seed gives the same history.
//!
//! What models of other providers thought stands under the names that SDKs give it beside an OpenAI message:
//! - `thinking_blocks` (LiteLLM): Anthropic's blocks, `{"type":"thinking","thinking","signature"}` and
//!   `{"type":"redacted_thinking","data"}`. Whole ones are signed as the fake signs; others are unsigned or broken,
//!   as an interrupted stream leaves them.
//! - `reasoning_items`: items of the Responses API, `{"type":"reasoning","id","summary","encrypted_content"}`.
//!   Whole ones are sealed as the fake seals them; others have no `encrypted_content`.
//! - `reasoning_order`: how these, text and calls followed each other (`histories/interleaved.rs`), or nonsense.
//! - `reasoning_content` (LiteLLM, DeepSeek, vLLM), `reasoning` and `reasoning_details` (OpenRouter:
//!   `reasoning.text` with a signature, `reasoning.encrypted` with data, `reasoning.summary`), `thinking` (Ollama),
//!   and `provider_specific_fields` (LiteLLM): no provider here takes them.

mod interleaved;
mod pieces;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use pieces::{SURROGATE, call_id, content, odd, reasoning, text, tool_name};

/// A history.
#[derive(Clone, Debug)]
pub struct History {
    /// What gives it again.
    pub seed: u64,
    /// What happened in it, in order.
    pub events: Vec<&'static str>,
    /// The messages, as JSON.
    pub messages: Vec<String>,
}

/// What a history may hold that costs much or that only some doors take.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    /// Now and then an image of 5 MB.
    pub large_images: bool,
    /// Escapes of half a character, such as `\ud800`, which are no JSON for strict readers.
    pub lone_surrogates: bool,
}

impl Default for Taste {
    fn default() -> Self {
        Self { large_images: true, lone_surrogates: true }
    }
}

impl History {
    /// The history of a seed.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Taste::default())
    }

    /// The history of a seed, without what is not to one's taste.
    pub fn with(seed: u64, taste: Taste) -> Self {
        let mut maker = Maker {
            rng: Rng::with_seed(seed),
            taste,
            messages: Vec::new(),
            events: Vec::new(),
            ids: Vec::new(),
        };
        maker.make();
        let spelled = |message: &Value| message.to_string().replace(SURROGATE, r"\ud800");
        Self { seed, events: maker.events, messages: maker.messages.iter().map(spelled).collect() }
    }

    /// For a failed test: the seed, what happened, and the messages, long ones cut.
    pub fn describe(&self) -> String {
        let mut out = format!("history of seed {}: {}", self.seed, self.events.join(", "));
        for (at, message) in self.messages.iter().enumerate() {
            let cut: String = message.chars().take(400).collect();
            let more = if cut.len() < message.len() {
                format!("… ({} bytes)", message.len())
            } else {
                String::new()
            };
            out.push_str(&format!("\n{at:3} {cut}{more}"));
        }
        out
    }

    /// The shortest history that still fails, made by leaving out messages, half of them at a time first.
    #[must_use]
    pub fn shrink(&self, fails: impl Fn(&[String]) -> bool) -> Self {
        let mut least = self.messages.clone();
        let mut step = least.len() / 2;
        while step > 0 {
            let mut at = 0;
            while at < least.len() {
                let mut fewer = least.clone();
                fewer.drain(at..(at + step).min(least.len()));
                if fails(&fewer) {
                    least = fewer;
                } else {
                    at += step;
                }
            }
            step /= 2;
        }
        Self { messages: least, ..self.clone() }
    }
}

/// Tools for a request: those that histories call by good names.
pub fn tools() -> Value {
    let tool = |name: &str| {
        json!({"type": "function", "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }})
    };
    pieces::TOOLS.iter().map(|name| tool(name)).collect()
}

struct Maker {
    rng: Rng,
    taste: Taste,
    messages: Vec<Value>,
    events: Vec<&'static str>,
    /// Ids that were given before.
    ids: Vec<String>,
}

impl Maker {
    fn make(&mut self) {
        match self.rng.u8(..12) {
            0 => self.note("starts with an assistant", Self::assistant),
            1 => self.note("starts with a result", Self::orphan),
            2 => {
                self.note("only instructions", Self::system);
                return;
            }
            3 => {
                for _ in 0..self.rng.usize(1..4) {
                    self.note("only results", Self::orphan);
                }
                return;
            }
            4 | 5 => self.user(),
            _ => {
                self.system();
                self.user();
            }
        }
        for _ in 0..self.rng.usize(1..12) {
            match self.rng.u8(..20) {
                0..=2 => self.user(),
                3 => self.note("instructions in the middle", Self::system),
                4 => self.note("an orphan", Self::orphan),
                5 => {
                    self.note("two assistants", Self::assistant);
                    self.assistant();
                }
                6 => self.repeat(),
                7..=9 => self.assistant(),
                _ => self.group(),
            }
        }
    }

    fn note(&mut self, event: &'static str, make: impl FnOnce(&mut Self)) {
        self.events.push(event);
        make(self);
    }

    fn push(&mut self, mut message: Map<String, Value>) {
        if self.rng.u8(..8) == 0 {
            let extras = pieces::extra(&mut self.rng);
            message.extend(extras.into_iter().map(|(key, value)| (key.to_owned(), value)));
        }
        self.messages.push(Value::Object(message));
    }

    fn message(role: &str, content: Value) -> Map<String, Value> {
        Map::from_iter([("role".to_owned(), json!(role)), ("content".to_owned(), content)])
    }

    fn named(&mut self, mut message: Map<String, Value>) -> Map<String, Value> {
        if self.rng.u8(..6) == 0 {
            message.insert("name".to_owned(), json!(tool_name(&mut self.rng, self.taste)));
        }
        message
    }

    fn system(&mut self) {
        let role = if self.rng.bool() { "system" } else { "developer" };
        let content = content(&mut self.rng, role, self.taste);
        let message = self.named(Self::message(role, content));
        self.push(message);
    }

    fn user(&mut self) {
        let content = content(&mut self.rng, "user", self.taste);
        let message = self.named(Self::message("user", content));
        self.push(message);
    }

    /// An assistant without calls.
    fn assistant(&mut self) {
        if self.rng.u8(..16) == 0 {
            let (message, _) = interleaved::message(&mut self.rng, false);
            return self.note("thoughts between texts", |maker| maker.push(message));
        }
        let mut message = match self.rng.u8(..8) {
            0 => {
                let mut message = Self::message("assistant", Value::Null);
                let refusal = text(&mut self.rng, self.taste);
                message
                    .insert("refusal".to_owned(), if self.rng.bool() { json!(refusal) } else { Value::Null });
                message
            }
            1 => {
                let mut message = Self::message("assistant", Value::Null);
                message.insert(
                    "audio".to_owned(),
                    json!({"id": "audio_1", "transcript": "Hm", "data": "UklGRg=="}),
                );
                message
            }
            2 => {
                let mut message = Self::message("assistant", Value::Null);
                let arguments = pieces::arguments(&mut self.rng, self.taste);
                message.insert("function_call".to_owned(), json!({"name": "read", "arguments": arguments}));
                message
            }
            _ => Self::message("assistant", content(&mut self.rng, "assistant", self.taste)),
        };
        reasoning(&mut self.rng, &mut message);
        let message = self.named(message);
        self.push(message);
    }

    /// A result for no call.
    fn orphan(&mut self) {
        let id = self.id();
        let content = content(&mut self.rng, "tool", self.taste);
        self.result(Some(id), content);
    }

    fn result(&mut self, id: Option<String>, content: Value) {
        let mut message = Self::message("tool", content);
        if let Some(id) = id {
            message.insert("tool_call_id".to_owned(), json!(id));
        }
        if self.rng.u8(..4) == 0 {
            message.insert("tool_name".to_owned(), json!(tool_name(&mut self.rng, self.taste)));
        }
        self.push(message);
    }

    /// A message once more, as a retry appends it.
    fn repeat(&mut self) {
        if let Some(message) = self.rng.choice(&self.messages).cloned() {
            self.events.push("a message again");
            self.messages.push(message);
        }
    }

    fn id(&mut self) -> String {
        if !self.ids.is_empty() && self.rng.u8(..8) == 0 {
            self.events.push("an id again");
            return self.ids[self.rng.usize(..self.ids.len())].clone();
        }
        let id = call_id(&mut self.rng, self.taste);
        self.ids.push(id.clone());
        id
    }

    fn call(&mut self) -> (String, Value) {
        let id = self.id();
        let name = tool_name(&mut self.rng, self.taste);
        let mut call = if self.rng.u8(..8) == 0 {
            json!({"id": id, "type": "custom", "custom": {"name": name, "input": text(&mut self.rng, self.taste)}})
        } else {
            let arguments = pieces::arguments(&mut self.rng, self.taste);
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        };
        match self.rng.u8(..12) {
            0 => call["index"] = json!(0),
            1 => call["function"]["x"] = json!({"thought_signature": "abc"}),
            2 if call["type"] == "function" => call["type"] = Value::Null,
            _ => {}
        }
        if call["type"] == "custom"
            && let Some(object) = call.as_object_mut()
        {
            object.remove("function");
        }
        (id, call)
    }

    /// An assistant with calls, and what becomes of them.
    fn group(&mut self) {
        let (message, mut ids) = if self.rng.u8(..12) == 0 {
            self.events.push("thoughts between calls");
            interleaved::message(&mut self.rng, true)
        } else {
            self.calls()
        };
        let early = (self.rng.u8(..16) == 0).then(|| ids[0].clone());
        if let Some(id) = early {
            let content = content(&mut self.rng, "tool", self.taste);
            self.note("a result before its call", |maker| maker.result(Some(id), content));
        }
        self.push(message);

        if self.rng.u8(..4) == 0 {
            self.rng.shuffle(&mut ids);
        }
        if self.rng.u8(..4) == 0 {
            self.events.push("an interrupted batch");
            ids.truncate(self.rng.usize(..ids.len()));
        }
        let many = ids.len() > 100;
        for id in ids {
            // What comes between the results of many calls would hardly ever leave them together.
            if !many || self.rng.u8(..32) == 0 {
                self.between();
            }
            let content = if many { json!("done") } else { content(&mut self.rng, "tool", self.taste) };
            let id = match self.rng.u16(..if many { 1000 } else { 24 }) {
                0 => None,
                1 => Some(odd(&mut self.rng, self.taste)),
                _ => Some(id),
            };
            self.result(id.clone(), content);
            if self.rng.u16(..if many { 1000 } else { 12 }) == 0 {
                self.note("a result twice", |maker| maker.result(id, json!("again")));
            }
        }
    }

    /// An assistant message with calls, and their ids.
    fn calls(&mut self) -> (Map<String, Value>, Vec<String>) {
        let many = self.rng.u8(..64) == 0;
        if many {
            self.events.push("more calls than OpenAI takes");
        }
        let count = if many { self.rng.usize(120..300) } else { self.rng.usize(1..5) };
        let mut calls: Vec<_> = (0..count).map(|_| self.call()).collect();
        // Few of so many are large.
        calls.retain(|(_, call)| !many || call.to_string().len() < 2000);
        let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
        match self.rng.u8(..4) {
            0 => {}
            1 => drop(message.insert("content".to_owned(), Value::Null)),
            2 => drop(message.insert("content".to_owned(), json!(""))),
            _ => {
                let content = content(&mut self.rng, "assistant", self.taste);
                message.insert("content".to_owned(), content);
            }
        }
        message.insert("tool_calls".to_owned(), calls.iter().map(|(_, call)| call.clone()).collect());
        reasoning(&mut self.rng, &mut message);
        (message, calls.into_iter().map(|(id, _)| id).collect())
    }

    /// What comes between results.
    fn between(&mut self) {
        match self.rng.u8(..24) {
            0 => self.note("user text between results", Self::user),
            1 => self.note("instructions between results", Self::system),
            2 => self.note("an assistant between results", Self::assistant),
            3 => self.note("another group between results", Self::group),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_history() {
        for seed in 0..200 {
            let (one, two) = (History::new(seed), History::new(seed));
            assert_eq!(one.messages, two.messages);
            assert!(!one.messages.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn messages_are_json_and_odd_in_every_way() {
        let taste = Taste { large_images: false, lone_surrogates: false };
        let all: Vec<_> = (0..1000).map(|seed| History::with(seed, taste)).collect();
        let mut seen = String::new();
        for history in &all {
            for message in &history.messages {
                let value: Value = serde_json::from_str(message).unwrap();
                assert!(value["role"].is_string());
            }
            seen.push_str(&history.messages.concat());
        }
        for sign in [
            "thinking_blocks",
            "reasoning_items",
            "reasoning_details",
            "redacted_thinking",
            "\"thinking\":\"\"",
            "reasoning_order",
            "function_call",
            "input_audio",
            "file_data",
            "\"custom\"",
            "\u{2028}",
            "\\u0000",
            "image/tiff",
            "refusal",
            "developer",
            "video_url",
            "http://",
            "\"content\":[]",
            "\"content\":\"\"",
            "\"arguments\":\"\"",
        ] {
            assert!(seen.contains(sign), "no history has {sign}");
        }
        for event in [
            "an interrupted batch",
            "a result twice",
            "a result before its call",
            "user text between results",
            "another group between results",
            "only results",
            "only instructions",
            "an id again",
            "a message again",
            "thoughts between calls",
            "thoughts between texts",
            "more calls than OpenAI takes",
        ] {
            assert!(all.iter().any(|history| history.events.contains(&event)), "no history has {event}");
        }
    }

    #[test]
    fn costly_and_odd_things_come_only_when_asked_for() {
        let tastes = [true, false].map(|yes| Taste { large_images: yes, lone_surrogates: yes });
        let [with, without] = tastes.map(|taste| (0..600).map(move |seed| History::with(seed, taste)));
        let is_json = |message: &str| serde_json::from_str::<Value>(message).is_ok();
        let (mut large, mut lone) = (0, 0);
        for message in with.flat_map(|history| history.messages) {
            large += usize::from(message.len() > 5_000_000);
            lone += usize::from(!is_json(&message));
        }
        assert!(large > 0 && lone > 0, "{large} large, {lone} lone");
        for message in without.flat_map(|history| history.messages) {
            assert!(message.len() < 2_000_000 && is_json(&message));
        }
    }

    #[test]
    fn shrinking_leaves_what_fails() {
        let history = History::new(7);
        let whole = History { messages: (0..40).map(|n| n.to_string()).collect(), ..history };
        let least = whole
            .shrink(|messages| messages.contains(&"13".to_owned()) && messages.contains(&"30".to_owned()));
        assert_eq!(least.messages, ["13", "30"]);
        assert!(least.describe().contains("history of seed 7"));
    }
}
