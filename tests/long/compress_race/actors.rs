//! Those who work on a task at once, and what they were told.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contextstore_proto::v1 as pb;
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tonic::Status;

use test_support::scene::{calls, result, user, words};
use test_support::server::TestServer;
use test_support::service::reason;
use test_support::wire::{Api, Appending, Work, all, holder};

/// What was acknowledged of a task.
pub(crate) struct Notes {
    pub(crate) work: Work,
    /// What is in a message that nothing else has, by its number.
    pub(crate) acknowledged: Mutex<BTreeMap<u64, String>>,
    pub(crate) tokens: AtomicU64,
    newest: AtomicU64,
    /// Messages that are pinned, by their numbers, and what is in them. Whoever goes back forgets them.
    pub(crate) pins: RwLock<Mutex<BTreeMap<u64, String>>>,
}

impl Notes {
    pub(crate) fn new(work: Work) -> Self {
        Self {
            work,
            acknowledged: Mutex::default(),
            tokens: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            pins: RwLock::default(),
        }
    }
}

/// Somebody who works on a task.
pub(crate) struct Actor {
    api: Api,
    notes: Arc<Notes>,
    rng: Rng,
    stop: Arc<AtomicBool>,
}

/// An image of 40 kB that no other is like.
pub(crate) fn image(number: u64) -> Value {
    let url = format!("data:image/png;base64,{number:08}{}", "A".repeat(40_000));
    json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
}

/// Whether a refusal is one that comes of others who work on the same task.
fn is_expected(status: &Status) -> bool {
    const EXPECTED: [&str; 9] = [
        "REWRITE_IN_FLIGHT",
        "STALE_VIEW",
        "NOTHING_TO_UNDO",
        "COMPACTION_NOT_FOUND",
        "SUMMARY_REFUSED",
        "STOPPING",
        "OVERLOADED",
        "NOTHING_TO_SUMMARIZE",
        "NOT_IN_VIEW",
    ];
    let why = reason(status);
    EXPECTED.iter().any(|expected| why.ends_with(expected))
}

/// Whether nobody can say what became of the call.
fn is_lost(status: &Status) -> bool {
    tonic_types::StatusExt::get_error_details(status).error_info().is_none()
}

