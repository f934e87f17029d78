//! The model of one task: the lines that its logs must hold, and everything that follows from them, worked
//! out anew from the first line each time. It shares the nouns with the store, and none of its code.

use std::collections::BTreeSet;

use contextstore_base::model::{
    Durability, Health, Holder, LiteralKind, Metadata, NewMessage, OutputRef, Role, Segment, Status, TaskId,
    TaskRow, TokenCounter, json::Json,
};

use super::words::{shown, shown_name};

/// A message, with its JSON values as they were sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) tokens: u64,
    pub(crate) content: Option<String>,
    pub(crate) tool_name: Option<String>,
    /// The calls, in order.
    pub(crate) calls: Option<Vec<Call>>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) pinned: bool,
    pub(crate) output_ref: Option<String>,
    /// Raw keys and values.
    pub(crate) extra: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn plain(role: Role, content: String, tokens: u64) -> Self {
        Self {
            role,
            tokens,
            content: Some(content),
            tool_name: None,
            calls: None,
            tool_call_id: None,
            name: None,
            pinned: false,
            output_ref: None,
            extra: Vec::new(),
        }
    }

    fn tool_calls(&self) -> Option<String> {
        let calls = self.calls.as_ref()?;
        Some(format!("[{}]", calls.iter().map(|call| call.text.as_str()).collect::<Vec<_>>().join(",")))
    }

    /// As it is sent.
    pub(crate) fn sent(&self) -> NewMessage {
        let json = |text: &String| Json::parse(text).unwrap();
        NewMessage {
            role: self.role,
            content: self.content.as_ref().map(json),
            tool_name: self.tool_name.as_ref().map(json),
            tool_calls: self.tool_calls().as_ref().map(json),
            tool_call_id: self.tool_call_id.as_ref().map(json),
            name: self.name.as_ref().map(json),
            extra: (!self.extra.is_empty()).then(|| json(&object(&self.extra))),
            pinned: self.pinned,
            output_ref: self.output_ref.as_ref().map(|text| OutputRef::parse(text).unwrap()),
        }
    }

    /// The part of its line behind the envelope.
    pub(crate) fn body(&self, request: Option<&str>) -> String {
        let quoted = |text: &str| format!("\"{text}\"");
        let fields = [
            ("content", self.content.clone()),
            ("tool_name", self.tool_name.clone()),
            ("tool_calls", self.tool_calls()),
            ("tool_call_id", self.tool_call_id.clone()),
            ("name", self.name.clone()),
            ("pinned", self.pinned.then(|| "true".to_owned())),
            ("output_ref", self.output_ref.as_deref().map(quoted)),
            ("request_id", request.map(quoted)),
            ("extra", (!self.extra.is_empty()).then(|| object(&self.extra))),
        ];
        let present = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
        present.map(|(key, value)| format!(",\"{key}\":{value}")).collect()
    }
}

fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// What a JSON text says.
fn text_of(json: &str) -> String {
    serde_json::from_str(json).unwrap()
}

/// A configuration, as far as the tests set it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Config {
    pub(crate) model: &'static str,
    pub(crate) context_length: Option<u64>,
    pub(crate) durability: Option<Durability>,
    pub(crate) counter: Option<TokenCounter>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rewrite {
    pub(crate) strategy: String,
    pub(crate) base: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) covers: u64,
    pub(crate) reason: String,
    pub(crate) segments: Vec<Segment>,
}

impl Rewrite {
    pub(crate) fn body(&self) -> String {
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let parent = self.parent.map_or_else(String::new, |parent| format!(",\"parent\":{parent}"));
        let segments: Vec<String> = self.segments.iter().map(segment_text).collect();
        format!(
            ",\"ordinal\":{},\"strategy\":{},\"base\":{}{parent},\"covers\":{},\"reason\":{},\"segments\":[{}]",
            self.base + 1,
            quoted(&self.strategy),
            self.base,
            self.covers,
            quoted(&self.reason),
            segments.join(",")
        )
    }

    /// The segments for a later rewrite.
    pub(crate) fn by_reference(&self) -> Vec<Segment> {
        let mut segments = self.segments.clone();
        for (index, segment) in segments.iter_mut().enumerate() {
            if let Segment::Literal(_) = segment {
                *segment = Segment::Earlier { rewrite: self.base + 1, index };
            }
        }
        segments
    }
}

