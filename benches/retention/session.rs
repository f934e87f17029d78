//! What a generator gives the retention benchmark: sessions of an agent, and the facts that were planted in them.
//!
//! - A probe is the shortest text that shows that the fact is still known, in the words of who stated it: a path, a
//!   code, an id, the distinctive words of a constraint. Upper and lower case count, runs of white space are one space.
//! - It occurs in the session, not in its first message (the system prompt, which every strategy keeps), and not only
//!   in its last messages, which every strategy keeps too.
//! - The probe of a superseded fact does not occur in what supersedes it, nor after it.

use serde_json::{Value, json};

/// One conversation of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// What it is about, and its number: `en-database-migration-3`.
    pub(crate) name: String,
    /// OpenAI chat messages as JSON, the first one the system prompt.
    pub(crate) messages: Vec<String>,
    /// What was planted.
    pub(crate) facts: Vec<Fact>,
}

/// Something that an agent must still know later on.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) kind: Kind,
    /// Text that must be found in the plain text of the view.
    pub(crate) probe: String,
    /// What replaced or withdrew it later: the probe of a fact, or a sentence. Empty if it holds.
    pub(crate) newer: Vec<String>,
}

impl Fact {
    pub(crate) fn holds(&self) -> bool {
        self.newer.is_empty()
    }
}

/// What kind of fact it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// What the user wants, or does not want, to be done.
    Constraint,
    /// What was decided.
    Decision,
    /// The path of a file that matters.
    Path,
    /// The code or the message of an error.
    Error,
    /// An id, a number, an address.
    Id,
    /// What the user wants in the end.
    Goal,
    /// What the user asked for last.
    Request,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Constraint => "constraint",
            Self::Decision => "decision",
            Self::Path => "path",
            Self::Error => "error",
            Self::Id => "id",
            Self::Goal => "goal",
            Self::Request => "request",
        }
    }
}

impl Session {
    /// A session with its system prompt.
    pub(crate) fn new(name: String, system: &str) -> Self {
        let system = json!({"role": "system", "content": system}).to_string();
        Self { name, messages: vec![system], facts: Vec::new() }
    }

    pub(crate) fn user(&mut self, text: &str) {
        self.messages.push(json!({"role": "user", "content": text}).to_string());
    }

    pub(crate) fn assistant(&mut self, text: &str) {
        self.messages.push(json!({"role": "assistant", "content": text}).to_string());
    }

    /// An assistant's call of a tool, and its result.
    pub(crate) fn tool(&mut self, says: Option<&str>, name: &str, arguments: &Value, result: &str) {
        let id = format!("call_{}", self.messages.len());
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!([{"id": id, "type": "function", "function": function}]);
        self.messages.push(json!({"role": "assistant", "content": says, "tool_calls": call}).to_string());
        self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}).to_string());
    }

    /// Panics if a fact cannot be looked for.
    pub(crate) fn check(&self) {
        let texts: Vec<String> = self.messages.iter().map(|message| plain(message)).collect();
        for fact in &self.facts {
            let probe = spaced(&fact.probe);
            let is_in = |text: &String| text.contains(&probe);
            assert!(probe.chars().count() >= 4, "{}: {probe:?} is found by chance", self.name);
            assert!(texts.iter().skip(1).any(is_in), "{}: {probe:?} does not occur", self.name);
            assert!(!is_in(&texts[0]), "{}: {probe:?} is in the system prompt", self.name);
            let late = !fact.holds() && texts.iter().skip(texts.len() - texts.len() / 10).any(is_in);
            assert!(!late, "{}: {probe:?} is superseded, but stated again at the end", self.name);
        }
    }
}

/// A message as plain text: its content and its calls, white space made even.
pub(crate) fn plain(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    let mut text = String::new();
    let mut add = |part: Option<&str>| {
        text.push_str(part.unwrap_or_default());
        text.push('\n');
    };
    let content = &message["content"];
    match content.as_array() {
        Some(parts) => parts.iter().for_each(|part| add(part["text"].as_str())),
        None => add(content.as_str()),
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        add(function["name"].as_str());
        let arguments = function["arguments"].as_str().unwrap_or_default();
        // Arguments with their escapes undone, as a model reads them.
        let value: Value = serde_json::from_str(arguments).unwrap_or_default();
        match value.as_object() {
            Some(fields) => {
                for (name, value) in fields {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    add(Some(&format!("{name}: {value}")));
                }
            }
            None => add(Some(arguments)),
        }
    }
    spaced(&text)
}

/// The plain text of a view without its system prompt.
pub(crate) fn text_of(view: &[String]) -> String {
    view.iter().skip(1).map(|message| plain(message)).collect::<Vec<_>>().join("\n")
}

/// With every run of white space as one space.
pub(crate) fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
