//! What the fake got, for tests to look at.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::request::Parts;
use serde::Serialize;
use serde_json::{Map, Value};

/// Requests that are remembered, and how large a body of one may be to be kept.
const KEPT_REQUESTS: usize = 2000;
const KEPT_BYTES: usize = 1024 * 1024;

/// A request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) method: String,
    pub(crate) path: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub(crate) version: String,
    /// The port that it came from: the same for requests over one connection.
    pub(crate) peer_port: u16,
    /// The headers, without the keys.
    pub(crate) headers: Map<String, Value>,
    /// The size of the body, as far as it was read.
    pub(crate) bytes: usize,
    /// The body's BLAKE3.
    pub(crate) blake3: String,
    /// `ok`, `not checked`, or the words it was refused with.
    pub(crate) verdict: String,
    /// The status of the answer; 0 before it is known.
    pub(crate) status: u16,
    /// `open`, `sent` or, if it was not sent to its end, `gone`.
    pub(crate) answer: &'static str,
    #[serde(skip)]
    body: Option<Bytes>,
}

/// The requests so far.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<(u64, VecDeque<Record>)>);

impl Records {
    /// Begins the record of a request.
    pub(crate) fn begin(self: &Arc<Self>, parts: &Parts, peer_port: u16) -> Pen {
        const SECRETS: [&str; 3] = ["authorization", "x-api-key", "api-key"];
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            let secret = SECRETS.contains(&name.as_str());
            let value = if secret { "hidden".into() } else { String::from_utf8_lossy(value.as_bytes()) };
            (name.to_string(), Value::String(value.into_owned()))
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0 += 1;
        let number = all.0;
        if all.1.len() == KEPT_REQUESTS {
            all.1.pop_front();
        }
        all.1.push_back(Record {
            number,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            version: format!("{:?}", parts.version),
            peer_port,
            headers: parts.headers.iter().map(header).collect(),
            bytes: 0,
            blake3: String::new(),
            verdict: "not checked".to_owned(),
            status: 0,
            answer: "open",
            body: None,
        });
        Pen { records: Arc::clone(self), number, sent: false }
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clear();
    }

    pub(crate) fn all(&self) -> Vec<Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.iter().cloned().collect()
    }

    /// The body of a request, if it was kept.
    pub(crate) fn body(&self, number: u64) -> Option<Bytes> {
        self.all().into_iter().find(|record| record.number == number)?.body
    }
}

/// Writes one record; when it is dropped before the answer was sent, the client has gone.
#[derive(Debug)]
pub(crate) struct Pen {
    records: Arc<Records>,
    pub(crate) number: u64,
    sent: bool,
}

impl Pen {
    pub(crate) fn write(&self, change: impl FnOnce(&mut Record)) {
        let mut all = self.records.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = all.1.iter_mut().find(|record| record.number == self.number) {
            change(record);
        }
    }

    pub(crate) fn body(&self, bytes: usize, blake3: String, body: Option<Bytes>) {
        self.write(|record| {
            record.bytes = bytes;
            record.blake3 = blake3;
            record.body = body.filter(|body| body.len() <= KEPT_BYTES);
        });
    }

    /// The answer was sent to its end.
    pub(crate) fn sent(&mut self) {
        self.sent = true;
        self.write(|record| record.answer = "sent");
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        if !self.sent {
            self.write(|record| record.answer = "gone");
        }
    }
}
