//! The last requests of a log, so that a retry changes nothing.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::model::RequestId;

/// The digest of a request, in 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 16]);

impl Digest {
    /// The digest of the parts of a request, none of which can run into the next.
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(short)
    }

    /// 32 hex digits.
    pub fn to_hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// The reverse of [`Self::to_hex`].
    pub fn from_hex(text: &str) -> Option<Self> {
        let fits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| u128::from_str_radix(text, 16).ok().map(|n| Self(n.to_be_bytes())))?
    }
}

/// A request that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedRequest {
    /// The digest of the request.
    pub digest: Digest,
    /// Its outcome: a seq, an ordinal or a generation.
    pub outcome: u64,
    /// The end of its line: it may be acknowledged again when the log is durable up to there.
    pub end: u64,
}

/// The last [`Requests::MOST`] requests with an id.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Requests {
    order: VecDeque<RequestId>,
    known: HashMap<RequestId, CompletedRequest>,
}

/// Id, digest, outcome, end.
type Entry = (RequestId, String, u64, u64);

impl Requests {
    /// The number of requests that are remembered.
    pub const MOST: usize = 1024;

    /// Returns what is known of an id.
    pub fn get(&self, id: &RequestId) -> Option<&CompletedRequest> {
        self.known.get(id)
    }

    /// Remembers a request and forgets the oldest if there are too many.
    pub fn remember(&mut self, id: RequestId, request: CompletedRequest) {
        if self.known.insert(id.clone(), request).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl From<Requests> for Vec<Entry> {
    fn from(requests: Requests) -> Self {
        let Requests { order, mut known } = requests;
        let entry =
            |id: RequestId| known.remove(&id).map(|seen| (id, seen.digest.to_hex(), seen.outcome, seen.end));
        order.into_iter().filter_map(entry).collect()
    }
}

impl TryFrom<Vec<Entry>> for Requests {
    type Error = &'static str;

    fn try_from(entries: Vec<Entry>) -> Result<Self, &'static str> {
        let mut requests = Self::default();
        for (id, digest, outcome, end) in entries {
            let digest = Digest::from_hex(&digest).ok_or("a request's digest is not 32 hex digits")?;
            requests.remember(id, CompletedRequest { digest, outcome, end });
        }
        Ok(requests)
    }
}