fn segment_text(segment: &Segment) -> String {
    match segment {
        Segment::Keep { from, to, trim_except: None } => format!("{{\"keep\":[{from},{to}]}}"),
        Segment::Keep { from, to, trim_except: Some(except) } => {
            let seqs: Vec<String> = except.iter().map(u64::to_string).collect();
            let seqs =
                if seqs.is_empty() { String::new() } else { format!(",\"except\":[{}]", seqs.join(",")) };
            format!("{{\"keep\":[{from},{to}],\"trim_outputs\":true{seqs}}}")
        }
        Segment::Replace { seq, content, tokens } => {
            format!("{{\"seq\":{seq},\"content\":{},\"tokens\":{tokens}}}", content.as_str())
        }
        Segment::Literal(literal) => {
            let kind = match literal.kind {
                LiteralKind::Summary => "summary",
                LiteralKind::Retain => "retain",
                LiteralKind::Gap => "gap",
                LiteralKind::Inherited => "inherited",
                LiteralKind::Note => "note",
            };
            let summary = literal.summary.as_ref();
            let summary = summary.map_or_else(String::new, |text| format!(",\"summary\":{}", text.as_str()));
            format!(
                "{{\"literal\":{{\"role\":\"{}\",\"content\":{}}},\"kind\":\"{kind}\",\"tokens\":{}{summary}}}",
                literal.role.as_str(),
                literal.content.as_str(),
                literal.tokens
            )
        }
        Segment::Earlier { rewrite, index } => format!("{{\"rewrite\":{rewrite},\"index\":{index}}}"),
    }
}

/// What a line of the log says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Started,
    Lease { generation: u64, holder: Holder },
    Message(Box<Message>),
    Config(Config),
    Rewrite(Rewrite),
    Status { status: Status, error: Option<String>, summary: Option<String> },
    Usage { input: u64, counted: u64, of_tools: u64 },
    Statistics { llm: u64, tools: u64, tokens: u64, compressions: u64 },
    Pin { seq: u64, pinned: bool },
    Forked,
    Tool { success: bool },
    Plan { kind: String, content: String },
}

/// A call with an id: what it asked for and what it was told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) asked: String,
    pub(crate) told: u64,
}

/// Stands in a body for 32 hex digits that only the store knows.
pub(crate) const DIGEST: &str = "<digest>";

/// A line of a log.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) what: What,
    pub(crate) body: String,
    pub(crate) request: Option<Request>,
    /// The line as it was first seen, without its line end.
    pub(crate) text: String,
}

impl Line {
    pub(crate) fn new(what: What, body: String) -> Self {
        Self { what, body, request: None, text: String::new() }
    }

    pub(crate) fn started(id: TaskId) -> Self {
        Self::new(What::Started, format!(",\"uuid\":\"{id}\",\"format_version\":1"))
    }

    pub(crate) fn asked(mut self, request: Option<Request>) -> Self {
        self.request = request;
        self
    }

    /// An event that names the call behind it.
    pub(crate) fn event(what: What, mut body: String, request: Option<Request>) -> Self {
        if let Some(request) = &request {
            let id = &request.id;
            body.push_str(&format!(",\"request_id\":\"{id}\",\"request_digest\":\"{DIGEST}\""));
        }
        Self::new(what, body).asked(request)
    }

    /// The last message before a record.
    fn after(&self) -> u64 {
        let rest = self.body.strip_prefix(",\"after\":").unwrap();
        rest.split_once(',').unwrap().0.parse().unwrap()
    }

