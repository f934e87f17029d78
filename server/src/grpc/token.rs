//! Resume tokens: where a watcher was in the three logs of a task.

use std::fmt;

use crate::model::InvalidField;
use crate::store::{LogEnds, LogKind};

/// Offsets of the next line in each log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) messages: u64,
    pub(super) tools: u64,
    pub(super) plans: u64,
}

impl Place {
    /// Reads a token; none if it is empty.
    pub(super) fn parse(token: &str) -> Result<Option<Self>, InvalidField> {
        if token.is_empty() {
            return Ok(None);
        }
        let bad = || InvalidField::new("resume_token", "is not a token of WatchTask");
        let parts = token.strip_prefix("v1.").ok_or_else(bad)?.split('.').map(str::parse);
        let parts: Vec<u64> = parts.collect::<Result<_, _>>().map_err(|_| bad())?;
        let [messages, tools, plans] = parts[..] else { return Err(bad()) };
        Ok(Some(Self { messages, tools, plans }))
    }

    pub(super) fn of(&self, kind: LogKind) -> u64 {
        match kind {
            LogKind::Messages => self.messages,
            LogKind::Tools => self.tools,
            LogKind::Plans => self.plans,
        }
    }

    pub(super) fn set(&mut self, kind: LogKind, offset: u64) {
        match kind {
            LogKind::Messages => self.messages = offset,
            LogKind::Tools => self.tools = offset,
            LogKind::Plans => self.plans = offset,
        }
    }

    /// How many bytes there are to read; none if it is a place that the logs do not have.
    pub(super) fn behind(&self, ends: &LogEnds) -> Option<u64> {
        let messages = ends.messages.checked_sub(self.messages)?;
        let tools = ends.tools.checked_sub(self.tools)?;
        let plans = ends.plans.checked_sub(self.plans)?;
        Some(messages.saturating_add(tools).saturating_add(plans))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}.{}.{}", self.messages, self.tools, self.plans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_nothing_else_is_a_token() {
        let place = Place { messages: 7, tools: 0, plans: u64::MAX };
        assert_eq!(Place::parse(&place.to_string()), Ok(Some(place)));
        assert_eq!(Place::parse(""), Ok(None));
        for bad in [
            "v1",
            "v1.1.2",
            "v1.1.2.3.4",
            "v1.1.2.x",
            "v1.-1.2.3",
            "v2.1.2.3",
            "1.2.3",
            "v1.1.2.18446744073709551616",
        ] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }
}
