//! Changes of a task's status: put aside, gone on with, ended.

use super::task::Lifecycle;
use super::{Caller, Store, check_text};
use crate::model::{Holder, StoreError, TaskId};

/// How a task ends whose caller gives no final summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Completed,
    /// Badly.
    Failed {
        /// Why.
        error_message: String,
    },
}

impl Ending {
    fn change(&self, made: Option<String>) -> Result<Lifecycle, StoreError> {
        check_text("final_summary", made.as_deref())?;
        Ok(match self {
            Self::Completed => Lifecycle::Complete { final_summary: None, made },
            Self::Failed { error_message } => {
                check_text("error_message", Some(error_message))?;
                Lifecycle::Fail { error_message: error_message.clone(), final_summary: None, made }
            }
        })
    }
}

impl Store {
    /// Puts a running task aside; its lease ends.
    pub fn pause_task(&self, id: TaskId, caller: &Caller) -> Result<(), StoreError> {
        self.task(id)?.change_status(&Lifecycle::Pause, caller).map(drop)
    }

    /// Goes on with a paused task, for a new holder; answers the lease to write under. A caller that had a lease
    /// before is refused if the task was taken over since.
    pub fn resume_task(&self, id: TaskId, holder: Holder, caller: &Caller) -> Result<u64, StoreError> {
        crate::model::plain_text("holder.hostname", &holder.hostname)?;
        self.task(id)?.change_status(&Lifecycle::Resume { holder }, caller)
    }

    /// Ends a task well.
    pub fn complete_task(
        &self,
        id: TaskId,
        final_summary: Option<String>,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        check_text("final_summary", final_summary.as_deref())?;
        self.task(id)?.change_status(&Lifecycle::Complete { final_summary, made: None }, caller).map(drop)
    }

    /// Ends a task badly.
    pub fn fail_task(
        &self,
        id: TaskId,
        error_message: String,
        final_summary: Option<String>,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        check_text("error_message", Some(&error_message))?;
        check_text("final_summary", final_summary.as_deref())?;
        let change = Lifecycle::Fail { error_message, final_summary, made: None };
        self.task(id)?.change_status(&change, caller).map(drop)
    }

    /// Whether a call with the same id has ended the task before. If it has not, and could not now either, that is an
    /// error: nobody need make a summary first.
    pub fn ended_before(&self, id: TaskId, ending: &Ending, caller: &Caller) -> Result<bool, StoreError> {
        self.task(id)?.changed_before(&ending.change(None)?, caller)
    }

    /// Ends a task with a final summary that was made for it. A repeated call is known by what was asked, not by that.
    pub fn end_task(
        &self,
        id: TaskId,
        ending: &Ending,
        made: Option<String>,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        self.task(id)?.change_status(&ending.change(made)?, caller).map(drop)
    }
}
