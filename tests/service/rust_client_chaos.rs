//! The Rust client under random appends, cancellations, kills of the server and ends of clients: what was reported as saved is in
//! the log once and in order, and all else was reported as not saved and can be appended again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contextstore_client::{Client, Error, NewMessage, ReadMessages, StartTask, Task, v1};
use futures_util::{TryStreamExt, stream};

use test_support::server::{DEADLINE, TestServer};
use test_support::sized;

/// After so many messages those that are not saved are appended again: the server remembers 1 024 request ids.
const MOST_BEHIND: u64 = 400;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// What is known of the messages of one task.
struct Agent {
    task: Task,
    next: u64,
    /// Reported as saved when they were first handed over, in order.
    saved: Vec<u64>,
    /// Handed over without waiting, and not reported yet.
    pending: BTreeSet<u64>,
    not_saved: BTreeMap<u64, NewMessage>,
    saved_again: BTreeSet<u64>,
}

fn number_of(message: &NewMessage) -> u64 {
    message.id().unwrap().strip_prefix("m-").unwrap().parse().unwrap()
}

impl Agent {
    fn message(&mut self) -> (u64, NewMessage) {
        let number = self.next;
        self.next += 1;
        (number, NewMessage::user(format!("message {number}")).request_id(format!("m-{number}")))
    }

    fn settled(&mut self) {
        self.saved.extend(std::mem::take(&mut self.pending));
    }

    /// What an error says was not saved; the other pending messages are saved.
    fn failed(&mut self, error: &Error) {
        self.not_appended(error.not_appended());
    }

    /// The error of a call that appends has its own message last.
    fn failed_with(&mut self, error: &Error, number: u64, message: NewMessage) {
        let (last, before) = error.not_appended().split_last().unwrap_or_else(|| panic!("{error:?}"));
        assert_eq!(number_of(last), number, "{error:?}");
        self.not_appended(before);
        self.not_saved.insert(number, message);
    }

    fn not_appended(&mut self, messages: &[NewMessage]) {
        let here = messages.iter().filter(|message| message.task_uuid() == Some(self.task.uuid()));
        let here: Vec<_> = here.cloned().collect();
        // An error of something else says nothing of them.
        if here.is_empty() {
            return;
        }
        for message in here {
            self.pending.remove(&number_of(&message));
            self.not_saved.insert(number_of(&message), message);
        }
        self.settled();
    }

    async fn append(&mut self, patience: Duration) {
        let (number, message) = self.message();
        match tokio::time::timeout(patience, self.task.append(message.clone())).await {
            Ok(Ok(_)) => {
                self.settled();
                self.saved.push(number);
            }
            Ok(Err(error)) => self.failed_with(&error, number, message),
            Err(_) => drop(self.not_saved.insert(number, message)),
        }
    }

    async fn append_later(&mut self, patience: Duration) {
        let (number, message) = self.message();
        match tokio::time::timeout(patience, self.task.append_later(message.clone())).await {
            Ok(Ok(())) => drop(self.pending.insert(number)),
            Ok(Err(error)) => self.failed_with(&error, number, message),
            Err(_) => drop(self.not_saved.insert(number, message)),
        }
    }

    async fn append_many(&mut self, count: u64, most: usize) {
        let messages: Vec<_> = (0..count).map(|_| self.message()).collect();
        let mut left: BTreeMap<u64, NewMessage> = messages.iter().cloned().collect();
        let source = stream::iter(messages.into_iter().map(|(_, message)| message));
        match self.task.append_many(source).await {
            Ok(mut added) => {
                self.settled();
                // Now and then nobody wants the rest of the answers.
                for _ in 0..most {
                    match added.try_next().await {
                        Ok(Some(_)) => self.saved.push(left.pop_first().unwrap().0),
                        Ok(None) => break,
                        Err(error) => {
                            let first = error.not_appended().first().map(number_of);
                            assert_eq!(first, left.first_key_value().map(|(number, _)| *number), "{error:?}");
                            break;
                        }
                    }
                }
            }
            Err(error) => self.failed(&error),
        }
        self.not_saved.append(&mut left);
    }

    async fn flush(&mut self, patience: Duration) {
        match tokio::time::timeout(patience, self.task.flush()).await {
            Ok(Ok(_)) => self.settled(),
            Ok(Err(error)) => self.failed(&error),
            Err(_) => {}
        }
    }

