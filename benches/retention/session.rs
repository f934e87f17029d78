//! What a generator gives the retention benchmark: sessions of an agent, and the facts that were planted in them.
//! Says nothing about what a summary keeps or how.
//!
//! A generator is a module with a function `sessions() -> Vec<Session>`, seeded, so that it gives the same sessions
//! each time. What holds for its facts is checked by [`Session::check`]:
//!
//! - A probe is the shortest text that shows that the fact is still known, in the words of who stated it: a path, a
//!   code, an id, a value with its name, the distinctive words of a constraint or decision. Upper and lower case
//!   count, runs of white space are one space.
//! - It occurs in the session, and not in its first message (the system prompt, which every strategy keeps).
//! - The probe of a superseded fact is of the old statement, and does not occur in the one that supersedes it or after
//!   it: "the port is 5432", where the newer one says "use 6543 instead of 5432 from now on".
//! - Facts are planted all over the session. What stands only in its last messages is known to every strategy.

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

/// Something that an agent must still know later on, or must not believe any more.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) kind: Kind,
    /// Text that must be found in the plain text of the view.
    pub(crate) probe: String,
    /// A newer fact took its place: it must not be found.
    pub(crate) superseded: bool,
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
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Constraint, Self::Decision, Self::Path, Self::Error, Self::Id];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Constraint => "constraints",
            Self::Decision => "decisions",
            Self::Path => "paths",
            Self::Error => "errors",
            Self::Id => "ids",
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

    /// Plants a fact that stays true.
    pub(crate) fn fact(&mut self, kind: Kind, probe: impl Into<String>) {
        self.facts.push(Fact { kind, probe: probe.into(), superseded: false });
    }

    /// Plants a fact that does not.
    pub(crate) fn superseded(&mut self, kind: Kind, probe: impl Into<String>) {
        self.facts.push(Fact { kind, probe: probe.into(), superseded: true });
    }

    /// Panics if a fact cannot be looked for.
    pub(crate) fn check(&self) {
        let texts: Vec<String> = self.messages.iter().map(|message| plain(message)).collect();
        for Fact { probe, superseded, .. } in &self.facts {
            let probe = spaced(probe);
            let is_in = |text: &String| text.contains(&probe);
            assert!(probe.chars().count() >= 4, "{}: {probe:?} is found by chance", self.name);
            assert!(texts.iter().skip(1).any(is_in), "{}: {probe:?} does not occur", self.name);
            assert!(!is_in(&texts[0]), "{}: {probe:?} is in the system prompt", self.name);
            let tail = texts.len() - texts.len() / 10;
            let late = *superseded && texts.iter().skip(tail).any(is_in);
            assert!(!late, "{}: {probe:?} is superseded, but said again at the end", self.name);
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

/// With every run of white space as one space.
pub(crate) fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