    fn time(&self) -> chrono::DateTime<chrono::Utc> {
        let key = if matches!(self.what, What::Plan { .. }) { "created_at" } else { "timestamp" };
        let (_, rest) = self.text.split_once(&format!("\"{key}\":\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    }
}

/// The three logs of a task.
pub(crate) const LOG: usize = 0;
pub(crate) const TOOLS: usize = 1;
pub(crate) const PLANS: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) config: Config,
    pub(crate) logs: [Vec<Line>; 3],
    /// How many lines of each log no power cut may take.
    pub(crate) safe: [usize; 3],
    pub(crate) metadata: Option<Metadata>,
    /// Somebody was told that it is there.
    pub(crate) told: bool,
    /// The lease that it began with.
    pub(crate) first: u64,
}

/// What follows from a log.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) last_seq: u64,
    pub(crate) status: Option<Status>,
    pub(crate) lease: Option<(u64, Holder)>,
    pub(crate) generation: u64,
    pub(crate) holder: Option<Holder>,
    pub(crate) config: Config,
    /// Rewrites with the message they came after.
    pub(crate) rewrites: Vec<(Rewrite, u64)>,
    pub(crate) pins: BTreeSet<u64>,
    llm: u64,
    tools: u64,
    tokens: u64,
    compressions: u64,
    /// What counts are multiplied by, in millionths, less one million.
    calibration: i128,
    /// What was charged for the view as it is, and what was counted of that.
    reported: Option<(u64, u64)>,
    /// Tokens of the tools that were sent with the last call that was reported.
    sent: u64,
    /// Of the last message, if it is the assistant's and the view was not rewritten since.
    pub(crate) answer: u64,
    error: Option<String>,
    pub(crate) final_summary: Option<String>,
}

impl Task {
    /// The lines that a fork begins with: those before the message after its last, but that the first is its own, and
    /// the records that were written before it, without the ids of their calls.
    pub(crate) fn forked(&self, id: TaskId, at_seq: u64) -> [Vec<Line>; 3] {
        let mut seq = 0;
        let next = self.logs[LOG].iter().position(|line| {
            seq += u64::from(matches!(line.what, What::Message(_)));
            seq > at_seq
        });
        let mut log = self.logs[LOG][..next.unwrap_or(self.logs[LOG].len())].to_vec();
        log[0] = Line::started(id);
        for line in &mut log {
            line.request = None;
        }
        let records = |log: &[Line]| {
            let old = log.iter().filter(|line| next.is_none() || line.after() <= at_seq);
            let nameless = |line: &Line| {
                let body = line.body.split_once(",\"request_id\":").map_or(&*line.body, |(body, _)| body);
                Line::new(line.what.clone(), body.to_owned())
            };
            old.map(nameless).collect()
        };
        [log, records(&self.logs[TOOLS]), records(&self.logs[PLANS])]
    }

    /// Tokens of a message.
    pub(crate) fn tokens_of(&self, seq: u64) -> u64 {
        self.messages()[usize::try_from(seq - 1).unwrap()].tokens
    }

    /// Pinned messages take a quarter of the limit at most.
    pub(crate) fn has_room_for_pin(&self, state: &State, tokens: u64) -> bool {
        let pinned: u64 = state.pins.iter().map(|seq| self.tokens_of(*seq)).sum();
        pinned + tokens <= state.config.context_length.unwrap_or(128_000) / 4
    }
}

impl State {
    pub(crate) fn status(&self) -> Status {
        self.status.unwrap_or(Status::Running)
    }

    fn calibrate(&mut self, input: u64, counted: u64) {
        // What is less than half of the view is of something else.
        if input == 0 || input < counted / 2 {
            return;
        }
        self.reported = Some((input, counted));
        if counted >= 200 {
            let before = 1_000_000 + self.calibration;
            let ratio = i128::from(input) * 1_000_000 / i128::from(counted);
            let step = ratio.max(before * 4 / 5).min(before * 5 / 4);
            self.calibration = step.clamp(800_000, 2_000_000) - 1_000_000;
        }
    }

    /// So many counted tokens of the view as callers are told them: with the tools, and no less than what was charged and
    /// what came since.
    pub(crate) fn calibrated(&self, counted: u64) -> u64 {
        let counted = i128::from(counted + self.sent);
        let by_factor = |tokens: i128| tokens * (1_000_000 + self.calibration) / 1_000_000;
        let reported = self.reported.map_or(0, |(input, of)| {
            let (input, of) = (i128::from(input), i128::from(of));
            if counted >= of { input + by_factor(counted - of) } else { input * counted / of }
        });
        u64::try_from(by_factor(counted).max(reported)).unwrap()
    }

    /// The counter of messages that come now.
    pub(crate) fn counter(&self) -> TokenCounter {
        self.config.counter.unwrap_or_default()
    }

    pub(crate) fn view_generation(&self) -> u64 {
        self.rewrites.len() as u64
    }

