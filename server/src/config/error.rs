//! What can be wrong with a configuration: every problem of a load, each with the place it is in.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said otherwise.
    Default,
    /// The file, with its line.
    File {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system or the parser said.
        problem: String,
    },
    /// There is no such key.
    #[error("{origin}: there is no key {key}{}", meant(.nearest.as_deref()))]
    Unknown {
        /// Where it stands.
        origin: Origin,
        /// As it was written.
        key: String,
        /// The known one that looks most like it.
        nearest: Option<String>,
    },
    /// The key has another name here.
    #[error("{origin}: {key} has another name here: use {now}")]
    Renamed {
        /// Where it stands.
        origin: Origin,
        /// As it was written.
        key: String,
        /// Its name.
        now: String,
    },
    /// There is nothing that the key could set.
    #[error("{origin}: {key} is not a setting here: {why}")]
    Gone {
        /// Where it stands.
        origin: Origin,
        /// As it was written.
        key: String,
        /// Why there is none.
        why: &'static str,
    },
    /// The value is not one that the key takes.
    #[error("{origin}: {key} {problem}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// What it must be.
        problem: String,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// Why there is no configuration: all that is wrong, in the order of the places.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// At least one.
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
