//! The request as its provider wants it, on disk: a system message, a user message, no tools.

use serde_json::json;

use super::ModelError;
use crate::model::{Provider, StoreError};
use crate::render::{RenderOptions, Rendering, ViewLine, ViewSource};
use crate::store::RequestFile;

/// Lines that are in memory.
struct MemoryLines {
    lines: Vec<Vec<u8>>,
    at: usize,
}

impl ViewSource for MemoryLines {
    fn next(&mut self) -> Result<Option<ViewLine<'_>>, StoreError> {
        self.at += 1;
        // One that was taken is not needed any more.
        if let Some(done) = self.at.checked_sub(2).and_then(|at| self.lines.get_mut(at)) {
            *done = Vec::new();
        }
        Ok(self.lines.get(self.at - 1).map(|line| ViewLine { line, extra: None }))
    }
}

/// Writes a request into its file.
pub(super) fn write(
    mut file: RequestFile,
    provider: Provider,
    model: &str,
    params: &str,
    system: &str,
    user: String,
) -> Result<RequestFile, ModelError> {
    let options = RenderOptions::new(provider, model, params, "", 0)
        .map_err(|error| ModelError::NotConfigured { problem: error.to_string() })?;
    let line = |role, text: &str| json!({ "role": role, "content": text }).to_string().into_bytes();
    let lines = vec![line("system", system), line("user", &user)];
    drop(user);
    let mut rendering = Rendering::new(options, MemoryLines { lines, at: 0 });
    let mut piece = Vec::new();
    let mut more = true;
    while more {
        piece.clear();
        more = rendering.next(&mut piece)?;
        file.write(&piece)?;
    }
    Ok(file)
}
