//! `contextstore health`: checks whether a server accepts calls, for probes.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use contextstore_client::Health as Answer;

use super::Failure;
use super::reader::runtime;
use super::target::Target;

/// Checks whether a server accepts calls and prints the result on one line. Needs no token.
///
/// Exits with 0 if the server accepts calls, otherwise with 1.
#[derive(Debug, Args)]
pub(super) struct Health {
    #[command(flatten)]
    target: Target,
    /// Time-out of the check
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl Health {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let timeout = Duration::from_secs(self.timeout);
        let asked = runtime()?.block_on(async {
            let client = self.target.place().probe().timeout(timeout).connect().await?;
            Ok::<_, contextstore_client::Error>((client.health().await?, client.address().to_string()))
        });
        match asked {
            Ok((Answer::Serving, address)) => {
                writeln!(out, "SERVING: {address}")?;
                Ok(ExitCode::SUCCESS)
            }
            Ok((_, address)) => {
                writeln!(out, "NOT_SERVING: {address}")?;
                Ok(ExitCode::from(1))
            }
            Err(error) => {
                writeln!(out, "NOT_SERVING: {error}")?;
                Ok(ExitCode::from(1))
            }
        }
    }
}
