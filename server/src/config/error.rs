//! Errors of the configuration: every problem, with its source.

use std::fmt;
use std::path::PathBuf;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
    },
    /// An environment variable.
    Environment(String),
    /// A command line flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The message of the system or the parser.
        problem: String,
    },
    /// The key does not exist.
    #[error("{origin}: there is no key {key}{}", meant(.nearest.as_deref()))]
    Unknown {
        /// The source.
        origin: Origin,
        /// The name as written.
        key: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The key has a different name in this source.
    #[error("{origin}: {key} has another name here: use {now}")]
    Renamed {
        /// The source.
        origin: Origin,
        /// The name as written.
        key: String,
        /// The correct name.
        now: String,
    },
    /// The key has no value.
    #[error("{origin}: {key} is not a setting here: {why}")]
    Gone {
        /// The source.
        origin: Origin,
        /// The name as written.
        key: String,
        /// The reason.
        why: &'static str,
    },
    /// The value is not accepted.
    #[error("{origin}: {key} {problem}")]
    Value {
        /// The source.
        origin: Origin,
        /// The key.
        key: String,
        /// The accepted values.
        problem: String,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// All problems of a configuration, in the order of the sources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// At least one problem.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [problem] => write!(f, "configuration: {problem}"),
            problems => {
                write!(f, "configuration: {} problems", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}
