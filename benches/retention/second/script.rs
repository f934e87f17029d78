//! Turns a script into a session: owns the notation of scripts, the marks of facts, and where noise goes.
//!
//! The notation, line by line:
//!
//! - `#key value` in the head: `name`, `ext` (language of the code), `root` (its directory), `words` (what things are
//!   called there), `tools` (names of the shell, read and search tools), `noise` (kinds of noise, more often named is
//!   more often used).
//! - `S: `, `U: `, `A: ` start the system prompt, a user turn, an assistant turn; lines up to the next start belong to it.
//! - `A> ` is what the assistant says with the call that follows. `T: tool | argument` is a call, the lines after it its
//!   result; `T+: ` is one more call in the same message. In a result `@kind count` stands for generated lines.
//! - `~` alone on a line is a place for noise.
//! - `⟨one¦other⟩` is a choice by variant. `⟪hex7.a⟫` is a random value; the same name is the same value.
//! - `⟦k:probe⟧` marks a fact (k is one of c, d, p, e, i for its kind), `⟦-k#1:probe⟧` an old value that the fact
//!   `⟦k#1:probe⟧` replaces.

use std::collections::BTreeMap;

use super::noise::{self, About, Setting};
use super::talk::Talk;
use super::{Fact, Kind, Rng, Session};
use serde_json::{Value, json};

/// No noise beyond so many messages.
const MOST: usize = 188;

/// A session, and what its tests need to know.
pub(super) struct Built {
    pub(super) session: Session,
    /// Each probe with the message it was planted in.
    #[cfg_attr(not(test), allow(dead_code, reason = "only the tests read it"))]
    pub(super) marks: Vec<(String, usize)>,
    /// Old and new probes.
    #[cfg_attr(not(test), allow(dead_code, reason = "only the tests read it"))]
    pub(super) replaced: Vec<(String, String)>,
}

/// A part of a script.
enum Block {
    User(String),
    Assistant(String),
    /// What is said with it, and the calls: tool, argument, result.
    Calls(Option<String>, Vec<Call>),
    Noise,
}

struct Call {
    tool: String,
    argument: String,
    result: String,
}

/// The session of a script in one of its variants.
pub(super) fn build(script: &str, variant: usize) -> Built {
    let name = script.lines().find_map(|line| line.strip_prefix("#name ")).unwrap_or("unnamed");
    let name = format!("{name}-{}", variant + 1);
    let mut rng = Rng::new(&name);
    let script = randoms(&choices(script, variant), &mut rng);
    let (head, body) = script.split_once("\nS: ").unwrap_or((&script, ""));
    let setting = Setting::new(head, &mut rng);
    let (system, blocks) = blocks(body);
    let talk = Talk::new(name.starts_with("ja-"), &mut rng);
    let session = Session::new(name, system.trim());
    let built = Built { session, marks: Vec::new(), replaced: Vec::new() };
    let mut writer = Writer {
        built,
        rng,
        setting,
        talk,
        probes: probes(body),
        scripted: false,
        debt: 0,
        last: Role::System,
        numbered: BTreeMap::new(),
    };
    writer.write(blocks);
    writer.built
}

/// With `⟨one¦other⟩` chosen.
fn choices(script: &str, variant: usize) -> String {
    let mut out = String::new();
    let mut rest = script;
    while let Some((before, after)) = rest.split_once('⟨') {
        let (options, after) = after.split_once('⟩').unwrap_or((after, ""));
        out.push_str(before);
        let options: Vec<&str> = options.split('¦').collect();
        out.push_str(options[variant % options.len()]);
        rest = after;
    }
    out + rest
}

