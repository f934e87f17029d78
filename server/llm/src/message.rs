//! Collects the events of an answer into the assistant message for the log.

use serde_json::{Map, Value, json};

use super::decode::{AnswerEvent, ToolCallDelta, Usage};
use crate::model::{InvalidField, Json, NewMessage, Provider};

/// The assistant message as far as it has arrived.
#[derive(Debug)]
pub struct AnswerMessage {
    provider: Provider,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<CollectedCall>,
    /// JSON items that return to the provider unchanged.
    opaque: Vec<String>,
    /// The parts in the order of their arrival.
    steps: Vec<AnswerPart>,
    usage: Option<Usage>,
    finish: Option<String>,
    bytes: usize,
}

/// A part of the answer: characters of text, a tool call by its index, or an opaque item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerPart {
    Text(usize),
    CollectedCall(usize),
    Thought,
}

#[derive(Debug, Default)]
struct CollectedCall {
    id: String,
    name: String,
    custom: bool,
    arguments: String,
}

impl AnswerMessage {
    /// Returns an empty message.
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            opaque: Vec::new(),
            steps: Vec::new(),
            usage: None,
            finish: None,
            bytes: 0,
        }
    }

    /// Adds an event.
    pub fn add(&mut self, event: &AnswerEvent) {
        match event {
            AnswerEvent::Text(more) => {
                self.text.push_str(more);
                let characters = more.chars().count();
                match self.steps.last_mut() {
                    Some(AnswerPart::Text(before)) => *before += characters,
                    _ => self.steps.push(AnswerPart::Text(characters)),
                }
            }
            AnswerEvent::Reasoning(more) => self.reasoning.push_str(more),
            AnswerEvent::Refusal(more) => self.refusal.push_str(more),
            AnswerEvent::ToolCall(piece) => self.call(piece),
            AnswerEvent::Opaque(item) => {
                self.opaque.push(item.clone());
                self.steps.push(AnswerPart::Thought);
            }
            AnswerEvent::Usage(usage) => self.usage = Some(*usage),
            AnswerEvent::Finish(reason) => self.finish = Some(reason.clone()),
        }
        self.bytes += event.bytes();
    }

    fn call(&mut self, piece: &ToolCallDelta) {
        let at = piece.index as usize;
        if at == self.calls.len() {
            self.calls.push(CollectedCall::default());
            self.steps.push(AnswerPart::CollectedCall(at));
        }
        let Some(call) = self.calls.get_mut(at) else { return };
        call.id.push_str(&piece.id);
        call.name.push_str(&piece.name);
        call.custom |= piece.custom;
        call.arguments.push_str(&piece.arguments);
    }

    /// Returns the approximate size of the message in the log.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the usage that the provider has reported so far.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Returns why the model stopped, or `None` while the answer is incomplete.
    pub fn finish_reason(&self) -> Option<&str> {
        self.finish.as_deref()
    }

    /// Returns the message, marked as interrupted if it is incomplete, or `None` if it is empty.
    pub fn message(&self) -> Result<Option<NewMessage>, InvalidField> {
        let whole = self.finish.is_some();
        // An incomplete call cannot be executed.
        let calls: Vec<Value> =
            self.calls.iter().filter(|call| whole || call.is_whole()).map(CollectedCall::json).collect();
        let is_empty =
            self.text.is_empty() && self.reasoning.is_empty() && self.refusal.is_empty() && calls.is_empty();
        if !whole && is_empty && self.opaque.is_empty() {
            return Ok(None);
        }
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        let no_text = self.text.is_empty() && (!calls.is_empty() || !self.refusal.is_empty());
        message.insert("content".to_owned(), if no_text { Value::Null } else { json!(self.text) });
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), json!(self.refusal));
        }
        match self.provider {
            Provider::Ollama if !self.reasoning.is_empty() => {
                message.insert("thinking".to_owned(), json!(self.reasoning));
            }
            // These providers keep their reasoning in the opaque items.
            Provider::Anthropic | Provider::OpenAiResponses if !self.opaque.is_empty() => {}
            _ if self.reasoning.is_empty() => {}
            Provider::OpenAi
            | Provider::LmStudio
            | Provider::Ollama
            | Provider::Anthropic
            | Provider::OpenAiResponses => {
                message.insert("reasoning_content".to_owned(), json!(self.reasoning));
            }
        }
        let end = match &self.finish {
            Some(reason) => ("finish_reason", json!(reason)),
            None => ("interrupted", json!(true)),
        };
        message.insert(end.0.to_owned(), end.1);
        let mut text = Value::Object(message).to_string();
        if let Some(opaque) = self.opaque() {
            // Opaque items keep their bytes.
            text.pop();
            let with = format!("{text},{opaque}}}");
            text.push('}');
            // If the opaque items are ambiguous JSON, the answer is kept without them.
            if let Ok(message) = NewMessage::from_json(&with) {
                return Ok(Some(message));
            }
        }
        NewMessage::from_json(&text).map(Some)
    }

    fn opaque(&self) -> Option<String> {
        let name = self.provider.thoughts()?;
        let items = (!self.opaque.is_empty()).then(|| format!("\"{name}\":[{}]", self.opaque.join(",")))?;
        Some(match self.order() {
            Some(order) => format!("{items},\"{}\":[{}]", Provider::ORDER, order.join(",")),
            None => items,
        })
    }

    /// Returns the order of the parts, unless it is the usual one: reasoning, text, calls.
    fn order(&self) -> Option<Vec<String>> {
        let whole = self.finish.is_some();
        let kept = |step: &&AnswerPart| match step {
            AnswerPart::CollectedCall(at) => {
                whole || self.calls.get(*at).is_some_and(CollectedCall::is_whole)
            }
            AnswerPart::Text(_) | AnswerPart::Thought => true,
        };
        let rank = |step: &AnswerPart| match step {
            AnswerPart::Thought => 0,
            AnswerPart::Text(_) => 1,
            AnswerPart::CollectedCall(_) => 2,
        };
        let steps: Vec<&AnswerPart> = self.steps.iter().filter(kept).collect();
        let word = |step: &&AnswerPart| match step {
            AnswerPart::Thought => "\"thought\"".to_owned(),
            AnswerPart::Text(characters) => characters.to_string(),
            AnswerPart::CollectedCall(_) => "\"call\"".to_owned(),
        };
        let usual = steps.is_sorted_by_key(|step| rank(step));
        (!usual).then(|| steps.iter().map(word).collect())
    }
}

