//! `contextstore doctor`: checks a data directory and repairs it on request.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Failure;
use crate::model::StoreError;
use crate::store::Ground;
use crate::store::doctor::{self, Cure, Examined, Finding};

/// Checks every task of a data directory: its logs line by line, and every view against them.
///
/// Exits with 0 if there are no problems, 1 if there are some, and 2 if the check itself failed.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "CONTEXTSTORE_DATA_DIR", default_value = "contexts")]
    data_dir: PathBuf,
    /// Repair everything that can be repaired without loss; no other process may use the directory
    #[arg(long)]
    repair: bool,
}

impl Doctor {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let mut said = Ok(());
        let mut say = |finding: Finding| {
            if said.is_ok() {
                said = writeln!(out, "{finding}");
            }
        };
        let (mended, examined) = if self.repair {
            doctor::repair(|| self.ground(), &mut say)?
        } else {
            (Vec::new(), doctor::examine(self.ground()?, &mut say)?)
        };
        said?;
        for Finding { path, problem, cure, .. } in mended {
            let word = if cure == Cure::Quarantine { "set apart" } else { "repaired" };
            writeln!(out, "{word}: {path}: {problem}")?;
        }
        if let Some(pid) = &examined.in_use_by {
            writeln!(out, "note: process {pid} uses the directory; what it is writing now was not judged")?;
        }
        writeln!(out, "{}", self.summary(&examined))?;
        Ok(if examined.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// A check must not create a missing directory.
    fn ground(&self) -> Result<Ground, StoreError> {
        Ground::existing(&self.data_dir)
    }

    fn summary(&self, examined: &Examined) -> String {
        let Examined { tasks, lines, problems, damaged, attention, .. } = examined;
        let mut words = Vec::new();
        if *problems > 0 {
            let then = if self.repair { "could not be repaired" } else { "--repair mends this without loss" };
            words.push(format!("{} ({then})", count(*problems, "problem")));
        }
        if *damaged > 0 {
            let then = if self.repair { "could not be set apart" } else { "--repair sets this apart" };
            words.push(format!("{} ({then})", count(*damaged, "damaged task")));
        }
        if *attention > 0 {
            words.push(format!("{} for your attention", count(*attention, "thing")));
        }
        let words = if words.is_empty() { "nothing is wrong".to_owned() } else { words.join(", ") };
        format!("{} and {} checked: {words}", count(*tasks, "task"), count(*lines, "log line"))
    }
}

fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