    /// Whether the view has a message, be it smaller than it is.
    pub(crate) fn is_in_view(&self, seq: u64) -> bool {
        let Some((newest, _)) = self.rewrites.last().filter(|(newest, _)| seq <= newest.covers) else {
            return true;
        };
        newest.segments.iter().any(|segment| match segment {
            Segment::Keep { from, to, .. } => (*from..=*to).contains(&seq),
            Segment::Replace { seq: own, .. } => *own == seq,
            Segment::Literal(_) | Segment::Earlier { .. } => false,
        })
    }
}

impl Task {
    pub(crate) fn state(&self) -> State {
        let mut state = State { config: self.config.clone(), ..State::default() };
        for line in &self.logs[LOG] {
            match &line.what {
                What::Started | What::Tool { .. } | What::Plan { .. } => {}
                What::Lease { generation, holder } => {
                    // Only a resume is given to a task that is not running.
                    state.status = Some(Status::Running);
                    state.generation = *generation;
                    state.holder = Some(holder.clone());
                    state.lease = Some((*generation, holder.clone()));
                }
                What::Message(message) => {
                    state.last_seq += 1;
                    state.answer = if message.role == Role::Assistant { message.tokens } else { 0 };
                    if message.pinned {
                        state.pins.insert(state.last_seq);
                    }
                }
                What::Config(config) => state.config = config.clone(),
                What::Rewrite(rewrite) => {
                    let compacts = ["summarize", "compact", "prune", "window"];
                    state.compressions += u64::from(compacts.contains(&rewrite.strategy.as_str()));
                    state.rewrites.push((rewrite.clone(), state.last_seq));
                    state.answer = 0;
                    state.reported = None;
                }
                What::Status { status, error, summary } => {
                    state.status = Some(*status);
                    state.error.clone_from(error);
                    state.final_summary.clone_from(summary);
                    if *status != Status::Running {
                        state.lease = None;
                    }
                }
                What::Usage { input, counted, of_tools } => {
                    state.llm += 1;
                    state.tokens += input + 1;
                    state.calibrate(*input, *counted);
                    state.sent = *of_tools;
                }
                What::Statistics { llm, tools, tokens, compressions } => {
                    state.llm += llm;
                    state.tools += tools;
                    state.tokens += tokens;
                    state.compressions += compressions;
                }
                What::Forked => {
                    (state.status, state.lease) = (Some(Status::Running), None);
                    (state.error, state.final_summary) = (None, None);
                }
                What::Pin { seq, pinned: true } => {
                    state.pins.insert(*seq);
                }
                What::Pin { seq, pinned: false } => {
                    state.pins.remove(seq);
                }
            }
        }
        state
    }

    /// The call of that id, with its line.
    pub(crate) fn request(&self, log: usize, id: &str) -> Option<(usize, &Request)> {
        let lines = self.logs[log].iter().enumerate();
        lines
            .filter_map(|(at, line)| Some((at, line.request.as_ref()?)))
            .find(|(_, request)| request.id == id)
    }

    pub(crate) fn messages(&self) -> Vec<&Message> {
        let message = |line: &'_ Line| matches!(line.what, What::Message(_));
        let lines = self.logs[LOG].iter().filter(|line| message(line));
        lines
            .filter_map(|line| if let What::Message(message) = &line.what { Some(&**message) } else { None })
            .collect()
    }

    /// The summaries, one a line.
    pub(crate) fn summaries(&self) -> String {
        let rewrites = self.state().rewrites;
        let segments = rewrites.iter().flat_map(|(rewrite, _)| &rewrite.segments);
        segments
            .filter_map(|segment| match segment {
                Segment::Literal(literal) => literal.summary.as_ref(),
                Segment::Keep { .. } | Segment::Replace { .. } | Segment::Earlier { .. } => None,
            })
            .map(|record| format!("{}\n", record.as_str()))
            .collect()
    }

