//! What writers were told, and whether the server has it: every acknowledged record once, under the number it was told.

use std::collections::BTreeMap;

use bytes::Bytes;
use contextstore_client::{Client, Error, ErrorReason, Items, ReadMessages, ReadRecords};
use serde_json::Value;

/// The log that a record goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Log {
    /// A message.
    Messages,
    /// An event among the messages.
    Events,
    Tools,
    Plans,
}

/// A record that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// What it can be known by: a text, the name of a tool, the name of an event.
    pub(crate) what: String,
    /// The number it was acknowledged with; none if no answer came yet.
    pub(crate) told: Option<u64>,
}

/// The notes on one task.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    pub(crate) uuid: String,
    /// By log and request id.
    pub(crate) sent: BTreeMap<(Log, String), Sent>,
    /// The status it must have; none while that is not known.
    pub(crate) status: Option<&'static str>,
    /// Whether it was asked to be removed.
    pub(crate) removing: bool,
    /// A removed task is gone for good.
    pub(crate) removed: bool,
}

impl Notes {
    pub(crate) fn new(uuid: String) -> Self {
        Self { uuid, sent: BTreeMap::new(), status: None, removing: false, removed: false }
    }

    /// A record is about to be sent, or is sent again.
    pub(crate) fn send(&mut self, log: Log, request_id: &str, what: &str) {
        let sent = Sent { what: what.to_owned(), told: None };
        self.sent.entry((log, request_id.to_owned())).or_insert(sent);
    }

    /// A record was acknowledged. Answers twice must be the same.
    pub(crate) fn acknowledge(&mut self, log: Log, request_id: &str, number: u64) {
        let sent = self.sent.get_mut(&(log, request_id.to_owned())).unwrap();
        if let Some(before) = sent.told {
            assert_eq!(before, number, "{request_id} was told another number the second time");
        }
        sent.told = Some(number);
    }

    /// How many records were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.sent.values().filter(|sent| sent.told.is_some()).count()
    }

    /// Everything that is wrong with what the server has of the task.
    pub(crate) async fn check(&self, client: &Client) -> Vec<String> {
        let mut wrong = Vec::new();
        let may_be_missing = self.removing || self.acknowledged() == 0;
        match self.look(client, &mut wrong).await {
            Ok(()) => {}
            Err(error) if may_be_missing && error.reason() == Some(ErrorReason::TaskNotFound) => {}
            Err(error) => wrong.push(format!("it cannot be read: {error}")),
        }
        for problem in &mut wrong {
            *problem = format!("task {}: {problem}", self.uuid);
        }
        wrong
    }

    async fn look(&self, client: &Client, wrong: &mut Vec<String>) -> Result<(), Error> {
        let task = client.task(&self.uuid);
        let now = task.get().await?;
        if self.removed {
            wrong.push("it is back".to_owned());
            return Ok(());
        }
        let mut found = Found::default();
        found.take(task.messages(ReadMessages::default()), message).await?;
        found.take(task.tool_calls(ReadRecords::default()), tool).await?;
        found.take(task.plans(ReadRecords::default()), plan).await?;
        found.compare(&self.sent, wrong);

        let now = now.task.unwrap();
        if self.status.is_some_and(|status| status != now.status().name()) {
            wrong.push(format!("it is {:?}, not {:?}", now.status(), self.status));
        }
        let counted = now.statistics.unwrap();
        for (name, counted, log) in [
            ("total_messages", counted.total_messages, Log::Messages),
            ("total_tool_calls", counted.total_tool_calls, Log::Tools),
            ("total_plans", counted.total_plans, Log::Plans),
        ] {
            let there = found.count(|(found, _), _| *found == log);
            if counted != there {
                wrong.push(format!("{name} is {counted}, and {there} are there"));
            }
        }
        // Every report speaks of one call and of ten tokens.
        let usage = found.count(|(log, _), records| *log == Log::Events && records[0].1 == "usage");
        if (counted.llm_call_count, counted.total_tokens) != (usage, 10 * usage) {
            let (calls, tokens) = (counted.llm_call_count, counted.total_tokens);
            wrong
                .push(format!("{calls} calls with {tokens} tokens were counted, and {usage} are in the log"));
        }
        Ok(())
    }
}

/// What a record says of itself: its log, its number, and what it is known by.
type Said = (Log, u64, String);

/// The records that are there, by log and request id: number and what it is known by.
#[derive(Default)]
struct Found {
    records: BTreeMap<(Log, String), Vec<(u64, String)>>,
    /// How many have which text, as a record under another name would be a second one.
    texts: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

impl Found {
    async fn take(&mut self, mut records: Items<Bytes>, read: fn(&Value) -> Said) -> Result<(), Error> {
        let mut last = 0;
        while let Some(record) = records.try_next().await? {
            let value: Value = serde_json::from_slice(&record).unwrap();
            let (log, number, what) = read(&value);
            if log != Log::Events {
                if number != last + 1 {
                    self.wrong.push(format!("{log:?} {number} follows on {last}"));
                }
                last = number;
                *self.texts.entry(what.clone()).or_default() += 1;
            }
            match value["request_id"].as_str() {
                Some(id) => self.records.entry((log, id.to_owned())).or_default().push((number, what)),
                None if what == "started" => {}
                None => self.wrong.push(format!("{log:?} {number} is nobody's: {what:?}")),
            }
        }
        Ok(())
    }

    fn count(&self, wanted: impl Fn(&(Log, String), &Vec<(u64, String)>) -> bool) -> u64 {
        self.records
            .iter()
            .filter(|(key, records)| wanted(key, records))
            .map(|(_, all)| all.len() as u64)
            .sum()
    }

    fn compare(&mut self, sent: &BTreeMap<(Log, String), Sent>, wrong: &mut Vec<String>) {
        wrong.append(&mut self.wrong);
        for ((log, id), Sent { what, told }) in sent {
            let none = Vec::new();
            let there = self.records.get(&(*log, id.clone())).unwrap_or(&none);
            let right = match (&there[..], told) {
                ([], None) => true,
                ([(_, found)], None) => found == what,
                ([(number, found)], Some(told)) => found == what && number == told,
                _ => false,
            };
            if !right {
                let what = &what[..what.len().min(40)];
                let there: Vec<_> = there.iter().map(|(number, what)| (number, what.len())).collect();
                wrong.push(format!("{log:?} {id} ({what:?}): told {told:?}, found {there:?}"));
            }
        }
        for key in self.records.keys().filter(|key| !sent.contains_key(key)) {
            wrong.push(format!("{key:?} was never sent"));
        }
        for (text, times) in self.texts.iter().filter(|(_, times)| **times > 1) {
            wrong.push(format!("{:?} is there {times} times", &text[..text.len().min(40)]));
        }
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn message(value: &Value) -> Said {
    if let Some(seq) = value["seq"].as_u64() {
        return (Log::Messages, seq, text(value, "content"));
    }
    let number = match value["event"].as_str() {
        Some("rewrite") => value["ordinal"].as_u64(),
        Some("lease") => value["generation"].as_u64(),
        _ => None,
    };
    (Log::Events, number.unwrap_or(0), text(value, "event"))
}

fn tool(value: &Value) -> Said {
    (Log::Tools, value["seq"].as_u64().unwrap(), text(value, "tool_name"))
}

fn plan(value: &Value) -> Said {
    (Log::Plans, value["id"].as_u64().unwrap(), text(value, "plan_content"))
}
