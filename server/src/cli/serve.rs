//! `contextstore serve`: runs the server until it is asked to stop.

use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::Failure;
use super::config::ConfigFlags;
use crate::config::{Config, parse_duration};
use crate::mask::MaskCounts;
use crate::serve;
use crate::telemetry;

/// Serves a data directory over gRPC.
///
/// SIGTERM and SIGINT stop the server in order: running calls can end, everything is synced, and the exit code is 0.
/// A second signal, at least a second later, stops it at once.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    flags: ConfigFlags,
    /// Stop in order when standard input ends, as it does when the parent process ends
    #[arg(long)]
    stop_with_stdin: bool,
    /// Stop in order when no client has been connected for this long, such as 30s; the last one counts
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, overrides_with = "stop_when_idle")]
    stop_when_idle: Option<Duration>,
}

/// Most blocking threads. Store calls, reads from disk and syncs each occupy one while they wait.
const THREADS: usize = 2048;
/// Fewest worker threads, also on one processor, because a worker may wait for a quick sync.
const LEAST_WORKERS: usize = 2;
/// Signals within this time count as one.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let Self { flags, stop_with_stdin, stop_when_idle } = self;
        let config = Config::load(&flags.into())?;
        let masker = config.masking.masker().map_err(std::io::Error::other)?;
        let mask = move |line: &str| masker.text(line, &mut MaskCounts::default()).into_owned();
        telemetry::start(config.log.format, &config.log.level, mask)?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        if available_parallelism().is_ok_and(|processors| processors.get() < LEAST_WORKERS) {
            runtime.worker_threads(LEAST_WORKERS);
        }
        let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
        let ended = runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut stop = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            let (told, stopping) = tokio::sync::oneshot::channel();
            let server = tokio::spawn(serve::run(config, stop_when_idle, async {
                let _ = stopping.await;
            }));
            let mut server = std::pin::pin!(server);
            tokio::select! {
                ended = &mut server => return ended.map_err(std::io::Error::other)?.map_err(Failure::from),
                () = stop() => drop(told.send(())),
                () = end_of_stdin(), if stop_with_stdin => drop(told.send(())),
            }
            let again = async {
                // A signal to a process and then to its process group arrives twice.
                while timeout(SAME_SIGNAL, stop()).await.is_ok() {}
                stop().await;
            };
            tokio::select! {
                ended = &mut server => ended.map_err(std::io::Error::other)?.map_err(Failure::from),
                () = again => Err(std::io::Error::other("stopped at once by a second signal").into()),
            }
        });
        // Calls that did not end in time and background syncs do not delay the exit.
        runtime.shutdown_background();
        ended.map(|()| ExitCode::SUCCESS)
    }
}

/// Waits until standard input ends or cannot be read. Its content is discarded.
async fn end_of_stdin() {
    let discard = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    // A failed read counts as the end.
    drop(tokio::task::spawn_blocking(discard).await);
}