    /// The row that the catalog must have.
    pub(crate) fn row(&self) -> TaskRow {
        let (state, view) = (self.state(), self.view(None));
        let metadata = self.metadata.clone().unwrap();
        let (first, last) = (self.logs[LOG].first().unwrap(), self.logs[LOG].last().unwrap());
        // What a fork was copied from may have ended.
        let own = self.logs[LOG].iter().rposition(|line| line.what == What::Forked).unwrap_or(0);
        let ended = self.logs[LOG][own..].iter().find(|line| {
            matches!(&line.what, What::Status { status: Status::Completed | Status::Failed, .. })
        });
        let holder = state.holder.clone().unwrap();
        let tool_calls = self.logs[TOOLS].len() as u64;
        TaskRow {
            uuid: self.id,
            key: metadata.task_key.clone(),
            repository: metadata.repository.clone(),
            status: state.status(),
            health: Health::Ok,
            user: metadata.user.clone(),
            created_at: metadata.created_at,
            started_at: first.time(),
            updated_at: last.time(),
            completed_at: ended.map(Line::time),
            process_id: holder.process_id,
            hostname: holder.hostname,
            llm_provider: String::new(),
            model: state.config.model.to_owned(),
            context_length: state.config.context_length,
            llm_call_count: state.llm,
            tool_call_count: state.tools + tool_calls,
            total_tokens: state.tokens,
            compression_count: state.compressions,
            total_messages: state.last_seq,
            total_summaries: self.summaries().lines().count() as u64,
            total_tool_calls: tool_calls,
            final_token_count: ended.map(|_| view.tokens),
            final_message_count: ended.map(|_| view.lines.len() as u64),
            error_message: state.error,
            metadata: serde_json::to_value(metadata).unwrap(),
        }
    }

    /// The view as it is, or as it was after a message.
    pub(crate) fn view(&self, as_of: Option<u64>) -> View {
        let (state, messages) = (self.state(), self.messages());
        let to = as_of.unwrap_or(state.last_seq);
        let newest = state.rewrites.iter().rev().find(|(_, after)| *after <= to).map(|(rewrite, _)| rewrite);
        let mut view = View::default();
        let log = |seq: u64| messages[usize::try_from(seq).unwrap() - 1].clone();
        for segment in newest.map_or(&[][..], |rewrite| &rewrite.segments) {
            match segment {
                Segment::Keep { from, to, trim_except } => {
                    for seq in *from..=*to {
                        let mut message = log(seq);
                        let trims = trim_except.as_ref().is_some_and(|except| !except.contains(&seq));
                        if trims && message.role == Role::Tool {
                            let place = match &message.output_ref {
                                Some(output_ref) => format!("ref={output_ref}"),
                                None => format!("seq={seq}"),
                            };
                            message.content = Some(format!("\"[tool output trimmed; {place}]\""));
                            message.tokens = 12;
                        }
                        view.show(seq, &message);
                        view.output_tokens -= if trims && message.role == Role::Tool { 12 } else { 0 };
                    }
                }
                Segment::Replace { seq, content, tokens } => {
                    let content = Some(content.as_str().to_owned());
                    view.show(*seq, &Message { content, tokens: *tokens, ..log(*seq) });
                }
                Segment::Literal(literal) => {
                    let content = literal.content.as_str().to_owned();
                    view.show(0, &Message::plain(literal.role, content, literal.tokens));
                }
                Segment::Earlier { rewrite, index } => {
                    let earlier = &state.rewrites[usize::try_from(*rewrite).unwrap() - 1].0.segments[*index];
                    let Segment::Literal(literal) = earlier else { panic!("refers to no literal") };
                    let content = literal.content.as_str().to_owned();
                    view.show(0, &Message::plain(literal.role, content, literal.tokens));
                }
            }
        }
        for seq in newest.map_or(0, |rewrite| rewrite.covers) + 1..=to {
            view.show(seq, &log(seq));
        }
        view
    }
}

/// A call as it is sent; if it is one, its id, and what stands behind the id where it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) text: String,
    pub(crate) shown: Option<(String, &'static str)>,
}

/// A view: lines without their ends.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) lines: Vec<String>,
    pub(crate) extra: Vec<String>,
    pub(crate) tokens: u64,
    /// Tokens of outputs that are not trimmed.
    pub(crate) output_tokens: u64,
    /// Ids of the calls that have no result yet, as they were sent.
    pub(crate) open: Vec<String>,
    /// The same ids as they are shown.
    open_shown: Vec<String>,
}

impl View {
    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(crate) fn extra_text(&self) -> String {
        self.extra.iter().map(|line| format!("{line}\n")).collect()
    }

