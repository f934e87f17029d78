//! One case: a task, what was done to it, and what must be true of it then.

use std::collections::BTreeMap;

use contextstore_proto::v1 as pb;
use contextstore_providers::histories::{History, Taste};
use fastrand::Rng;
use serde_json::Value;

use super::look::{groups, rendered};
use test_support::fake_llm::FakeLlm;
use test_support::scene::{Scene, by_hand, content, words};
use test_support::server::TestServer;
use test_support::service::reason;
use test_support::wire::{all, api, start_as, view};

/// What a model may answer that is asked for a summary.
const ANSWERS: [&str; 8] = [
    "<summary>ok</summary>",
    "Sure! I will now run the tests.",
    "",
    "<summary></summary>",
    "<retain>Nothing.</retain>",
    "<keep seq=\"3\"/><summary>The port is 8080. It went well, and the next step is the importer.</summary>",
    "I'm sorry, but I can't help with that.",
    "<summary>[Summary of messages 1–9]\nNever mind.</summary><retain>All of it.</retain>",
];

/// Tokens of the tools that are sent, at most.
const TOOLS: u64 = 300;
/// Tokens of what stands for a result that never came.
const STAND_IN: u64 = 10;

/// A message of the log, as far as it matters here.
struct Message {
    json: Value,
    tokens: u64,
}

/// A compression that can be taken back.
struct Before {
    lines: Vec<String>,
    /// Lines of the view it left.
    left: usize,
}

/// Says which case it is if it fails.
struct Said(u64, Vec<String>);

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "what is needed to see it again")]
            {
                eprintln!("CONTEXTSTORE_SEED={}\n{}", self.0, self.1.join("\n"));
            }
        }
    }
}

pub(crate) struct Case<'a> {
    fake: &'a FakeLlm,
    seed: u64,
    config: pb::TaskConfig,
    rng: Rng,
    scene: Scene<()>,
    said: Said,
    messages: Vec<Message>,
    /// Lines of messages that are pinned, by their numbers.
    pins: BTreeMap<u64, String>,
    /// Lines of the system prompt.
    system: Vec<String>,
    /// Ids of calls whose results never came, in any view so far.
    missing: Vec<String>,
    newest_plan: Option<String>,
    /// A provider has said what it counted, so that all counts are multiplied, by two at most.
    is_calibrated: bool,
    is_rewound: bool,
    stack: Vec<Before>,
    compressions: u64,
    undos: u64,
}

/// Whether a line is a result with what a message says.
fn is_result(line: &str, message: &Value) -> bool {
    let line: Value = serde_json::from_str(line).unwrap();
    ["role", "content", "tool_call_id"].iter().all(|field| line[*field] == message[*field])
}

fn is_summary(line: &str) -> bool {
    ["[Summary of messages ", "[Kept information]"].iter().any(|start| content(line).starts_with(start))
}

