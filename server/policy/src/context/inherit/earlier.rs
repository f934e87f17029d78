//! What a task that said nothing passes on beside the summary that it was given: why tasks before it failed, which of them has what
//! was cut, and their plans. These are the last sections of its final summary, and of what others take over from it.

use std::fmt::Write as _;

use chrono::DateTime;

use super::{MOST_ERROR, PLANS, head};
use crate::model::TaskId;

const EARLIER: &str = "\n## Earlier tasks\n";
const HAS_THE_REST: &str = "has the rest";
/// Errors that are told, at most.
const MOST_FAILURES: usize = 4;

/// What became of tasks before the one that is taken over from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Why they failed, the first one first.
    pub failures: Vec<Failure>,
    /// The one that has what was cut.
    pub rest: Option<TaskId>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The task.
    pub task: TaskId,
    /// When, as it is told.
    pub when: String,
    /// The beginning of its error, in one line.
    pub error: String,
}

impl Earlier {
    /// One more that failed. The same error is told once. Of many the first stays, as the tasks after it said nothing that
    /// could explain theirs, and the newest.
    pub(super) fn failed(&mut self, failure: Failure) {
        if self.failures.iter().any(|known| known.error == failure.error) {
            return;
        }
        self.failures.push(failure);
        if self.failures.len() > MOST_FAILURES {
            self.shorten();
        }
    }

    /// Leaves out what can be missed best.
    pub(super) fn shorten(&mut self) {
        match self.failures.len() {
            0 => self.rest = None,
            1 => self.failures.clear(),
            _ => drop(self.failures.remove(1)),
        }
    }

    /// As a section; empty if there is nothing to tell.
    pub(super) fn to_text(&self) -> String {
        let mut lines = String::new();
        for Failure { task, when, error } in &self.failures {
            let _ = writeln!(lines, "- task {task} failed {when}: {error}");
        }
        if let Some(task) = self.rest {
            let _ = writeln!(lines, "- task {task} {HAS_THE_REST}");
        }
        if lines.is_empty() { lines } else { format!("{EARLIER}{lines}") }
    }

    /// The lines of a section; none if they are not of ours.
    fn read(lines: &str) -> Option<Self> {
        let mut earlier = Self::default();
        for line in lines.trim_end().lines() {
            let (task, what) = line.strip_prefix("- task ")?.split_once(' ')?;
            let task = TaskId::parse(task).ok()?;
            if what == HAS_THE_REST {
                earlier.rest = Some(task);
                continue;
            }
            let (when, error) = what.strip_prefix("failed ")?.split_once(": ")?;
            DateTime::parse_from_rfc3339(when).ok()?;
            let error = head(error, MOST_ERROR).to_owned();
            earlier.failed(Failure { task, when: when.to_owned(), error });
        }
        Some(earlier)
    }
}

/// Takes these sections off the end of a text: what stands before them, what became of earlier tasks, and the lines of plans.
/// Sections of others with the same names are left where they are.
pub(super) fn split(text: &str) -> (&str, Earlier, Option<&str>) {
    let (text, plans) = match section(text, PLANS).filter(|(_, lines)| are_plans(lines)) {
        Some((before, lines)) => (before, Some(lines)),
        None => (text, None),
    };
    let earlier = section(text, EARLIER).and_then(|(before, lines)| Some((before, Earlier::read(lines)?)));
    let (text, earlier) = earlier.unwrap_or_else(|| (text, Earlier::default()));
    (text, earlier, plans)
}

/// The plans that such lines tell.
pub(super) fn each_plan(lines: &str, mut tell: impl FnMut(&str)) {
    let mut rest = lines.trim_end();
    while !rest.is_empty() {
        let end = rest.find("\n- ").map_or(rest.len(), |at| at + 1);
        let (plan, more) = rest.split_at(end);
        tell(plan.trim_end());
        rest = more;
    }
}

/// What stands before the last section of a name, and its lines.
fn section<'a>(text: &'a str, heading: &str) -> Option<(&'a str, &'a str)> {
    let found = text.rfind(heading).map(|at| (&text[..at], &text[at + heading.len()..]));
    found.or_else(|| Some(("", text.strip_prefix(heading.trim_start())?)))
}

/// Plans have nothing but these lines, so code in a summary that has our heading is none.
fn are_plans(lines: &str) -> bool {
    let is_dated = |plan: &str| {
        let time = plan.split(' ').next().unwrap_or_default();
        DateTime::parse_from_rfc3339(time).is_ok()
    };
    let is_planned = |line: &str| line.starts_with("  ") || line.strip_prefix("- ").is_some_and(is_dated);
    lines.starts_with("- ") && lines.trim_end().lines().all(is_planned)
}