impl CollectedCall {
    fn is_whole(&self) -> bool {
        !self.name.is_empty()
            && !self.custom
            && self.arguments.starts_with('{')
            && Json::parse(&self.arguments).is_ok()
    }

    fn json(&self) -> Value {
        let Self { id, name, custom, arguments } = self;
        if *custom {
            json!({ "id": id, "type": "custom", "custom": { "name": name, "input": arguments } })
        } else {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(provider: Provider, events: &[AnswerEvent]) -> AnswerMessage {
        let mut message = AnswerMessage::new(provider);
        events.iter().for_each(|event| message.add(event));
        message
    }

    fn piece(index: u32, id: &str, name: &str, arguments: &str) -> AnswerEvent {
        let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
        AnswerEvent::ToolCall(ToolCallDelta { index, id, name, custom: false, arguments })
    }

    fn extra(message: &NewMessage) -> String {
        message.extra.as_ref().map_or(String::new(), |extra| extra.as_str().to_owned())
    }

    #[test]
    fn a_whole_answer_keeps_what_its_provider_wants_back_byte_for_byte() {
        let block = r#"{"signature":"s==", "type":"thinking","thinking":"\u00e9"}"#;
        let answer = collected(
            Provider::Anthropic,
            &[
                AnswerEvent::Reasoning("é".to_owned()),
                AnswerEvent::Opaque(block.to_owned()),
                AnswerEvent::Text("Let me ".to_owned()),
                AnswerEvent::Text("look".to_owned()),
                piece(0, "a", "f", ""),
                piece(0, "", "", "{\"x\":"),
                piece(0, "", "", "1}"),
                piece(1, "b", "g", "not json"),
                AnswerEvent::Finish("tool_calls".to_owned()),
            ],
        );
        let message = answer.message().unwrap().unwrap();
        assert_eq!(message.content.as_ref().unwrap().as_str(), "\"Let me look\"");
        let calls = message.tool_calls.as_ref().unwrap().as_str();
        assert!(calls.contains(r#""arguments":"{\"x\":1}""#) && calls.contains("not json"), "{calls}");
        // Insignificant white space is removed, as in every message.
        let kept = r#"{"signature":"s==","type":"thinking","thinking":"\u00e9"}"#;
        assert_eq!(
            extra(&message),
            format!(r#"{{"finish_reason":"tool_calls","thinking_blocks":[{kept}]}}"#)
        );
    }

    /// Items that came between calls return between them.
    #[test]
    fn the_order_of_what_came_is_kept_where_it_is_not_the_usual_one() {
        let thought =
            |name: &str| AnswerEvent::Opaque(format!(r#"{{"type":"redacted_thinking","data":"{name}"}}"#));
        let mut events = vec![
            thought("1"),
            AnswerEvent::Text("é".to_owned()),
            AnswerEvent::Text("!".to_owned()),
            piece(0, "a", "f", "{}"),
            thought("2"),
            piece(1, "b", "g", "{"),
            thought("3"),
            AnswerEvent::Text("so".to_owned()),
        ];
        let order = |events: &[AnswerEvent]| {
            let message = collected(Provider::Anthropic, events).message().unwrap().unwrap();
            let extra: Value = serde_json::from_str(&extra(&message)).unwrap();
            assert_eq!(extra["thinking_blocks"].as_array().unwrap().len(), 3);
            extra["reasoning_order"].clone()
        };
        // An incomplete call appears neither among the calls nor in the order.
        assert_eq!(order(&events), json!(["thought", 2, "call", "thought", "thought", 2]));
        events.push(AnswerEvent::Finish("stop".to_owned()));
        assert_eq!(order(&events), json!(["thought", 2, "call", "thought", "call", "thought", 2]));
    }

    #[test]
    fn what_was_cut_off_has_no_half_calls() {
        let answer = collected(
            Provider::OpenAi,
            &[AnswerEvent::Text("I".to_owned()), piece(0, "a", "f", "{}"), piece(1, "b", "g", "{\"x\":")],
        );
        let message = answer.message().unwrap().unwrap();
        let calls = message.tool_calls.as_ref().unwrap().as_str();
        assert!(calls.contains("\"a\"") && !calls.contains("\"b\""), "{calls}");
        assert_eq!(extra(&message), r#"{"interrupted":true}"#);

        let only_half = collected(Provider::OpenAi, &[piece(0, "b", "g", "{\"x\":")]);
        assert_eq!(only_half.message(), Ok(None));
        assert_eq!(collected(Provider::OpenAi, &[AnswerEvent::Usage(Usage::default())]).message(), Ok(None));
    }

    #[test]
    fn reasoning_has_the_name_that_its_provider_gives_it() {
        for (provider, name) in [
            (Provider::OpenAi, "reasoning_content"),
            (Provider::Ollama, "thinking"),
            (Provider::Anthropic, "reasoning_content"),
        ] {
            let events = [AnswerEvent::Reasoning("hm".to_owned()), AnswerEvent::Finish("stop".to_owned())];
            let message = collected(provider, &events).message().unwrap().unwrap();
            assert!(extra(&message).contains(&format!("\"{name}\":\"hm\"")), "{}", extra(&message));
            assert_eq!(message.content.unwrap().as_str(), "\"\"");
        }
    }

    #[test]
    fn opaque_items_that_cannot_be_read_back_do_not_cost_the_answer() {
        let events = [
            AnswerEvent::Opaque(r#"{"a":1,"a":2}"#.to_owned()),
            AnswerEvent::Text("x".to_owned()),
            AnswerEvent::Finish("stop".to_owned()),
        ];
        let message = collected(Provider::OpenAiResponses, &events).message().unwrap().unwrap();
        assert_eq!(extra(&message), r#"{"finish_reason":"stop"}"#);
    }
}
