//! Calls from Rust: what the bench itself measures of the service.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use contextstore_client::{Client, NewMessage, ReadCurrent, Task, v1};
use contextstore_proto::v1::context_store_client::ContextStoreClient;
use futures_util::stream::{StreamExt, repeat_with};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::report::{Cell, Sample};
use crate::server::{self, Server};
use crate::{CONTENT, CONTEXT, SLICE, VIEW};

/// A connection to a server with tasks to append to and to read.
pub(crate) struct Calls {
    pub(crate) runtime: Arc<Runtime>,
    client: Client,
    plain: ContextStoreClient<Channel>,
    /// A task with a large view, and where that is.
    pub(crate) view: String,
    pub(crate) view_path: PathBuf,
    /// A task with a view of ordinary size.
    pub(crate) context: String,
}

impl Calls {
    pub(crate) fn new(runtime: &Arc<Runtime>, server: &Server) -> Self {
        runtime.block_on(async {
            let client = server.client().await;
            let view = fill(&client, VIEW, 64 << 10).await;
            let context = fill(&client, CONTEXT, CONTENT).await;
            let plain = plain(server.socket()).await;
            let (runtime, view_path) = (Arc::clone(runtime), server.view(&view));
            Self { runtime, client, plain, view, view_path, context }
        })
    }

    /// The order is that of `place`: beside what bounds it.
    pub(crate) fn cells(&self, note: &str) -> Vec<Cell> {
        let cell = |at: u32, name: String, run: Box<dyn FnMut() -> Sample>| Cell {
            place: at,
            name: format!("Rust, {name}{note}"),
            samples: Vec::new(),
            run,
        };
        let mut cells = vec![
            cell(2, "stream".to_owned(), self.stream()),
            cell(3, "stream, a client left at its defaults".to_owned(), self.stream_plain()),
            cell(21, "no-op".to_owned(), self.no_op(1)),
            cell(27, "no-op, 64 callers".to_owned(), self.no_op(64)),
        ];
        for (durability, word, at) in [("group", "durable", 22), ("process", "not durable", 36)] {
            let one = |durability| self.runtime.block_on(server::start(&self.client, durability));
            let task = one(durability);
            cells.push(cell(at, format!("{word}, one by one"), self.append(vec![task.clone()], 1)));
            cells.push(cell(at + 1, format!("{word}, pipelined"), self.pipelined(task.clone())));
            cells.push(cell(at + 2, format!("{word}, 8 callers"), self.append(vec![task.clone()], 8)));
            cells.push(cell(at + 3, format!("{word}, 64 callers"), self.append(vec![task], 64)));
            let tasks = (0..64).map(|_| one(durability)).collect();
            cells.push(cell(at + 4, format!("{word}, 64 callers, a task each"), self.append(tasks, 64)));
            if durability == "group" {
                for callers in [256, 1024] {
                    let tasks = (0..callers).map(|_| one(durability)).collect();
                    let name = format!("{word}, {callers} callers, a task each");
                    cells.push(cell(at + 4, name, self.append(tasks, callers)));
                }
            }
        }
        cells
    }

    fn no_op(&self, callers: usize) -> Box<dyn FnMut() -> Sample> {
        let (runtime, client) = (Arc::clone(&self.runtime), self.client.clone());
        Box::new(move || {
            let client = client.clone();
            let call = move |_| {
                let client = client.clone();
                async move { drop(client.server_info().await.unwrap()) }
            };
            runtime.block_on(at_once(callers, call))
        })
    }

    fn append(&self, tasks: Vec<Task>, callers: usize) -> Box<dyn FnMut() -> Sample> {
        let runtime = Arc::clone(&self.runtime);
        let tasks = Arc::new(tasks);
        Box::new(move || {
            let tasks = Arc::clone(&tasks);
            let call = move |caller: usize| {
                let task = tasks[caller % tasks.len()].clone();
                async move { drop(task.append(message(CONTENT)).await.unwrap()) }
            };
            runtime.block_on(at_once(callers, call))
        })
    }

