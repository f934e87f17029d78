//! A connection to a server: calls with deadlines and repetitions, and what is not about one task.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contextstore_proto::v1;
use contextstore_proto::v1::context_store_client::ContextStoreClient;
use contextstore_proto::v1::tool_outputs_client::ToolOutputsClient;
use futures_util::stream;
use prost::Message;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use uuid::Uuid;

use crate::config::{self, Settings};
use crate::later::Pipes;
use crate::lease::Lease;
use crate::reach::{self, Connection};
use crate::stream::Items;
use crate::task::Origin;
use crate::{Address, Auth, Builder, Error, Task};

/// Makes a unary call of the generated client, with the deadline and repetitions.
macro_rules! call {
    ($client:expr, $method:ident, $request:expr) => {
        // Requests with a configuration are large, and so would be every future that waits for one.
        Box::pin($client.call($request, |mut raw, request| async move { raw.$method(request).await })).await
    };
}

/// Opens a stream of answers of the generated client, once.
macro_rules! open {
    ($client:expr, $method:ident, $request:expr) => {{
        let mut raw = $client.raw();
        let opened = raw.$method($request);
        $client.in_time($client.settings().timeout, opened).await.map(tonic::Response::into_inner)
    }};
}

pub(crate) use {call, open};

/// The largest message of the protocol, either way.
const MAX_MESSAGE_BYTES: usize = 32 << 20;
/// A message of this size fits, unless the server is configured to take less; then it says so.
const SURELY_FITS: usize = 16 << 20;
/// What a request has around its message, at most.
const AROUND_BYTES: u64 = 64 << 10;
/// A timer may fire a little early.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// The generated client.
pub type RawClient = ContextStoreClient<InterceptedService<Connection, Auth>>;

/// The generated client of outputs of tools.
pub type RawOutputs = ToolOutputsClient<InterceptedService<Connection, Auth>>;

/// A client. Cheap to clone; clones share one connection, which is made again when it breaks.
///
/// ```no_run
/// # async fn example() -> Result<(), contextstore_client::Error> {
/// use contextstore_client::Client;
///
/// let client = Client::connect("unix:/var/lib/agent/contexts/contextstore.sock").await?;
/// println!("contextstore {}", client.server_info().await?.version);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    raw: RawClient,
    raw_outputs: RawOutputs,
    health: HealthClient<Connection>,
    connection: Connection,
    pipes: Arc<Pipes>,
    settings: Settings,
    /// The settings' address, as errors name it.
    address: String,
    holder: v1::Holder,
}

/// Which tasks to list, and in which order.
#[derive(Debug, Clone, Default)]
pub struct TaskQuery {
    /// Which; the default matches every task.
    pub filter: v1::TaskFilter,
    /// The order. Unspecified: newest first, by the time of creation.
    pub order: v1::TaskOrder,
    /// Most tasks on a page, at most 1000; 0: 100.
    pub page_size: u32,
}

/// Whether a server takes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It does.
    Serving,
    /// It is starting or stopping.
    NotServing,
}

impl Client {
    /// Connects to `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`; over TCP without a token. For more, see [`Client::builder`].
    pub async fn connect(address: &str) -> Result<Self, Error> {
        Self::builder().address(address).connect().await
    }

    /// Connects to where the environment says, or else to the socket in `contexts`; see [`Builder::env`].
    pub async fn from_env() -> Result<Self, Error> {
        Self::builder().env().connect().await
    }

