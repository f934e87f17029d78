//! Use cases: what the server does with tasks, above the store and below the wire.
//!
//! # Layout
//! - [`Engine`]: runs use cases on one store
//! - [`chat`]: asks a model and records its answer
//! - [`send`]: makes a view ready to be sent
//! - [`compaction`]: compressions that a caller asks for
//! - [`ending`]: how tasks end
//! - [`compress`]: keeps contexts small
//! - [`hooks`]: tells others what happens to tasks

use contextstore_base::{infra, model};
use contextstore_llm as llm;
use contextstore_policy::{context, render};
use contextstore_store::{outputs, store};
use contextstore_summarizer as summarizer;

pub mod chat;
pub mod compaction;
pub mod compress;
pub mod ending;
mod engine;
mod error;
pub mod hooks;
pub mod send;

pub use engine::{Engine, Parts};
pub use error::AppError;