    fn pipelined(&self, task: Task) -> Box<dyn FnMut() -> Sample> {
        let runtime = Arc::clone(&self.runtime);
        Box::new(move || {
            let task = task.clone();
            let run = async move {
                let began = Instant::now();
                let messages = repeat_with(|| message(CONTENT))
                    .take_while(move |_| std::future::ready(began.elapsed() < SLICE));
                let mut answers = task.append_many(messages).await.unwrap();
                let mut count = 0;
                while answers.try_next().await.unwrap().is_some() {
                    count += 1;
                }
                Sample::new(f64::from(count) / began.elapsed().as_secs_f64(), f64::NAN)
            };
            runtime.block_on(async { tokio::spawn(run).await.unwrap() })
        })
    }

    fn stream(&self) -> Box<dyn FnMut() -> Sample> {
        let runtime = Arc::clone(&self.runtime);
        let task = self.client.task(&self.view);
        Box::new(move || {
            let task = task.clone();
            let run = async move {
                let began = Instant::now();
                let mut chunks = task.current(ReadCurrent::default()).await.unwrap();
                let mut bytes = 0;
                while let Some(chunk) = chunks.try_next().await.unwrap() {
                    bytes += chunk.len();
                }
                megabytes(bytes, began)
            };
            runtime.block_on(async { tokio::spawn(run).await.unwrap() })
        })
    }

    fn stream_plain(&self) -> Box<dyn FnMut() -> Sample> {
        let (runtime, plain) = (Arc::clone(&self.runtime), self.plain.clone());
        let task_uuid = self.view.clone();
        Box::new(move || {
            let (mut plain, task_uuid) = (plain.clone(), task_uuid.clone());
            let run = async move {
                let began = Instant::now();
                let request = v1::StreamCurrentRequest { task_uuid, ..Default::default() };
                let mut chunks = plain.stream_current(request).await.unwrap().into_inner();
                let mut bytes = 0;
                while let Some(chunk) = chunks.message().await.unwrap() {
                    bytes += chunk.data.len();
                }
                megabytes(bytes, began)
            };
            runtime.block_on(async { tokio::spawn(run).await.unwrap() })
        })
    }
}

/// The generated client on a channel that nobody has set anything of.
async fn plain(socket: PathBuf) -> ContextStoreClient<Channel> {
    let connect = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    ContextStoreClient::new(endpoint.connect_with_connector(connect).await.unwrap())
}

/// A message with so much text.
pub(crate) fn message(content: usize) -> NewMessage {
    let sentence = "The agent reads the file, runs the tests and looks at what failed.\n";
    let mut text = sentence.repeat(content / sentence.len() + 1);
    text.truncate(content);
    NewMessage::user(text)
}

/// A task whose view has at least so many bytes; answers its id.
pub(crate) async fn fill(client: &Client, bytes: usize, content: usize) -> String {
    let task = server::start(client, "process").await;
    let messages = repeat_with(move || message(content)).take(bytes.div_ceil(content));
    let mut answers = task.append_many(messages).await.unwrap();
    while answers.try_next().await.unwrap().is_some() {}
    task.uuid().to_owned()
}

pub(crate) fn megabytes(bytes: usize, began: Instant) -> Sample {
    assert!(bytes >= VIEW, "only {bytes} bytes came");
    Sample::new(bytes as f64 / 1e6 / began.elapsed().as_secs_f64(), f64::NAN)
}

/// Lets callers call for one slice, all at once.
async fn at_once<F, A>(callers: usize, call: F) -> Sample
where
    F: Fn(usize) -> A + Clone + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let began = Instant::now();
    let running: Vec<_> = (0..callers)
        .map(|caller| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < SLICE {
                    let began = Instant::now();
                    call(caller).await;
                    times.push(began.elapsed().as_secs_f64() * 1e6);
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for running in running {
        times.extend(running.await.unwrap());
    }
    Sample::of(times, began.elapsed())
}
