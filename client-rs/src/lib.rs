//! The Rust client of contextstore, which keeps an LLM agent's whole context on disk.
//!
//! ```no_run
//! use contextstore_client::{Client, NewMessage, StartTask, v1};
//!
//! # async fn example() -> Result<(), contextstore_client::Error> {
//! let client = Client::from_env().await?;
//! let task = client
//!     .start_task(StartTask {
//!         key: v1::TaskKey { task_source: "github".into(), task_id: "17".into(), ..Default::default() },
//!         ..Default::default()
//!     })
//!     .await?;
//! task.append(NewMessage::system("You fix bugs.")).await?;
//! let added = task.append(NewMessage::json(r#"{"role":"user","content":"It crashes."}"#)).await?;
//! println!("message {} is on disk", added.seq);
//!
//! // What the model sees, straight from the server's disk, chunk by chunk.
//! let mut current = task.current(Default::default()).await?;
//! while let Some(chunk) = current.try_next().await? {
//!     print!("{}", String::from_utf8_lossy(&chunk));
//! }
//! task.complete("Fixed a null check.").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Retries
//!
//! Every change carries a request id that the client makes, so it is carried out once however often it is sent.
//! Reads and changes are repeated when the connection breaks or the server is busy or stopping
//! ([`RetryPolicy`]), within the deadline of the call. Streams that read go on where they were interrupted, and those that
//! append ([`Task::append_later`], [`Task::append_many`]) send again what was not acknowledged. [`Task::chat`] and
//! [`Task::request`] are repeated only while nothing has come.
//!
//! # Leases
//!
//! One client at a time works on a task. A [`Task`] that was started or resumed holds its lease, which is kept alive in
//! the background until the task ends or its last handle is dropped ([`Builder::renew_leases`]). If somebody else took
//! over, changes fail with [`ErrorReason::StaleLease`], and [`Task::lease_lost`] says so before.
//!
//! # Appending without waiting
//!
//! [`Task::append`] returns when the message is on disk. [`Task::append_later`] only hands it on; what comes next (a read, a
//! turn, a change of status, [`Task::flush`]) waits until all of it is on disk, and reports what went wrong.
//! [`Task::append_many`] takes a stream and acknowledges each message; the stream of [`Task::try_append_many`] may fail.
//!
//! What was handed over is in the log once and in order, or it is reported: [`Error::not_appended`] has the messages, which can
//! be appended again as they are; the message of a call that fails is the last of them. Call [`Client::close`] before the program ends: it waits for all tasks of the client, for at
//! most [`Builder::close_timeout`]. What is lost with a tokio runtime or with handles that are dropped is counted in a warning
//! ([`tracing`](https://docs.rs/tracing)).
//!
//! # Servers
//!
//! [`Builder`] says where a server is: at a Unix socket (`unix:PATH`), at a port of this machine (`tcp:HOST:PORT`), or
//! behind TLS (`tls:HOST:PORT`, with [`Builder::ca_file`], [`Builder::cert_file`] and [`Builder::key_file`]).
//! [`spawn()`] starts a private one for scripts and tests:
//!
//! ```no_run
//! # async fn example() -> Result<(), contextstore_client::Error> {
//! use contextstore_client::NewMessage;
//!
//! let server = contextstore_client::spawn().await?;
//! // Found by its key, or else started.
//! let task = server.client().task_of("17").await?;
//! task.append_later(NewMessage::user("List the files.")).await?;
//! task.append_later(NewMessage::json(
//!     r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#,
//! ))
//! .await?;
//! // Timed, recorded, and told to the model.
//! task.tool("ls").call_id("c1").run(async { Ok::<_, std::io::Error>("a.txt") }).await?;
//! task.complete("Listed them.").await?;
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`connect_or_spawn()`] uses the server of a data directory, or starts one that programs share. A client that finds no server
//! says so at once, and how to start one; [`Client::wait_until_ready`] waits for one that is being started.
//!
//! # Other versions of the server
//!
//! Fields, error reasons and events that only a newer server knows are passed over: [`Error::code`] tells what kind of error it
//! is, and [`Refusal::reason_name`] its name. A method that an older server does not have fails with
//! [`Error::UnsupportedByServer`], which names the method and the server's version.

mod address;
mod append;
mod chat;
mod client;
mod compress;
mod config;
mod current;
mod error;
mod hooks;
mod inherit;
mod later;
mod lease;
mod life;
mod many;
mod outputs;
mod pipeline;
mod reach;
mod records;
mod retry;
mod shared;
mod spawn;
mod start;
mod stream;
mod task;
mod tls;
mod token;
mod tool;
pub mod tools;
mod upload;

pub use address::Address;
pub use append::NewMessage;
pub use chat::{Chat, RenderRequest};
pub use client::{Client, Health, RawClient, RawOutputs, TaskQuery};
pub use compress::{Commit, Compaction, Compress};
pub use config::Builder;
pub use contextstore_proto::v1::ErrorReason;
pub use contextstore_proto::v1::chat_response::Event as ChatEvent;
pub use contextstore_proto::{Named, v1};
pub use current::{Current, ReadCurrent};
pub use error::{Error, FieldViolation, NotAppended, Refusal};
pub use hooks::{Ending, HookErrors, HookFailure, HookResult};
pub use inherit::{Fork, Inherit};
pub use lease::KeepAlive;
pub use outputs::{Grep, Outputs, PutOutput, ReadOutput};
pub use reach::Connection;
pub use records::{ReadMessages, ReadRecords};
pub use retry::RetryPolicy;
pub use shared::connect_or_spawn;
pub use spawn::{Spawn, Spawned, spawn};
pub use start::StartTask;
pub use stream::Items;
pub use task::{Statistics, Task, ToolCall, Usage};
pub use token::Auth;
pub use tonic;
pub use tool::{Recorded, ToolResult, ToolRun};