impl<'a> Case<'a> {
    pub(crate) async fn start(server: &TestServer, fake: &'a FakeLlm, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let config = pb::TaskConfig {
            // Trims have tests of their own; here nothing but a compaction changes a view.
            outputs: Some(pb::OutputsConfig { enabled: Some(false), ..Default::default() }),
            durability: pb::Durability::Process.into(),
            token_counter: [pb::TokenCounter::Heuristic, pb::TokenCounter::Fitted][rng.usize(..2)].into(),
            ..by_hand([300, 800, 3000, 20_000][rng.usize(..4)])
        };
        fake.reset();
        let mut api = api(server).await;
        let request = pb::StartTaskRequest { config: Some(config.clone()), ..Default::default() };
        let work = start_as(&mut api, request).await;
        let said = Said(seed, vec![format!("{} tokens", config.context_length.unwrap())]);
        let scene = Scene::on(api, work);
        let (messages, pins, system) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (missing, stack) = (Vec::new(), Vec::new());
        Self {
            fake,
            config,
            seed,
            rng,
            scene,
            said,
            messages,
            pins,
            system,
            missing,
            newest_plan: None,
            is_calibrated: false,
            is_rewound: false,
            stack,
            compressions: 0,
            undos: 0,
        }
    }

    fn note(&mut self, words: String) {
        self.said.1.push(words);
    }

    pub(crate) async fn run(mut self) -> (u64, u64) {
        self.append().await;
        for _ in 0..self.rng.u32(3..10) {
            match self.rng.u8(..20) {
                0..=3 => self.append().await,
                4 => self.usage().await,
                5 => self.plan().await,
                6..=13 => self.compress().await,
                14..=15 => self.by_agent().await,
                16..=18 => self.undo().await,
                _ => self.rewind().await,
            }
        }
        self.look_at_log().await;
        (self.compressions, self.undos)
    }

    /// More of a history, or of an ordinary conversation; some of it is pinned.
    async fn append(&mut self) {
        let taste = Taste { large_images: false, lone_surrogates: false };
        let more: Vec<String> = if self.rng.u8(..3) > 0 {
            History::with(self.rng.u64(..), taste).messages
        } else {
            let count = self.rng.u64(1..40);
            let role = |number: u64| if number.is_multiple_of(2) { "assistant" } else { "user" };
            let say =
                |number| serde_json::json!({"role": role(number), "content": words(number)}).to_string();
            (0..count).map(say).collect()
        };
        self.note(format!("appends {}", more.len()));
        let first = self.messages.len() as u64 + 1;
        let before = self.scene.lines().await;
        for json in more {
            let told =
                self.scene.api.append_message(self.scene.work.json(json.clone())).await.unwrap().into_inner();
            let json = serde_json::from_str(&json).unwrap();
            self.messages.push(Message { json, tokens: told.tokens });
            // An identical system prompt again changes nothing.
            assert!(told.seq <= self.messages.len() as u64);
        }
        let lines = self.scene.lines().await;
        assert_eq!(lines[..before.len()], before, "an append changed what was there");
        if first == 1 {
            let leading =
                |message: &&Message| message.json["role"] == "system" || message.json["role"] == "developer";
            let count = self.messages.iter().take_while(leading).count();
            self.system = lines[..count].to_vec();
        }
        self.missing.extend(groups(&lines));
        for seq in first..=self.messages.len() as u64 {
            if self.rng.u8(..20) == 0 {
                self.pin(seq).await;
            }
        }
    }

    /// Pins a message; what it looks like is the end of the view that it was the last one of.
    async fn pin(&mut self, seq: u64) {
        let request = pb::StreamCurrentRequest { as_of_seq: seq, ..self.scene.work.current() };
        let lines = view(&mut self.scene.api, request).await;
        let request = pb::PinMessageRequest {
            task_uuid: self.scene.work.uuid.clone(),
            seq,
            lease_generation: self.scene.work.lease,
            ..Default::default()
        };
        // Pins take a quarter of the limit at most.
        if let Err(status) = self.scene.api.pin_message(request).await {
            assert_eq!(reason(&status), "ERROR_REASON_INVALID_FIELD", "{status:?}");
            return;
        }
        self.note(format!("pins {seq}"));
        self.pins.insert(seq, lines.lines().last().unwrap().to_owned());
    }

    fn policy(&mut self) -> (String, pb::CompressRequest) {
        let rng = &mut self.rng;
        let strategy = ["summarize", "compact", "prune", "window"][rng.usize(..4)];
        let overrides = pb::CompressionConfig {
            keep_recent_messages: rng.bool().then(|| rng.u32(..12)),
            min_messages: rng.bool().then(|| rng.u32(1..8)),
            retain_last_turns: rng.bool().then(|| rng.u32(..4)),
            structured: rng.bool().then(|| rng.bool()),
            keep_plan: rng.bool().then(|| rng.bool()),
            threshold: rng.bool().then(|| 0.2 + rng.f64() * 0.8),
            // A model may answer anything.
            summarizer: if rng.u8(..3) == 0 { pb::Summarizer::Llm.into() } else { 0 },
            provider: pb::Provider::Ollama.into(),
            ..Default::default()
        };
        let window = rng.bool().then(|| pb::WindowConfig {
            messages: rng.bool().then(|| rng.u32(1..20)),
            tokens: rng.bool().then(|| rng.u64(50..2000)),
        });
        let prune = rng.bool().then(|| pb::PruneConfig {
            target: Some(0.1 + rng.f64() * 0.9),
            recency_weight: Some(rng.f64()),
            role_weight: Some(rng.f64()),
            content_weight: Some(rng.f64()),
        });
        let target_tokens = rng.bool().then(|| rng.u64(150..1500));
        let request = pb::CompressRequest {
            overrides: Some(overrides),
            window,
            prune,
            target_tokens,
            ..self.scene.ask(strategy)
        };
        (strategy.to_owned(), request)
    }

    async fn compress(&mut self) {
        let (strategy, request) = self.policy();
        let answer = ANSWERS[self.rng.usize(..ANSWERS.len())];
        self.fake.reset();
        self.fake.script(&serde_json::json!({"text": answer, "times": 2}));
        self.note(format!("a model would say {answer:?}"));
        self.note(format!("{request:?}"));
        let before = self.scene.lines().await;
        let (done, _) = self.scene.compress(request.clone()).await.unwrap();
        self.note(format!("{done:?}"));
        let after = self.scene.lines().await;
        if !done.compressed {
            assert_eq!(after, before, "nothing was to be done");
            return;
        }
        let overrides = request.overrides.clone().unwrap_or_default();
        self.look(&before, &after, &done).await;
        self.look_at_plan(&after, overrides.keep_plan() && done.messages_removed > 0);
        self.look_at_asked(&before, &after);
        if done.summary_id > 0 {
            self.look_at_goal(&before, &after);
        }
        let keeps = match &*strategy {
            "summarize" => overrides.keep_recent_messages != Some(0),
            "compact" => overrides.retain_last_turns != Some(0),
            // `prune` keeps the best, be they the newest or not.
            other => other == "window",
        };
        if keeps {
            self.look_at_newest(&before, &after);
        }
        // Where too few messages may go, what stays is made smaller, and that is all.
        // After a rewind the newest group of the view is another one than that of the log.
        let target = request.target_tokens.filter(|_| done.messages_removed > 0 && !self.is_rewound);
        if let Some(target) = target {
            // Summaries that are there already go with another summary only.
            let said =
                after.iter().filter(|line| is_summary(line)).map(|line| line.len() as u64 / 2).sum::<u64>();
            let said = if done.summary_id == 0 { said } else { 0 };
            // The tools of the last request are sent beside it.
            let request =
                pb::GetContextUsageRequest { task_uuid: self.scene.work.uuid.clone(), ..Default::default() };
            let tools = self.scene.api.get_context_usage(request).await.unwrap().into_inner().tools_tokens;
            let floor = self.floor(&strategy) + said + tools + 200;
            let floor = if self.is_calibrated { 2 * floor } else { floor };
            let most = target.max(floor) + STAND_IN * groups(&after).len() as u64;
            assert!(done.tokens_after <= most, "{} of {target}, {floor}: {after:#?}", done.tokens_after);
        }
        self.stack.push(Before { lines: before, left: after.len() });
    }

    /// A provider counts more than was thought, or less.
    async fn usage(&mut self) {
        let tokens = self.scene.pressure().await.tokens;
        let input_tokens = tokens * self.rng.u64(50..300) / 100;
        let request = pb::RecordUsageRequest {
            task_uuid: self.scene.work.uuid.clone(),
            input_tokens,
            lease_generation: self.scene.work.lease,
            ..Default::default()
        };
        let told = self.scene.api.record_usage(request).await.unwrap().into_inner().pressure.unwrap().tokens;
        self.note(format!("{input_tokens} are reported, {tokens} were told, {told} are told now"));
        assert!(told >= input_tokens, "the provider has read {input_tokens}, {told} are told");
        self.is_calibrated = true;
    }

    async fn plan(&mut self) {
        let text = format!("Plan {}: {}", self.rng.u8(..), words(self.rng.u64(..100)));
        let plan = pb::AppendPlanRequest {
            task_uuid: self.scene.work.uuid.clone(),
            plan_type: "planning".to_owned(),
            plan_content_json: Value::from(text.as_str()).to_string(),
            lease_generation: self.scene.work.lease,
            ..Default::default()
        };
        self.scene.api.append_plan(plan).await.unwrap();
        self.note(format!("plans {text}"));
        self.newest_plan = Some(text);
    }

    /// The newest plan is there once, if it is to stay: whole, or cut to what a view can bear.
    fn look_at_plan(&self, after: &[String], stays: bool) {
        let Some(text) = self.newest_plan.as_ref().filter(|_| stays) else { return };
        let told = plans(after);
        let is_cut = told.first().is_some_and(|told| told.contains("characters left out of the plan"));
        // A plan has a quarter of the limit, and counts may be multiplied by two.
        let is_large = text.len() as u64 / 2 * 2 > self.config.context_length.unwrap() / 4;
        assert_eq!(told.len(), 1, "{after:#?}");
        assert!(told[0] == *text || (is_cut && is_large), "{text}: {after:#?}");
    }

    /// A summary says in the user's own words what the goal is, unless all that the user said still stands in the view.
    fn look_at_goal(&self, before: &[String], after: &[String]) {
        let gone: Vec<String> = before
            .iter()
            .filter(|line| value(line)["role"] == "user" && !is_ours(line) && !after.contains(line))
            .map(|line| even(&content(line)))
            // Less is no sentence.
            .filter(|text| text.chars().filter(|c| c.is_alphanumeric()).count() > 20)
            .collect();
        let summaries = after.iter().filter(|line| is_summary(line)).map(|line| content(line));
        let goals: Vec<String> = summaries.flat_map(|text| goal_of(&text)).collect();
        let said: Vec<String> = self.messages.iter().map(|message| even(&text_of(&message.json))).collect();
        let is_said = |goal: &String| said.iter().any(|text| text.contains(goal.as_str()));
        assert!(gone.is_empty() || goals.iter().any(is_said), "no goal: {goals:?}, {gone:?}: {after:#?}");
    }

    /// The last message of the user stays with every strategy, word for word; it is shortened only if it is larger than the
    /// limit has room for.
    fn look_at_asked(&self, before: &[String], after: &[String]) {
        let is_asked = |line: &&String| value(line)["role"] == "user" && !is_ours(line);
        let Some(asked) = before.iter().rfind(is_asked) else { return };
        // Pins, the system prompt and tools take room, and counts may be multiplied by two.
        let said = value(asked);
        let known = self.messages.iter().rfind(|message| message.json["content"] == said["content"]);
        let tokens = known.map_or(asked.len() as u64, |message| message.tokens) + self.floor("") + TOOLS;
        let is_large = 4 * tokens > self.config.context_length.unwrap();
        assert!(after.contains(asked) || is_large, "{asked} is gone: {after:#?}");
    }

    /// What was said last is still there, whole or by head and tail.
    fn look_at_newest(&self, before: &[String], after: &[String]) {
        let is_there = |line: &String| {
            after.contains(line)
                || after.iter().any(|other| {
                    let (one, other) = (value(line), value(other));
                    ["role", "tool_call_id", "tool_calls"].iter().all(|field| one[*field] == other[*field])
                        && other["content"].to_string().contains("characters left out; ")
                })
        };
        let newest = before.last().filter(|line| !is_ours(line));
        assert!(newest.is_none_or(is_there), "{newest:?} is gone: {after:#?}");
    }

    /// What no strategy can let go: the system prompt, pinned groups, the newest group, what the user asked, and the plan.
    fn floor(&self, strategy: &str) -> u64 {
        let plan = self.newest_plan.as_ref().map_or(0, |text| text.len() as u64 / 2);
        let mut groups: Vec<(u64, bool, u64)> = Vec::new();
        let (mut calls, mut leading) = (false, true);
        for (message, seq) in self.messages.iter().zip(1..) {
            let role = message.json["role"].as_str().unwrap_or_default();
            leading &= role == "system" || role == "developer";
            let stays = leading || self.pins.contains_key(&seq);
            match groups.last_mut().filter(|_| calls && role == "tool") {
                Some((tokens, fixed, _)) => {
                    *tokens += message.tokens;
                    *fixed |= stays;
                }
                None => {
                    groups.push((message.tokens, stays, u64::from(role == "user")));
                    calls = message.json["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
                }
            }
        }
        let fixed: u64 = groups.iter().filter(|(_, fixed, _)| *fixed).map(|(tokens, _, _)| tokens).sum();
        let newest = groups.iter().rev().find(|(_, fixed, _)| !fixed).map_or(0, |(tokens, _, _)| *tokens);
        let turns = groups.iter().rev().filter(|(_, fixed, user)| !fixed && *user > 0).take(4);
        let turns: Vec<u64> = turns.map(|(tokens, _, _)| *tokens).collect();
        let turns = if strategy == "compact" { &turns[..] } else { &turns[..turns.len().min(1)] };
        fixed + newest + plan + turns.iter().sum::<u64>()
    }

    /// What must hold of a view that was compressed.
    async fn look(&mut self, before: &[String], after: &[String], done: &pb::CompressDone) {
        self.compressions += 1;
        assert_eq!(after[..self.system.len()], self.system, "the system prompt");
        assert!(after.len() > self.system.len(), "nothing is left:\n{before:#?}");
        for (seq, line) in &self.pins {
            // A result that came too late stands behind its call again, if both are pinned.
            let message = &self.messages[usize::try_from(*seq).unwrap() - 1].json;
            let is_late = message["role"] == "tool" && after.iter().any(|line| is_result(line, message));
            assert!(
                after.contains(line) || is_late,
                "message {seq} is pinned and not there: {line}\n{after:#?}"
            );
        }
        let missing = groups(after);
        for id in &missing {
            assert!(
                self.missing.contains(id),
                "the result of {id} was there before:\n{before:#?}\n{after:#?}"
            );
        }
        // A newer plan may be longer than what went.
        let renewed = plans(before).len() == 1 && plans(after).len() == 1 && plans(before) != plans(after);
        assert!(done.tokens_after < done.tokens_before || renewed, "{done:?}");
        let tokens = self.scene.pressure().await.tokens;
        assert_eq!(done.tokens_after, tokens, "{after:#?}");
        let messages = (done.messages_before, done.messages_after);
        assert_eq!(messages, (before.len() as u64, after.len() as u64), "{before:#?}\n{after:#?}");
        self.look_at_requests().await;
    }

    /// Every provider takes what is rendered of the view; what is over the limit is refused with both figures.
    async fn look_at_requests(&mut self) {
        let pressure = self.scene.pressure().await;
        let is_over = pressure.tokens > pressure.limit;
        if is_over {
            let refused = all(self.scene.api.render_context(self.scene.work.request("openai")).await).await;
            assert_eq!(reason(&refused.unwrap_err()), "ERROR_REASON_REQUEST_TOO_LARGE", "{pressure:?}");
        }
        // A model that takes more.
        self.scene.update(pb::TaskConfig { context_length: Some(50_000_000), ..self.config.clone() }).await;
        rendered(&mut self.scene, self.seed).await;
        self.scene.update(self.config.clone()).await;
    }

    async fn by_agent(&mut self) {
        let before = self.scene.lines().await;
        let strategy = ["summarize", "compact"][self.rng.usize(..2)];
        let request = pb::BeginCompactionRequest { target_tokens: Some(1000), ..self.scene.agent(strategy) };
        let Ok((begun, lines)) = self.scene.begin(request).await else { return };
        self.note(format!("an agent summarises {}–{} of {}", begun.start_seq, begun.end_seq, begun.messages));
        let keep_seqs =
            lines.iter().filter_map(|line| line["seq"].as_u64()).filter(|_| self.rng.u8(..8) == 0);
        let commit = pb::CommitCompactionRequest {
            keep_seqs: keep_seqs.collect(),
            ..self.scene.commit(&begun.token, ["It went well.", "ok", ""][self.rng.usize(..3)])
        };
        match self.scene.api.commit_compaction(commit).await {
            Ok(done) => {
                let (done, after) = (done.into_inner().done.unwrap(), self.scene.lines().await);
                self.note(format!("{done:?}"));
                self.look(&before, &after, &done).await;
                self.look_at_asked(&before, &after);
                self.look_at_goal(&before, &after);
                self.stack.push(Before { lines: before, left: after.len() });
            }
            Err(status) => {
                assert_eq!(reason(&status), "ERROR_REASON_SUMMARY_REFUSED", "{status:?}");
                self.scene.api.abort_compaction(self.scene.abort(&begun.token)).await.unwrap();
            }
        }
    }

    async fn undo(&mut self) {
        let now = self.scene.lines().await;
        let undone = self.scene.undo().await;
        match self.stack.pop() {
            Some(Before { lines, left }) => {
                undone.unwrap();
                self.undos += 1;
                self.note("takes it back".to_owned());
                assert_eq!(self.scene.lines().await, [&lines[..], &now[left..]].concat());
            }
            None => assert_eq!(reason(&undone.unwrap_err()), "ERROR_REASON_NOTHING_TO_UNDO"),
        }
    }

    /// Back to what the view was after a message; what is pinned behind it is not there then.
    async fn rewind(&mut self) {
        let seq = self.rng.u64(1..=self.messages.len() as u64);
        let first_closed = self.system.len() as u64;
        if seq < first_closed {
            return;
        }
        let request = pb::StreamCurrentRequest { as_of_seq: seq, ..self.scene.work.current() };
        let then = view(&mut self.scene.api, request).await;
        self.scene.api.rewind_task(self.scene.work.rewind(seq)).await.unwrap();
        self.note(format!("goes back to {seq}"));
        self.is_rewound = true;
        let lines = self.scene.lines().await;
        assert_eq!(lines, then.lines().collect::<Vec<_>>());
        self.pins.retain(|pinned, line| *pinned <= seq && lines.contains(line));
        self.missing.extend(groups(&lines));
        self.stack.clear();
    }

    /// Every message is still in the log, as it came.
    async fn look_at_log(&mut self) {
        let request = pb::StreamMessagesRequest {
            kinds: vec![pb::RecordKind::Message.into()],
            ..self.scene.work.messages()
        };
        let batches = all(self.scene.api.stream_messages(request).await).await.unwrap();
        let records: Vec<Value> = batches
            .into_iter()
            .flat_map(|batch| batch.records)
            .map(|line| serde_json::from_slice(&line).unwrap())
            .collect();
        assert_eq!(records.len(), self.messages.len());
        for (line, message) in records.iter().zip(&self.messages) {
            assert_eq!((&line["role"], &line["content"]), (&message.json["role"], &message.json["content"]));
        }
    }
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Whether a line is a note, a summary, or a result without a call, which is shown as the user's.
fn is_ours(line: &str) -> bool {
    content(line).starts_with('[') || line.contains("\"[Tool: ")
}

/// A text of which white space does not count.
fn even(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of the goal that a summary names, without the mark of a cut.
fn goal_of(summary: &str) -> Vec<String> {
    let section = summary.split_once("## Goal\n").map_or("", |(_, section)| section);
    let lines = section.lines().map_while(|line| line.strip_prefix("- "));
    lines.map(|line| even(line).trim_end_matches('…').trim_end().to_owned()).collect()
}

/// The texts of a message.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let said = |part: &Value| match part["refusal"].as_str() {
                Some(refusal) => Some(format!("[refused: {refusal}]")),
                None => part["text"].as_str().map(str::to_owned),
            };
            parts.iter().filter_map(said).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

/// The plans that a view tells.
fn plans(lines: &[String]) -> Vec<String> {
    let texts = lines.iter().map(|line| content(line));
    let plan = |text: String| {
        text.strip_prefix("[Current plan as of")?.split_once('\n').map(|(_, plan)| plan.to_owned())
    };
    texts.filter_map(plan).collect()
}
