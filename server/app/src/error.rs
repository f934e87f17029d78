//! Why a use case failed.

use crate::llm::LlmError;
use crate::model::{InvalidField, StoreError, TaskId, in_full};

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider refused or failed.
    #[error(transparent)]
    Provider(#[from] LlmError),
    /// Neither the call, nor the task, nor the server names a provider.
    #[error(
        "no provider is named: set provider in the call, llm_provider in the task's configuration, or llm.provider in \
         the server's"
    )]
    NoProvider,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// The caller of a chat has gone.
    #[error("the caller has gone")]
    CallerGone,
    /// A defect of the server.
    #[error("the server failed: {0}")]
    Internal(String),
}

impl AppError {
    /// Returns what went wrong, with its causes, for a log.
    pub fn words(&self) -> String {
        if let Self::Store(error) = self { in_full(error) } else { self.to_string() }
    }

    /// Returns the error of a task that was deleted meanwhile.
    pub(crate) fn deleted(id: TaskId) -> Self {
        Self::Store(StoreError::TaskNotFound { id })
    }
}

impl From<InvalidField> for AppError {
    fn from(error: InvalidField) -> Self {
        Self::Store(error.into())
    }
}
