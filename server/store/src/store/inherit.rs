//! Begins tasks: with a system prompt, and with a context that is inherited from a task that ended.

use std::borrow::Cow;

use super::Store;
use super::layout::{self, Folder};
use super::masking;
use super::task::First;
use crate::context::{Inheritance, Legacy, Policy};
use crate::infra::fs::Kind;
use crate::log::{Head, message_body};
use crate::model::{
    InheritedFrom, InvalidField, NewMessage, Plan, Role, Status, StoreError, TaskConfig, TaskId, TaskKey,
    TaskRow, TokenCounter,
};

/// The number of tasks that are searched for one to inherit from.
const LOOKED_AT: usize = 10;

/// The source of the context that a new task inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inherit {
    /// Nothing.
    #[default]
    Never,
    /// From the newest task of the same kind that has something, as it is configured.
    Auto,
    /// From this one.
    From(TaskId),
}

/// The contents with which a new task begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beginning {
    /// What it takes over.
    pub inherit: Inherit,
    /// Its system prompt.
    pub system_message: Option<String>,
}

/// A task that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previous {
    /// Which, how and when.
    pub from: InheritedFrom,
    /// Whether it has a final summary.
    pub has_final_summary: bool,
}

/// The context that a task would inherit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritanceContext {
    /// From whom.
    pub previous: Previous,
    /// What.
    pub inheritance: Inheritance,
}

impl Beginning {
    /// Returns what is asked for, to know a retry by; nothing if nothing is.
    pub(super) fn asked(&self) -> Option<String> {
        let inherit = match self.inherit {
            Inherit::Never if self.system_message.is_none() => return None,
            Inherit::Never => "NEVER".to_owned(),
            Inherit::Auto => "AUTO".to_owned(),
            Inherit::From(id) => id.to_string(),
        };
        serde_json::to_string(&(inherit, &self.system_message)).ok()
    }

    /// The system prompt as a message, if it can be one.
    pub(super) fn system(&self, limit: usize) -> Result<Option<NewMessage>, InvalidField> {
        let Some(text) = &self.system_message else { return Ok(None) };
        let message = NewMessage::text(Role::System, text);
        let size = message_body(&message, None).len();
        if size > limit {
            let problem = format!("makes a message of {size} bytes; at most {limit} are allowed");
            return Err(InvalidField::new("system_message", problem));
        }
        Ok(Some(message))
    }
}

impl Store {
    /// Returns what is asked for, with secrets replaced.
    pub(super) fn masked_beginning(&self, beginning: &Beginning) -> Beginning {
        let mask =
            |text: &String| self.shared.env.masked(|masker, found| masker.text(text, found).into_owned());
        Beginning { system_message: beginning.system_message.as_ref().map(mask), ..beginning.clone() }
    }

    /// A task to start with secrets replaced in what is free text of it.
    pub(super) fn masked_start(&self, start: super::StartTask) -> Result<super::StartTask, StoreError> {
        let env = &self.shared.env;
        let config =
            env.masked(|masker, found| masking::config(masker, &start.config, found).map(Cow::into_owned))?;
        Ok(super::StartTask { config, ..start })
    }

    /// Tasks that ended and that one with this key and user would go on with, newest first. A key without a type or an
    /// id is nobody's.
    pub fn previous_contexts(
        &self,
        key: &TaskKey,
        user: &str,
        limit: usize,
    ) -> Result<Vec<Previous>, StoreError> {
        if key.task_type.is_empty() || key.task_id.is_empty() {
            return Ok(Vec::new());
        }
        self.refresh_catalog();
        let rows = self.shared.env.catalog.previous(key, user, limit)?;
        let previous = |from: InheritedFrom| {
            let id = from.uuid;
            // One that cannot be read is nothing to go on with, and no reason to hold up the others.
            self.previous(from)
                .inspect_err(|error| tracing::warn!(%id, %error, "a previous task is passed over"))
                .ok()
        };
        Ok(rows.iter().filter_map(ended).filter_map(previous).collect())
    }