/// With `⟪kind.name⟫` filled in.
fn randoms(script: &str, rng: &mut Rng) -> String {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut out = String::new();
    let mut rest = script;
    while let Some((before, after)) = rest.split_once('⟪') {
        let (what, after) = after.split_once('⟫').unwrap_or((after, ""));
        out.push_str(before);
        let kind = what.split('.').next().unwrap_or_default();
        let count = kind.trim_start_matches(char::is_alphabetic).parse().unwrap_or(4);
        let value =
            known.get(what).cloned().unwrap_or_else(|| match kind.trim_end_matches(char::is_numeric) {
                "hex" => rng.hex(count),
                "uuid" => rng.uuid(),
                "up" => rng.letters(b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789", count),
                _ => rng.digits(count),
            });
        out.push_str(&value);
        if what.contains('.') {
            known.insert(what.to_owned(), value);
        }
        rest = after;
    }
    out + rest
}

/// The system prompt and the blocks.
fn blocks(body: &str) -> (String, Vec<Block>) {
    let mut system = String::new();
    let mut blocks = Vec::new();
    let mut says: Option<String> = None;
    let mut in_says = false;
    for line in body.lines() {
        let call = |rest: &str| {
            let (tool, argument) = rest.split_once(" | ").unwrap_or((rest, ""));
            Call { tool: tool.to_owned(), argument: argument.to_owned(), result: String::new() }
        };
        let starts = ["U: ", "A: ", "A> ", "T: ", "T+: "];
        let start = starts.into_iter().find(|start| line.starts_with(start));
        let rest = start.map_or(line, |start| &line[start.len()..]);
        if start.is_some() || line == "~" {
            in_says = start == Some("A> ");
        }
        match start {
            Some("U: ") => blocks.push(Block::User(rest.to_owned())),
            Some("A: ") => blocks.push(Block::Assistant(rest.to_owned())),
            Some("A> ") => says = Some(rest.to_owned()),
            Some("T: ") => blocks.push(Block::Calls(says.take(), vec![call(rest)])),
            Some(_) => {
                if let Some(Block::Calls(_, calls)) = blocks.last_mut() {
                    calls.push(call(rest));
                }
            }
            None if line == "~" => blocks.push(Block::Noise),
            None => {
                let text = match blocks.last_mut() {
                    _ if in_says => says.get_or_insert_default(),
                    Some(Block::User(text) | Block::Assistant(text)) => text,
                    Some(Block::Calls(_, calls)) => match calls.last_mut() {
                        Some(call) => &mut call.result,
                        None => continue,
                    },
                    Some(Block::Noise) => continue,
                    None => &mut system,
                };
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(line);
            }
        }
    }
    (system, blocks)
}

/// All probes that are marked.
fn probes(body: &str) -> Vec<String> {
    let marked = body.split('⟦').skip(1).filter_map(|part| part.split_once('⟧'));
    marked.filter_map(|(mark, _)| mark.split_once(':')).map(|(_, probe)| probe.to_owned()).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

struct Writer {
    built: Built,
    rng: Rng,
    setting: Setting,
    talk: Talk,
    probes: Vec<String>,
    /// If the last calls are from the script.
    scripted: bool,
    /// Noise that is there beyond what was asked for.
    debt: usize,
    /// Whose message is the last one.
    last: Role,
    /// Old and new probes by number.
    numbered: BTreeMap<String, (Vec<String>, String)>,
}

impl Writer {
    fn write(&mut self, blocks: Vec<Block>) {
        let scripted: usize = blocks.iter().map(Block::size).sum();
        let gaps = blocks.iter().filter(|block| matches!(block, Block::Noise)).count() + 1;
        let target = if self.talk.japanese {
            self.rng.between(66_000, 140_000)
        } else {
            self.rng.between(70_000, 190_000)
        };
        let share = target.saturating_sub(scripted) / gaps;
        self.setting.lines = self.rng.between(target / 2_400, target / 800);
        let mut left = gaps;
        for block in blocks {
            match block {
                Block::User(text) => self.user(&text),
                Block::Assistant(text) => self.assistant(&text),
                Block::Calls(says, calls) => {
                    self.calls(says, calls);
                    self.scripted = true;
                }
                Block::Noise => {
                    let share = share * self.rng.between(60, 140) / 100;
                    left -= 1;
                    // Less where nothing is planted any more.
                    let most = if left == 1 { 8 } else { 22 };
                    self.noise(share, 0, most);
                }
            }
        }
        self.setting.lines /= 2;
        self.noise(share / 2, 14, 20);
        self.flow(Role::Assistant);
        let numbered = std::mem::take(&mut self.numbered).into_values();
        self.built.replaced =
            numbered.flat_map(|(old, new)| old.into_iter().map(move |old| (old, new.clone()))).collect();
    }

    /// Puts in the short turn that is missing between the last message and one of this role.
    fn flow(&mut self, next: Role) {
        match (self.last, next) {
            (Role::Tool, Role::User) if self.scripted => {
                self.talked("assistant", |talk, rng, _| talk.taken_in(rng))
            }
            (Role::Tool, Role::User) => {
                self.talked("assistant", |talk, rng, setting| talk.wrap_up(rng, setting))
            }
            (Role::User, Role::User) => self.talked("assistant", |talk, rng, _| talk.answer(rng)),
            (Role::Assistant, Role::Assistant) => self.talked("user", |talk, rng, _| talk.nudge(rng)),
            _ => {}
        }
    }

    /// A turn of small talk that has no probe in it.
    fn talked(&mut self, role: &str, text: impl Fn(&mut Talk, &mut Rng, &Setting) -> String) {
        let mut said = text(&mut self.talk, &mut self.rng, &self.setting);
        while self.has_probe(&said) {
            said = text(&mut self.talk, &mut self.rng, &self.setting);
        }
        self.push(&json!({"role": role, "content": said}));
    }

    fn push(&mut self, message: &Value) {
        self.built.session.messages.push(message.to_string());
        self.last = match message["role"].as_str() {
            Some("user") => Role::User,
            Some("tool") => Role::Tool,
            _ => Role::Assistant,
        };
    }

    fn user(&mut self, text: &str) {
        self.flow(Role::User);
        let text = self.marked(text);
        // Some clients send parts.
        let parts = self.rng.chance(8);
        let content = if parts { json!([{"type": "text", "text": text}]) } else { json!(text) };
        self.push(&json!({"role": "user", "content": content}));
    }

    fn assistant(&mut self, text: &str) {
        self.flow(Role::Assistant);
        let text = self.marked(text);
        self.push(&json!({"role": "assistant", "content": text}));
    }

    fn calls(&mut self, says: Option<String>, calls: Vec<Call>) {
        self.flow(Role::Assistant);
        let says = says.map(|says| self.marked(&says));
        let mut made = Vec::new();
        let mut results = Vec::new();
        for call in calls {
            let id = format!(
                "call_{}",
                self.rng.letters(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 24)
            );
            let arguments = arguments(&call.tool, &self.marked(&call.argument));
            made.push(json!({"id": id, "type": "function", "function": {"name": call.tool, "arguments": arguments.to_string()}}));
            results.push((id, call.result));
        }
        self.push(&json!({"role": "assistant", "content": says, "tool_calls": made}));
        for (id, result) in results {
            let result = self.expanded(&result);
            let result = self.marked(&result);
            self.push(&json!({"role": "tool", "tool_call_id": id, "content": result}));
        }
    }

    /// A result with its `@kind count` lines replaced.
    fn expanded(&mut self, result: &str) -> String {
        let mut out: Vec<String> = Vec::new();
        for line in result.lines() {
            let directive = line.strip_prefix('@').and_then(|line| line.split_once(' '));
            match directive.and_then(|(kind, count)| Some((kind, count.parse().ok()?))) {
                Some((kind, count)) => {
                    for _ in 0..20 {
                        let lines =
                            noise::lines(kind, count, &About::default(), &mut self.rng, &self.setting);
                        if !self.has_probe(&lines) {
                            out.push(lines);
                            break;
                        }
                    }
                }
                None => out.push(line.to_owned()),
            }
        }
        out.join("\n")
    }

    /// The text without its marks; they are noted for the next message.
    fn marked(&mut self, text: &str) -> String {
        let at = self.built.session.messages.len();
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('⟦') {
            let (mark, after) = after.split_once('⟧').unwrap_or((after, ""));
            let (what, probe) = mark.split_once(':').unwrap_or(("=", mark));
            out.push_str(before);
            out.push_str(probe);
            self.plant(what, probe);
            self.built.marks.push((probe.to_owned(), at));
            rest = after;
        }
        out + rest
    }

    fn plant(&mut self, what: &str, probe: &str) {
        let (what, number) = what.split_once('#').unwrap_or((what, ""));
        let superseded = what.starts_with('-');
        let kind = match what.trim_start_matches('-') {
            "c" => Kind::Constraint,
            "d" => Kind::Decision,
            "p" => Kind::Path,
            "e" => Kind::Error,
            "i" => Kind::Id,
            _ => return,
        };
        self.built.session.facts.push(Fact { kind, probe: probe.to_owned(), superseded });
        if !number.is_empty() {
            let (old, new) = self.numbered.entry(number.to_owned()).or_default();
            if superseded {
                old.push(probe.to_owned());
            } else {
                probe.clone_into(new);
            }
        }
    }

    fn has_probe(&self, text: &str) -> bool {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.probes.iter().any(|probe| text.contains(probe.as_str()))
    }

    /// Noise of about so many bytes, and of `least` to `most` messages.
    fn noise(&mut self, bytes: usize, least: usize, most: usize) {
        let before = self.built.session.messages.len();
        let mut done = std::mem::take(&mut self.debt);
        while done < bytes || self.built.session.messages.len() < before + least {
            let len = self.built.session.messages.len();
            if len >= before + most - 4 || len >= MOST {
                break;
            }
            let at = self.built.session.messages.len();
            if self.rng.chance(self.setting.chatty) && self.last != Role::User {
                self.chat();
            } else {
                self.routine();
            }
            done += self.built.session.messages[at..].iter().map(String::len).sum::<usize>();
        }
        self.debt = done.saturating_sub(bytes);
    }

    fn chat(&mut self) {
        let (asks, answers) = self.talk.exchange(&mut self.rng, &self.setting);
        if self.has_probe(&asks) || self.has_probe(&answers) {
            return;
        }
        self.flow(Role::User);
        self.push(&json!({"role": "user", "content": asks}));
        self.push(&json!({"role": "assistant", "content": answers}));
    }

    /// One or two calls of the everyday kind.
    fn routine(&mut self) {
        let count = if self.rng.chance(15) { 2 } else { 1 };
        let mut calls = Vec::new();
        while calls.len() < count {
            let (tool, argument, result) = noise::call(&mut self.rng, &self.setting);
            if !self.has_probe(&result) && !self.has_probe(&argument) {
                calls.push(Call { tool, argument, result });
            }
        }
        let mut says = None;
        if self.rng.chance(45) {
            let said = self.talk.lead_in(&mut self.rng, &self.setting);
            says = (!self.has_probe(&said)).then_some(said);
        }
        self.calls(says, calls);
        self.scripted = false;
    }
}

impl Block {
    fn size(&self) -> usize {
        match self {
            Self::User(text) | Self::Assistant(text) => text.len(),
            Self::Calls(says, calls) => {
                let says = says.as_ref().map_or(0, String::len);
                says + calls.iter().map(|call| call.argument.len() + call.result.len()).sum::<usize>()
            }
            Self::Noise => 0,
        }
    }
}

/// The arguments of a call, under the name that such a tool gives them.
fn arguments(tool: &str, argument: &str) -> Value {
    let has = |parts: &[&str]| parts.iter().any(|part| tool.contains(part));
    let key = if has(&["sql", "query"]) {
        "query"
    } else if has(&["fetch", "http", "web", "browse"]) {
        "url"
    } else if has(&["grep", "search"]) {
        "pattern"
    } else if has(&["read", "open", "view", "edit", "write", "list", "patch"]) {
        "path"
    } else if has(&["ticket", "issue"]) {
        "id"
    } else {
        "command"
    };
    match argument.split_once(" ;; ") {
        Some((argument, content)) => json!({key: argument, "content": content}),
        None => json!({key: argument}),
    }
}
