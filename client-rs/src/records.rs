//! The logs of a task, record by record, as streams that survive broken connections.

use std::future::Future;

use bytes::Bytes;
use contextstore_proto::v1;
use futures_util::stream;
use tonic::Streaming;

use crate::client::open;
use crate::retry::Retries;
use crate::stream::Items;
use crate::{Client, Error};

/// The header that tells where a watch begins.
const RESUME_TOKEN: &str = "resume-token";

/// Which part of the history to read. The default is all of it, as it is now.
#[derive(Debug, Clone, Default)]
pub struct ReadMessages {
    /// First message; 0: from the very beginning, with the events before the first message.
    pub from_seq: u64,
    /// Last message, with the events behind it; 0: all there are.
    pub to_seq: u64,
    /// Most records; 0: no limit.
    pub limit: u64,
    /// Whether to go on with what is appended later. Cannot stand beside `to_seq`.
    pub follow: bool,
    /// The kinds of records. Empty: all kinds.
    pub kinds: Vec<v1::RecordKind>,
}

/// Which tool calls or plans to read. The default is all of them.
#[derive(Debug, Clone, Default)]
pub struct ReadRecords {
    /// The number of the first; 0: from the beginning.
    pub from: u64,
    /// The number of the last; 0: all there are.
    pub to: u64,
    /// Most records; 0: no limit.
    pub limit: u64,
}

/// A request for records of a log.
pub(crate) trait Query: Clone + Send + Sync + 'static {
    type Batch: Send + 'static;

    fn open(&self, client: &Client) -> impl Future<Output = Result<Streaming<Self::Batch>, Error>> + Send;

    fn records(batch: Self::Batch) -> Vec<Bytes>;

    /// Where a record stands, in terms of `set_from`; several may stand at the same place.
    fn place(record: &[u8]) -> Option<u64>;

    fn set_from(&mut self, place: u64);

    fn limit(&mut self) -> &mut u64;

    /// Whether it may be silent for long.
    fn follows(&self) -> bool;
}

macro_rules! query {
    ($request:ident, $answer:ident, $method:ident, $from:ident, $place:expr, $follows:expr) => {
        impl Query for v1::$request {
            type Batch = v1::$answer;

            async fn open(&self, client: &Client) -> Result<Streaming<Self::Batch>, Error> {
                open!(client, $method, self.clone())
            }

            fn records(batch: Self::Batch) -> Vec<Bytes> {
                batch.records
            }

            fn place(record: &[u8]) -> Option<u64> {
                $place(record)
            }

            fn set_from(&mut self, place: u64) {
                self.$from = place;
            }

            fn limit(&mut self) -> &mut u64 {
                &mut self.limit
            }

            fn follows(&self) -> bool {
                $follows(self)
            }
        }
    };
}

query!(
    StreamMessagesRequest,
    StreamMessagesResponse,
    stream_messages,
    from_seq,
    |record| number(record, "{\"seq\":").or_else(|| after(record)),
    |query: &v1::StreamMessagesRequest| query.follow
);
query!(
    StreamToolCallsRequest,
    StreamToolCallsResponse,
    stream_tool_calls,
    from_seq,
    |record| number(record, "{\"seq\":"),
    |_| false
);
query!(
    StreamPlansRequest,
    StreamPlansResponse,
    stream_plans,
    from_id,
    |record| number(record, "{\"id\":"),
    |_| false
);

/// Summaries are few, and can only be read from the beginning.
impl Query for v1::StreamSummariesRequest {
    type Batch = v1::StreamSummariesResponse;

    async fn open(&self, client: &Client) -> Result<Streaming<Self::Batch>, Error> {
        open!(client, stream_summaries, self.clone())
    }

    fn records(batch: Self::Batch) -> Vec<Bytes> {
        batch.records
    }

    fn place(_: &[u8]) -> Option<u64> {
        Some(0)
    }

    fn set_from(&mut self, _: u64) {}

    fn limit(&mut self) -> &mut u64 {
        &mut self.limit
    }

    fn follows(&self) -> bool {
        false
    }
}

