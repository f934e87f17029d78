//! Pure policy about contexts and texts. No I/O.
//!
//! # Layout
//! - [`context`]: tokens, pressure, strategies, settings
//! - [`render`]: the view as the body of a request to a provider
//! - [`mask`]: replaces secrets in texts

use contextstore_base::model;

pub mod context;
pub mod mask;
pub mod render;
