//! The built-in summariser: what it is given.

use crate::model::Role;

/// A message as a summariser sees it.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Its number; 0: not in the log.
    pub seq: u64,
    /// Who speaks.
    pub role: Role,
    /// Its content as plain text, with `[image]` and the like for what is none.
    pub text: &'a str,
    /// Tool calls it makes.
    pub calls: &'a [Call<'a>],
    /// Of a tool message: the tool.
    pub tool_name: Option<&'a str>,
    /// Of a tool message: where its whole output is.
    pub output_ref: Option<&'a str>,
}

/// A tool call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool.
    pub name: &'a str,
    /// What it is called with, as the model wrote it.
    pub arguments: &'a str,
}