/// The number with which a line begins.
fn number(record: &[u8], start: &str) -> Option<u64> {
    let rest = record.strip_prefix(start.as_bytes())?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// The message before an event: `{"event":"NAME","after":N,`.
fn after(record: &[u8]) -> Option<u64> {
    let rest = record.strip_prefix(b"{\"event\":\"")?;
    let name = rest.iter().position(|byte| *byte == b'"')?;
    number(&rest[name..], "\",\"after\":")
}

/// Reads the records that a request asks for.
pub(crate) fn read<Q: Query>(client: Client, request: Q) -> Items<Bytes> {
    let retries = client.settings().retry.start();
    let reading = Reading {
        client,
        asked: request.clone(),
        request,
        batches: None,
        ready: Vec::new().into_iter(),
        place: Place::default(),
        skip: 0,
        retries,
    };
    Items::new(stream::try_unfold(reading, |mut reading| async move {
        Ok(reading.next_record().await?.map(|record| (record, reading)))
    }))
}

/// Behind which record a read is.
#[derive(Debug, Default)]
struct Place {
    /// Records in all.
    taken: u64,
    /// Where the last one stood; `None` if that cannot be told.
    at: Option<u64>,
    /// Records taken that stood there.
    there: u64,
}

impl Place {
    fn take(&mut self, at: Option<u64>) {
        self.there = if self.taken > 0 && self.at == at { self.there + 1 } else { 1 };
        self.at = at;
        self.taken += 1;
    }
}

struct Reading<Q: Query> {
    client: Client,
    asked: Q,
    /// What was asked, or what goes on behind the last record.
    request: Q,
    batches: Option<Streaming<Q::Batch>>,
    ready: std::vec::IntoIter<Bytes>,
    place: Place,
    /// Records to pass over: they were taken before the connection broke.
    skip: u64,
    retries: Retries,
}

impl<Q: Query> Reading<Q> {
    async fn next_record(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            for record in self.ready.by_ref() {
                if self.skip > 0 {
                    self.skip -= 1;
                    continue;
                }
                self.place.take(Q::place(&record));
                return Ok(Some(record));
            }
            let error = match self.receive().await {
                Ok(Some(batch)) => {
                    self.retries.reset();
                    self.ready = Q::records(batch).into_iter();
                    continue;
                }
                Ok(None) => return Ok(None),
                Err(error) => error,
            };
            self.batches = None;
            let Some(pause) = self.retries.pause_to_resume(&error) else { return Err(error) };
            if !self.go_on() {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn receive(&mut self) -> Result<Option<Q::Batch>, Error> {
        let client = &self.client;
        let batches = match &mut self.batches {
            Some(batches) => batches,
            None => self.batches.insert(self.request.open(client).await?),
        };
        if self.request.follows() {
            return match batches.message().await {
                Ok(batch) => Ok(batch),
                Err(status) => Err(client.failed(status).await),
            };
        }
        client.in_time(client.settings().timeout, batches.message()).await
    }

    /// Asks for what is behind the last record; false if it cannot be told where that was.
    fn go_on(&mut self) -> bool {
        let Place { taken, at, there } = self.place;
        if taken == 0 {
            return true;
        }
        let Some(at) = at else { return false };
        self.request = self.asked.clone();
        self.request.set_from(at);
        self.skip = there;
        let limit = self.request.limit();
        if *limit > 0 {
            *limit = limit.saturating_sub(taken) + there;
        }
        true
    }
}

/// Watches a task, from now on or behind an earlier event. When the connection breaks, it goes on behind the last
/// event, or from where it began.
pub(crate) fn watch(client: Client, request: v1::WatchTaskRequest) -> Items<v1::WatchTaskResponse> {
    let retries = client.settings().retry.start();
    let watching = Watching { client, request, events: None, retries };
    Items::new(stream::try_unfold(watching, |mut watching| async move {
        Ok(watching.next_event().await?.map(|event| (event, watching)))
    }))
}

struct Watching {
    client: Client,
    request: v1::WatchTaskRequest,
    events: Option<Streaming<v1::WatchTaskResponse>>,
    retries: Retries,
}

impl Watching {
    async fn next_event(&mut self) -> Result<Option<v1::WatchTaskResponse>, Error> {
        loop {
            let error = match self.receive().await {
                Ok(Some(event)) => {
                    self.retries.reset();
                    self.request.resume_token.clone_from(&event.resume_token);
                    return Ok(Some(event));
                }
                Ok(None) => return Ok(None),
                Err(error) => error,
            };
            self.events = None;
            let Some(pause) = self.retries.pause_to_resume(&error) else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn receive(&mut self) -> Result<Option<v1::WatchTaskResponse>, Error> {
        let client = &self.client;
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                let mut raw = client.raw();
                let opened = raw.watch_task(self.request.clone());
                let opened = client.in_time(client.settings().timeout, opened).await?;
                // Without it "from now on" would be a later now once the connection breaks.
                if let Some(begins) =
                    opened.metadata().get(RESUME_TOKEN).and_then(|token| token.to_str().ok())
                {
                    begins.clone_into(&mut self.request.resume_token);
                }
                self.events.insert(opened.into_inner())
            }
        };
        match events.message().await {
            Ok(event) => Ok(event),
            Err(status) => Err(client.failed(status).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Messages = v1::StreamMessagesRequest;

    #[test]
    fn a_record_tells_where_it_stands() {
        let event = br#"{"event":"lease","after":41,"timestamp":"#;
        assert_eq!(Messages::place(br#"{"seq":42,"role":"user""#), Some(42));
        assert_eq!(Messages::place(event), Some(41));
        assert_eq!(v1::StreamToolCallsRequest::place(br#"{"seq":3,"#), Some(3));
        assert_eq!(v1::StreamPlansRequest::place(br#"{"id":7,"#), Some(7));
        for odd in [
            &b""[..],
            b"{}",
            b"{\"seq\":",
            b"{\"seq\":,",
            b"{\"event\":\"x\",\"a",
            b"{\"role\":\"x\",\"seq\":1,",
        ] {
            assert_eq!(Messages::place(odd), None, "{}", odd.escape_ascii());
        }
        assert_eq!(v1::StreamToolCallsRequest::place(event), None);
    }

    #[test]
    fn several_records_at_a_place_are_counted() {
        let mut place = Place::default();
        for at in [0, 0, 1, 2, 2, 2] {
            place.take(Some(at));
        }
        assert_eq!((place.taken, place.at, place.there), (6, Some(2), 3));
        place.take(None);
        assert_eq!((place.taken, place.at, place.there), (7, None, 1));
    }
}
