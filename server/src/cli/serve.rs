//! `contextstore serve`: runs the server until it is told to stop.

use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::Failure;
use super::config::ConfigFlags;
use crate::config::{Config, parse_duration};
use crate::mask::Found;
use crate::serve;
use crate::telemetry;

/// Serves a data directory over gRPC.
///
/// Stops in order on SIGTERM and SIGINT: calls that are going on may end, everything is synced, and the exit code
/// is 0. A second signal, at least a second later, stops it at once.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    flags: ConfigFlags,
    /// Stop in order when standard input ends, as it does when the program that holds the other end of the pipe ends
    #[arg(long)]
    stop_with_stdin: bool,
    /// Stop in order when no client has been connected for this long, such as 30s; given again, the last one counts
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, overrides_with = "stop_when_idle")]
    stop_when_idle: Option<Duration>,
}

/// Calls in the store, readers whose bytes are not in memory, and those who sync each take a thread while they wait.
const THREADS: usize = 2048;
/// On one processor too: one worker may wait for a quick sync.
const LEAST_WORKERS: usize = 2;
/// Signals this close to each other are one.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let Self { flags, stop_with_stdin, stop_when_idle } = self;
        let config = Config::load(&flags.into())?;
        let masker = config.masking.masker().map_err(std::io::Error::other)?;
        let mask = move |line: &str| masker.text(line, &mut Found::default()).into_owned();
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
                // Whoever signals a process and then its group says it twice.
                while timeout(SAME_SIGNAL, stop()).await.is_ok() {}
                stop().await;
            };
            tokio::select! {
                ended = &mut server => ended.map_err(std::io::Error::other)?.map_err(Failure::from),
                () = again => Err(std::io::Error::other("stopped at once by a second signal").into()),
            }
        });
        // Calls that did not end in time, and syncs nobody waits for, do not hold up the exit.
        runtime.shutdown_background();
        ended.map(|()| ExitCode::SUCCESS)
    }
}

/// Waits until standard input ends or cannot be read. What it holds is discarded.
async fn end_of_stdin() {
    let discard = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    // A failed read is an end, too: nothing can be learnt from the other side any more.
    drop(tokio::task::spawn_blocking(discard).await);
}
