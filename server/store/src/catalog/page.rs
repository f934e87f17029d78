//! Page tokens: where a listing goes on. To callers they are opaque text.
//!
//! A token is the hex of a version, the order, the sort value in microseconds, and the uuid.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::model::{InvalidField, TaskId, TaskOrder};

const VERSION: u8 = 1;
const BYTES: usize = 1 + 1 + 8 + 16;

/// The last row of a page: the next page starts after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// `created_at` or `updated_at`, as the order says.
    pub(super) at: DateTime<Utc>,
    pub(super) id: TaskId,
}

impl Position {
    /// Makes the token.
    pub(super) fn token(self, order: TaskOrder) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend([VERSION, code(order)]);
        bytes.extend(self.at.timestamp_micros().to_be_bytes());
        bytes.extend(self.id.uuid().as_bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a token that [`Self::token`] made for the same order.
    pub(super) fn parse(token: &str, order: TaskOrder) -> Result<Self, InvalidField> {
        let bad = || InvalidField::new("page_token", "is not a token of an earlier answer");
        let bytes = unhex(token).ok_or_else(bad)?;
        let (&[version, code_found], rest) = bytes.split_first_chunk::<2>().ok_or_else(bad)?;
        let (&micros, uuid) = rest.split_first_chunk::<8>().ok_or_else(bad)?;
        if version != VERSION {
            return Err(bad());
        }
        if code_found != code(order) {
            return Err(InvalidField::new("page_token", "belongs to a listing in another order"));
        }
        let at = DateTime::from_timestamp_micros(i64::from_be_bytes(micros)).ok_or_else(bad)?;
        let id = Uuid::from_slice(uuid).map_err(|_| bad())?;
        Ok(Self { at, id: id.into() })
    }
}

/// The orders' numbers in tokens.
fn code(order: TaskOrder) -> u8 {
    match order {
        TaskOrder::CreatedDescending => 0,
        TaskOrder::CreatedAscending => 1,
        TaskOrder::UpdatedDescending => 2,
        TaskOrder::UpdatedAscending => 3,
    }
}

fn unhex(text: &str) -> Option<[u8; BYTES]> {
    let digits: [u8; BYTES * 2] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for &digit in pair {
            let value = char::from(digit).to_digit(16)?;
            *byte = (*byte << 4) | u8::try_from(value).ok()?;
        }
    }
    Some(bytes)
}