    /// Makes a client step by step.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(connection: Connection, settings: Settings) -> Self {
        let raw = ContextStoreClient::with_interceptor(connection.clone(), settings.auth.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let raw_outputs = ToolOutputsClient::with_interceptor(connection.clone(), settings.auth.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let holder = v1::Holder {
            instance_id: settings.instance_id.clone(),
            process_id: std::process::id(),
            hostname: config::read_small(Path::new("/proc/sys/kernel/hostname"))
                .map(|name| name.trim_end().to_owned())
                .unwrap_or_default(),
        };
        let health = HealthClient::new(connection.clone());
        let address = settings.address.to_string();
        let pipes = Arc::default();
        let inner = Inner { raw, raw_outputs, health, connection, pipes, settings, address, holder };
        Self { inner: Arc::new(inner) }
    }

    /// The generated client, with the token and the limits of this one, without deadlines and repetitions.
    pub fn raw(&self) -> RawClient {
        self.inner.raw.clone()
    }

    /// The same for outputs of tools.
    pub fn raw_outputs(&self) -> RawOutputs {
        self.inner.raw_outputs.clone()
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.inner.settings.address
    }

    /// Who takes the leases of this client: random for each client, unless [`Builder::instance_id`] said so.
    pub fn instance_id(&self) -> &str {
        &self.inner.holder.instance_id
    }

    pub(crate) fn holder(&self) -> v1::Holder {
        self.inner.holder.clone()
    }

    pub(crate) fn pipes(&self) -> &Arc<Pipes> {
        &self.inner.pipes
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// A task without its lease: to read it, and to change it while nobody holds it. Nothing is asked of the
    /// server. For the task of a key, to work on, see [`Client::task_of`].
    pub fn task(&self, task_uuid: impl Into<String>) -> Task {
        self.task_under(task_uuid, 0)
    }

    /// A task under a lease that was taken elsewhere, as [`Client::get_task`] tells it: for tools that act for whoever
    /// works on it. Nothing is asked of the server.
    pub fn task_under(&self, task_uuid: impl Into<String>, lease_generation: u64) -> Task {
        Task::new(self.clone(), task_uuid.into(), Lease::new(lease_generation, None), Origin::default())
    }

    /// A task as it is now, with its statistics and how full its context is.
    pub async fn get_task(&self, task_uuid: impl Into<String>) -> Result<v1::GetTaskResponse, Error> {
        call!(self, get_task, v1::GetTaskRequest { task_uuid: task_uuid.into() })
    }

    /// One page of the tasks that match: the first, or the one behind a `next_page_token`.
    pub async fn list_tasks(
        &self,
        query: &TaskQuery,
        page_token: impl Into<String>,
    ) -> Result<v1::ListTasksResponse, Error> {
        let request = v1::ListTasksRequest {
            filter: Some(query.filter.clone()),
            order: query.order.into(),
            page_size: query.page_size,
            page_token: page_token.into(),
        };
        call!(self, list_tasks, request)
    }

    /// All tasks that match, fetched page by page as they are taken.
    ///
    /// ```no_run
    /// # async fn example(client: contextstore_client::Client) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::{TaskQuery, v1};
    ///
    /// let statuses = vec![v1::TaskStatus::Running.into()];
    /// let filter = v1::TaskFilter { statuses, ..Default::default() };
    /// let mut tasks = client.tasks(TaskQuery { filter, ..Default::default() });
    /// while let Some(task) = tasks.try_next().await? {
    ///     println!("{} {:?}", task.uuid, task.status());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn tasks(&self, query: TaskQuery) -> Items<v1::Task> {
        struct Pages {
            client: Client,
            query: TaskQuery,
            page: std::vec::IntoIter<v1::Task>,
            /// `None` at the end.
            next: Option<String>,
        }
        let pages =
            Pages { client: self.clone(), query, page: Vec::new().into_iter(), next: Some(String::new()) };
        Items::new(stream::try_unfold(pages, |mut pages| async move {
            loop {
                if let Some(task) = pages.page.next() {
                    return Ok(Some((task, pages)));
                }
                let Some(token) = pages.next.take() else { return Ok(None) };
                let page = pages.client.list_tasks(&pages.query, token).await?;
                pages.page = page.tasks.into_iter();
                pages.next = Some(page.next_page_token).filter(|token| !token.is_empty());
            }
        }))
    }

    /// What the server is and what it takes.
    pub async fn server_info(&self) -> Result<v1::GetServerInfoResponse, Error> {
        call!(self, get_server_info, v1::GetServerInfoRequest {})
    }

    /// Whether the server takes calls. Asked once; needs no token.
    pub async fn health(&self) -> Result<Health, Error> {
        self.health_within(self.inner.settings.timeout).await
    }

    async fn health_within(&self, time: Duration) -> Result<Health, Error> {
        let mut health = self.inner.health.clone();
        let request = HealthCheckRequest { service: String::new() };
        let answer = self.in_time(time, health.check(request)).await?.into_inner();
        Ok(if answer.status() == ServingStatus::Serving { Health::Serving } else { Health::NotServing })
    }

    /// Waits until the server takes calls, at most for `timeout`; answers why not, if it does not.
    pub async fn wait_until_ready(&self, timeout: Duration) -> Result<(), Error> {
        self.inner.connection.expect_server();
        let end = Instant::now() + timeout;
        let left = || end.saturating_duration_since(Instant::now());
        let mut pause = Duration::from_millis(5);
        let mut known = None;
        loop {
            let time = left();
            let error = match self.health_within(time).await {
                Ok(Health::Serving) => return Ok(()),
                Ok(Health::NotServing) => Error::Deadline { after: timeout },
                // One that had hardly any time says nothing that was not known better before.
                Err(Error::Deadline { .. }) if time <= pause => {
                    known.take().unwrap_or(Error::Deadline { after: timeout })
                }
                Err(Error::Deadline { .. }) => Error::Deadline { after: timeout },
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            if left() <= pause {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            known = Some(error);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Makes a call that is safe to repeat, within the deadline.
    pub(crate) async fn call<Q: Clone + Message, A, F>(
        &self,
        request: Q,
        send: impl Fn(RawClient, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.check_size(request.encoded_len()).await?;
        self.call_for(Duration::ZERO, request, send).await
    }

    /// The same, but each try may take as long as `least`, whatever the deadline.
    pub(crate) async fn call_for<Q: Clone, A, F>(
        &self,
        least: Duration,
        request: Q,
        send: impl Fn(RawClient, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let timeout = self.inner.settings.timeout;
        let end = Instant::now() + timeout;
        let left = || end.saturating_duration_since(Instant::now());
        let mut retries = self.inner.settings.retry.start();
        loop {
            let time = left().max(least);
            let mut request = Request::new(request.clone());
            request.set_timeout(time);
            let error = match self.in_time(time, send(self.raw(), request)).await {
                Ok(answer) => return Ok(answer.into_inner()),
                // Told as the caller knows it, not as what was left of it.
                Err(Error::Deadline { .. }) => return Err(Error::Deadline { after: timeout.max(least) }),
                Err(error) => error,
            };
            match retries.pause(&error) {
                Some(pause) if pause < left() => tokio::time::sleep(pause).await,
                _ => return Err(error),
            }
        }
    }

    /// Waits for an answer of the transport, at most for `time`.
    pub(crate) async fn in_time<A>(
        &self,
        time: Duration,
        answer: impl Future<Output = Result<A, Status>>,
    ) -> Result<A, Error> {
        let begun = Instant::now();
        let deadline = Error::Deadline { after: time };
        match tokio::time::timeout(time, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => {
                // Channel and server keep the deadline too, and say it in other words.
                let late = begun.elapsed() + TIMER_SLACK >= time;
                let expired = late && matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
                Err(if expired { deadline } else { self.failed(status).await })
            }
            Err(_) => Err(deadline),
        }
    }

    /// What a status means; of a method that the server does not have, with the server's version.
    pub(crate) async fn failed(&self, status: Status) -> Error {
        let nobody = !self.inner.connection.was_reached() && reach::is_nobody_there(&status);
        let mut error = Error::from_status(status, &self.inner.address);
        if let Error::Connection { advice, .. } = &mut error
            && nobody
        {
            *advice = reach::advice(self.address());
        }
        if let Error::UnsupportedByServer { server_version, .. } = &mut error
            && let Some(info) = self.info_once().await
        {
            *server_version = info.version;
        }
        error
    }

    /// What the server is, asked once; `None` if it does not say.
    async fn info_once(&self) -> Option<v1::GetServerInfoResponse> {
        let mut raw = self.raw();
        let asked = raw.get_server_info(v1::GetServerInfoRequest {});
        let answer = tokio::time::timeout(self.inner.settings.timeout, asked).await.ok()?;
        answer.ok().map(Response::into_inner)
    }

    /// Refuses a message that the server would not take, before it is sent. What surely fits is not asked about.
    pub(crate) async fn check_size(&self, size: usize) -> Result<(), Error> {
        if size <= SURELY_FITS {
            return Ok(());
        }
        let limits = self.info_once().await.and_then(|info| info.limits);
        let limit = limits.map_or(0, |limits| limits.message_bytes);
        let limit = if limit == 0 { SURELY_FITS as u64 } else { limit };
        // What stands around the message may come on top; the server counts exactly.
        let most = (limit + AROUND_BYTES).min(MAX_MESSAGE_BYTES as u64);
        if size as u64 > most { Err(Error::too_large(size as u64, limit)) } else { Ok(()) }
    }
}

/// The name that a caller gave to a call. An empty one is none, and a call without one could not be repeated.
pub(crate) fn named(request_id: Option<String>) -> Option<String> {
    request_id.filter(|id| !id.is_empty())
}

/// A name that nobody else has.
pub(crate) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_nobody_is_told_that_nobody_is_there() {
        let client = Client::builder().address("unix:/gone/s").connect_lazy().unwrap();
        for millis in (50..150).step_by(7) {
            let gone = client.wait_until_ready(Duration::from_millis(millis)).await.unwrap_err();
            assert!(matches!(gone, Error::Connection { .. }), "after {millis} ms: {gone:?}");
        }
    }
}