    /// Appends again what was not saved, until it is.
    async fn append_again(&mut self) {
        let end = Instant::now() + DEADLINE;
        loop {
            self.flush(DEADLINE).await;
            while let Some((number, message)) = self.not_saved.pop_first() {
                if let Err(error) = self.task.append(message.clone()).await {
                    assert!(Instant::now() < end, "{error:?}");
                    self.failed_with(&error, number, message);
                    break;
                }
                self.saved_again.insert(number);
            }
            if self.not_saved.is_empty() && self.pending.is_empty() {
                return;
            }
        }
    }

    async fn check(&self) {
        let read = ReadMessages { kinds: vec![v1::RecordKind::Message], ..Default::default() };
        let lines: Vec<_> = self.task.messages(read).try_collect().await.unwrap();
        let number = |line: &bytes::Bytes| -> u64 {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            line["content"].as_str().unwrap().strip_prefix("message ").unwrap().parse().unwrap()
        };
        let log: Vec<u64> = lines.iter().map(number).collect();
        let once: BTreeSet<u64> = log.iter().copied().collect();
        assert_eq!(once.len(), log.len(), "messages are there twice");
        assert_eq!(once, (0..self.next).collect(), "messages are missing");
        let first: Vec<u64> = log.into_iter().filter(|number| !self.saved_again.contains(number)).collect();
        assert_eq!(first, self.saved, "messages are not in order");
    }
}

async fn client(server: &TestServer, close_timeout: Duration) -> Client {
    let builder = server.builder().instance_id("chaos").close_timeout(close_timeout);
    let client = builder.timeout(Duration::from_secs(10)).connect_lazy().unwrap();
    client.wait_until_ready(DEADLINE).await.unwrap();
    client
}

// feature: chaos
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_each_message_is_saved_or_reported() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = test_support::number("CONTEXTSTORE_SEED").unwrap_or_else(|| u64::from(now));
    println!("CONTEXTSTORE_SEED={seed}");
    let mut random = Random(seed);
    let mut server = TestServer::start().await;
    let mut current = client(&server, DEADLINE).await;
    let mut agents = Vec::new();
    for _ in 0..2 {
        let task = current.start_task(StartTask::default()).await.unwrap();
        agents.push(Agent {
            task,
            next: 0,
            saved: Vec::new(),
            pending: BTreeSet::new(),
            not_saved: BTreeMap::new(),
            saved_again: BTreeSet::new(),
        });
    }
    let (mut kills, mut closes) = (0, 0);
    for _ in 0..sized(200, 10_000) {
        let patience = if random.below(4) == 0 { Duration::from_millis(random.below(5)) } else { DEADLINE };
        let which = usize::from(random.below(2) == 1);
        let agent = &mut agents[which];
        match random.below(100) {
            0..20 => agent.append(patience).await,
            20..70 => {
                for _ in 0..random.below(30) {
                    agent.append_later(patience).await;
                }
            }
            70..80 => {
                let count = random.below(60);
                let most = if random.below(3) == 0 { random.below(count + 1) } else { count + 1 };
                agent.append_many(count, usize::try_from(most).unwrap()).await;
            }
            80..93 => agent.flush(patience).await,
            93..97 => {
                // What comes next finds nobody for a while.
                kills += 1;
                server.kill();
                server.launch();
            }
            _ => {
                closes += 1;
                let closed = current.close().await;
                for agent in &mut agents {
                    match &closed {
                        Ok(()) => agent.settled(),
                        Err(error) => agent.failed(error),
                    }
                    // It waits for all tasks, so what was not named is saved.
                    agent.settled();
                }
                let limit = if random.below(2) == 0 { Duration::from_millis(1) } else { DEADLINE };
                current = client(&server, limit).await;
                for agent in &mut agents {
                    let uuid = Some(agent.task.uuid().to_owned());
                    let take_up = StartTask { task_uuid: uuid, ..Default::default() };
                    agent.task = current.start_task(take_up).await.unwrap();
                }
            }
        }
        for agent in &mut agents {
            let oldest = agent.not_saved.first_key_value().map_or(agent.next, |(number, _)| *number);
            if agent.next - oldest > MOST_BEHIND {
                agent.append_again().await;
            }
        }
    }
    for agent in &mut agents {
        agent.append_again().await;
        agent.check().await;
        println!("{} messages, {} of them again", agent.next, agent.saved_again.len());
    }
    println!("{kills} kills, {closes} ends of clients");
    assert!(kills + closes > 0, "nothing has happened");
}
