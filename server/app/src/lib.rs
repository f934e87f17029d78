//! Use cases: what the server does with tasks, above the store and below the wire.
//!
//! # Layout
//! - [`compress`]: keeps contexts small
//! - [`hooks`]: tells others what happens to tasks

use contextstore_base::{infra, model};
use contextstore_llm as llm;
use contextstore_policy::{context, render};
use contextstore_store::{outputs, store};
use contextstore_summarizer as summarizer;

pub mod compress;
pub mod hooks;