    fn previous(&self, from: InheritedFrom) -> Result<Previous, StoreError> {
        let path = Folder::Completed.task(from.uuid).join(layout::FINAL_SUMMARY);
        let stat = self.shared.env.fs.stat(&path);
        let there = stat.is_ok_and(|stat| stat.is_some_and(|stat| stat.kind == Kind::File));
        // The file is a view, and may be missing.
        let has_final_summary = there || self.final_summary(from.uuid)?.is_some();
        Ok(Previous { from, has_final_summary })
    }

    /// Returns what a task would take over from one that ended.
    pub fn inheritance_context(
        &self,
        id: TaskId,
        max_tokens: Option<u64>,
    ) -> Result<InheritanceContext, StoreError> {
        let config = TaskConfig::default();
        let policy = Policy::resolve(None, &config, &self.shared.env.options.compression);
        let counter = self.shared.env.options.token_counter;
        self.inheritance(id, max_tokens.unwrap_or(policy.max_inherited_tokens), counter)
    }

    fn inheritance(
        &self,
        id: TaskId,
        max_tokens: u64,
        counter: TokenCounter,
    ) -> Result<InheritanceContext, StoreError> {
        let row = self.task_info(id)?.row;
        let from = ended(&row).ok_or(StoreError::WrongStatus {
            id,
            status: row.status,
            action: "take over from it",
        })?;
        let final_summary = self.final_summary(id)?.filter(|text| !text.trim().is_empty());
        let has_final_summary = final_summary.is_some();
        let mut legacy = Legacy::new(from.clone(), row.error_message.as_deref(), max_tokens);
        let summary = match final_summary {
            Some(text) => Some(text),
            None => self.task(id)?.latest_summary()?.map(|record| record.summary),
        };
        if let Some(summary) = summary {
            legacy.summary(&summary);
        }
        let mut plans = self.plans(id, 1, u64::MAX)?;
        while let Some(read) = plans.step(|line| {
            let Head::Record { .. } = line.head else { return };
            if let (Some(time), Ok(plan)) = (line.time(), Plan::parse(line.text)) {
                legacy.plan(time, &plan.plan_type, &plan.plan_content);
            }
        })? {
            let () = read;
        }
        let inheritance = legacy.finish(max_tokens, counter).ok_or(StoreError::NothingToInherit { id })?;
        Ok(InheritanceContext { previous: Previous { from, has_final_summary }, inheritance })
    }

    /// Returns what a new task begins with.
    pub(super) fn first(
        &self,
        start: &super::StartTask,
        beginning: &Beginning,
        system: Option<NewMessage>,
    ) -> Result<First, StoreError> {
        let options = &self.shared.env.options;
        let policy = Policy::resolve(None, &start.config, &options.compression);
        let counter = TokenCounter::of(&start.config).unwrap_or(options.token_counter);
        let max_tokens = policy.max_inherited_tokens;
        let taken = match beginning.inherit {
            Inherit::Never => None,
            Inherit::From(id) => Some(self.inheritance(id, max_tokens, counter)?),
            Inherit::Auto if !policy.inherits => None,
            Inherit::Auto => {
                let previous = self.previous_contexts(&start.key, &start.user, LOOKED_AT)?;
                previous.into_iter().find_map(|previous| {
                    let id = previous.from.uuid;
                    match self.inheritance(id, max_tokens, counter) {
                        Ok(taken) => Some(taken),
                        Err(StoreError::NothingToInherit { .. }) => None,
                        // Nobody asked for that one.
                        Err(error) => {
                            tracing::warn!(%id, %error, "nothing was taken over from a task");
                            None
                        }
                    }
                })
            }
        };
        let (inherited_from, inherited) = taken.map(|taken| (taken.previous.from, taken.inheritance)).unzip();
        Ok(First { system, inherited_from, inherited })
    }
}

/// Returns how and when a task ended, if it has.
fn ended(row: &TaskRow) -> Option<InheritedFrom> {
    let status = row.status;
    let completed_at = row.completed_at.filter(|_| matches!(status, Status::Completed | Status::Failed))?;
    Some(InheritedFrom { uuid: row.uuid, status, completed_at })
}