impl Actor {
    pub(crate) fn new(api: Api, notes: Arc<Notes>, rng: Rng, stop: Arc<AtomicBool>) -> Self {
        Self { api, notes, rng, stop }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    async fn pause(&mut self, most_ms: u64) {
        tokio::time::sleep(Duration::from_millis(self.rng.u64(1..=most_ms))).await;
    }

    /// Appends until it is over; what is not acknowledged is sent again.
    pub(crate) async fn append(mut self, name: &'static str) {
        let mut number = 0_u64;
        while !self.is_over() {
            number += 1;
            let mark = format!("<{name}{number}>");
            match self.rng.u8(..8) {
                0 => {
                    let mut message = image(number);
                    let text = json!({"type": "text", "text": mark});
                    message["content"].as_array_mut().unwrap().push(text);
                    self.send(&message, &mark, &mark).await;
                }
                1 => {
                    let id = format!("{name}{number}");
                    self.send(&calls(&[&id]), "", &format!("{mark}c")).await;
                    self.send(&result(&id, &format!("{mark} found {}", words(number))), &mark, &mark).await;
                }
                _ => self.send(&user(&format!("{mark} {}", words(number))), &mark, &mark).await,
            }
            self.pause(10).await;
        }
    }

    async fn send(&mut self, message: &Value, mark: &str, request_id: &str) {
        let request = self.notes.work.json(message.to_string()).named(request_id.replace(['<', '>'], "-"));
        loop {
            match self.api.append_message(request.clone()).await {
                Ok(told) => {
                    let told = told.into_inner();
                    self.notes.tokens.fetch_add(told.tokens, Ordering::Relaxed);
                    self.notes.newest.fetch_max(told.seq, Ordering::Relaxed);
                    if !mark.is_empty() {
                        let before =
                            self.notes.acknowledged.lock().unwrap().insert(told.seq, mark.to_owned());
                        assert_eq!(before, None, "message {} was given twice", told.seq);
                    }
                    return;
                }
                Err(status) => {
                    assert!(is_lost(&status) || is_expected(&status), "{status:?}");
                    self.pause(20).await;
                }
            }
        }
    }

    /// Compresses by any strategy, or has an agent do it.
    pub(crate) async fn compress(mut self) {
        while !self.is_over() {
            let strategy = ["summarize", "compact", "prune", "window"][self.rng.usize(..4)];
            let target = self.rng.u64(1000..4000);
            let outcome = if self.rng.u8(..3) == 0 {
                self.by_agent().await
            } else {
                let request = pb::CompressRequest {
                    task_uuid: self.notes.work.uuid.clone(),
                    strategy: test_support::scene::strategy(strategy),
                    target_tokens: Some(target),
                    lease_generation: self.notes.work.lease,
                    ..Default::default()
                };
                all(self.api.compress(request).await).await.map(drop)
            };
            if let Err(status) = outcome {
                assert!(is_lost(&status) || is_expected(&status), "{status:?}");
            }
            self.pause(1500).await;
        }
    }

    async fn by_agent(&mut self) -> Result<(), Status> {
        let (task_uuid, lease_generation) = (self.notes.work.uuid.clone(), self.notes.work.lease);
        let begin = pb::BeginCompactionRequest {
            task_uuid: task_uuid.clone(),
            strategy: pb::CompressionStrategy::Summarize.into(),
            lease_generation,
            ..Default::default()
        };
        let told = all(self.api.begin_compaction(begin).await).await?;
        let begun = told.into_iter().find_map(|response| match response.event {
            Some(pb::begin_compaction_response::Event::Begun(begun)) => Some(begun),
            _ => None,
        });
        let token = begun.map(|begun| begun.token).unwrap_or_default();
        self.pause(300).await;
        if self.rng.u8(..4) == 0 {
            let abort = pb::AbortCompactionRequest { task_uuid, token, lease_generation };
            return self.api.abort_compaction(abort).await.map(drop);
        }
        let commit = pb::CommitCompactionRequest {
            task_uuid,
            token,
            summary: "An agent has looked at it.".to_owned(),
            lease_generation,
            ..Default::default()
        };
        self.api.commit_compaction(commit).await.map(drop)
    }

    /// Pins what was said lately, releases what was pinned first when there is no more room, and forks now and then.
    pub(crate) async fn pin(mut self) {
        let notes = Arc::clone(&self.notes);
        let (task_uuid, lease_generation) = (notes.work.uuid.clone(), notes.work.lease);
        while !self.is_over() {
            self.pause(250).await;
            let lately = self.rng.usize(..30);
            let chosen = notes
                .acknowledged
                .lock()
                .unwrap()
                .iter()
                .nth_back(lately)
                .map(|(seq, mark)| (*seq, mark.clone()));
            let Some((seq, mark)) = chosen else { continue };
            if self.rng.u8(..16) == 0 {
                let request = pb::ForkTaskRequest {
                    task_uuid: task_uuid.clone(),
                    at_seq: seq,
                    holder: holder("fork"),
                    ..Default::default()
                };
                if let Err(status) = self.api.fork_task(request).await {
                    assert!(is_lost(&status) || is_expected(&status), "{status:?}");
                }
                continue;
            }
            let pins = notes.pins.read().await;
            let pin = pb::PinMessageRequest {
                task_uuid: task_uuid.clone(),
                seq,
                lease_generation,
                ..Default::default()
            };
            match self.api.pin_message(pin).await {
                Ok(_) => drop(pins.lock().unwrap().insert(seq, mark)),
                Err(status) if reason(&status).ends_with("INVALID_FIELD") => {
                    let Some((seq, _)) = pins.lock().unwrap().pop_first() else { continue };
                    let unpin = pb::UnpinMessageRequest {
                        task_uuid: task_uuid.clone(),
                        seq,
                        lease_generation,
                        ..Default::default()
                    };
                    if let Err(status) = self.api.unpin_message(unpin).await {
                        assert!(is_lost(&status) || is_expected(&status), "{status:?}");
                    }
                }
                // Whether it is pinned then is nobody's guess.
                Err(status) => assert!(is_lost(&status) || is_expected(&status), "{status:?}"),
            }
        }
    }

    /// Takes back a compression now and then, and more rarely the last messages.
    pub(crate) async fn take_back(mut self) {
        while !self.is_over() {
            self.pause(3000).await;
            let newest = self.notes.newest.load(Ordering::Relaxed);
            let outcome = if self.rng.u8(..4) == 0 && newest > 3 {
                let seq = newest - self.rng.u64(..3);
                // What is pinned behind it, or was taken out before it, is not there then.
                let notes = Arc::clone(&self.notes);
                let pins = notes.pins.write().await;
                pins.lock().unwrap().clear();
                self.api.rewind_task(self.notes.work.rewind(seq)).await.map(drop)
            } else {
                let undo = pb::UndoCompactionRequest {
                    task_uuid: self.notes.work.uuid.clone(),
                    lease_generation: self.notes.work.lease,
                    ..Default::default()
                };
                self.api.undo_compaction(undo).await.map(drop)
            };
            if let Err(status) = outcome {
                assert!(is_lost(&status) || is_expected(&status), "{status:?}");
            }
        }
    }
}

/// Reads the view again and again: what was read is one view, whatever happens meanwhile.
pub(crate) async fn reader(mut actor: Actor) {
    let mut read = 0;
    while !actor.is_over() {
        let request = pb::StreamCurrentRequest { chunk_bytes: 10_000, ..actor.notes.work.current() };
        match all(actor.api.stream_current(request).await).await {
            Ok(chunks) => {
                let data: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
                assert_eq!(data.len() as u64, chunks[0].total_bytes);
                assert!(chunks.iter().all(|chunk| chunk.generation == chunks[0].generation));
                let mut open: Vec<Value> = Vec::new();
                for line in String::from_utf8(data).unwrap().lines() {
                    let line: Value = serde_json::from_str(line).unwrap();
                    if line["role"] == "tool" {
                        let at = open.iter().position(|id| *id == line["tool_call_id"]);
                        open.remove(at.unwrap_or_else(|| panic!("{line} answers no call")));
                        continue;
                    }
                    assert!(open.is_empty(), "{line} comes before a result");
                    let calls = line["tool_calls"].as_array().cloned().unwrap_or_default();
                    open = calls.iter().map(|call| call["id"].clone()).collect();
                }
                read += 1;
            }
            Err(status) => assert!(is_lost(&status) || is_expected(&status), "{status:?}"),
        }
        actor.pause(200).await;
    }
    assert!(read > 0, "nothing was read");
}

/// Files of a task that are only there while something is going on.
pub(crate) fn unsettled(server: &TestServer, work: &Work) -> Vec<String> {
    let names = fs::read_dir(server.running(&work.uuid)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let passing = ["to_summarize", "unsummarized", "summary_request", "request"];
    names
        .filter(|name| passing.iter().any(|start| name.starts_with(start)) || name.ends_with(".next"))
        .collect()
}