    fn show(&mut self, seq: u64, message: &Message) {
        let id = message.tool_call_id.as_deref().filter(|_| message.role == Role::Tool).map(text_of);
        let answered = id.and_then(|id| self.open.iter().position(|open| text_of(open) == id));
        let answers = match answered {
            Some(place) => {
                self.open.remove(place);
                Some(self.open_shown.remove(place))
            }
            None => {
                self.open.clear();
                for id in std::mem::take(&mut self.open_shown) {
                    let content = "[no result: the call was interrupted]";
                    self.lines.push(format!(
                        "{{\"role\":\"tool\",\"content\":\"{content}\",\"tool_call_id\":{id}}}"
                    ));
                    self.tokens += 10;
                }
                None
            }
        };
        let sent = message.calls.as_deref().filter(|_| message.role == Role::Assistant).unwrap_or_default();
        let (mut calls, mut whole) = (Vec::new(), true);
        for (index, call) in sent.iter().enumerate() {
            let Some((id, rest)) = &call.shown else {
                whole = false;
                continue;
            };
            let twice = self.open.iter().any(|open| text_of(open) == text_of(id));
            let shown = if twice { format!("\"call_{seq}_{index}\"") } else { id.clone() };
            whole &= !twice;
            calls.push(format!("{{\"id\":{shown},{rest}"));
            self.open.push(id.clone());
            self.open_shown.push(shown);
        }
        self.tokens += message.tokens;
        self.output_tokens += if message.role == Role::Tool { message.tokens } else { 0 };
        let lifted = |key: &str| message.role == Role::Assistant && ["refusal", "audio"].contains(&key);
        let extra = |wanted: &str| {
            let found = message.extra.iter().find(|(key, _)| text_of(key) == wanted && lifted(wanted));
            found.map(|(_, value)| value.clone())
        };
        let orphaned = message.role == Role::Tool && answers.is_none();
        let role = if orphaned { Role::User } else { message.role };
        let given = message.content.as_deref().unwrap_or("null");
        let (content, all) = shown(given, role);
        let mut keys = vec![("content", Some(content.clone()))];
        if orphaned {
            keys = vec![("content", Some(orphan(message, &content)))];
        } else if given == "null" && !calls.is_empty() {
            keys = vec![("content", message.content.clone())];
        }
        keys.push(("refusal", extra("refusal")));
        keys.push(("audio", extra("audio")));
        let name = message.name.as_ref().filter(|_| message.role != Role::Tool).map(|name| shown_name(name));
        keys.push(("name", name.clone()));
        keys.push(("tool_call_id", answers));
        keys.push(("tool_calls", (!calls.is_empty()).then(|| format!("[{}]", calls.join(",")))));
        let fields = keys.into_iter().filter_map(|(key, value)| Some(format!(",\"{key}\":{}", value?)));
        self.lines.push(format!("{{\"role\":\"{}\"{}}}", role.as_str(), fields.collect::<String>()));

        let mut aside = String::new();
        let beside = [
            ("tool_name", message.tool_name.clone()),
            ("name", message.name.clone().filter(|given| name.as_ref() != Some(given))),
            ("content", message.content.clone().filter(|_| !all && !orphaned)),
            ("tool_calls", message.tool_calls().filter(|_| !whole)),
        ];
        for (key, value) in beside {
            if let Some(value) = value {
                aside.push_str(&format!(",\"{key}\":{value}"));
            }
        }
        let rest = message.extra.iter().filter(|(key, _)| !lifted(&text_of(key)));
        let rest: Vec<(String, String)> = rest.cloned().collect();
        if !rest.is_empty() {
            aside.push_str(&format!(",\"extra\":{}", object(&rest)));
        }
        if !aside.is_empty() {
            self.extra.push(format!("{{\"line\":{},\"seq\":{seq}{aside}}}", self.lines.len()));
        }
    }
}

/// A result that answers no call, as a user's message.
fn orphan(message: &Message, content: &str) -> String {
    let names = [&message.tool_name, &message.name, &message.tool_call_id];
    let name = names.into_iter().flatten().next().map_or("unknown", |name| &name[1..name.len() - 1]);
    if let Some(parts) = content.strip_prefix('[') {
        format!("[{{\"type\":\"text\",\"text\":\"[Tool: {name}]\"}},{parts}")
    } else if message.content.as_ref().is_some_and(|sent| sent.starts_with('"')) {
        format!("\"[Tool: {name}] {}", &content[1..])
    } else {
        format!("\"[Tool: {name}]\"")
    }
}
