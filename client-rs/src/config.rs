//! How to talk to a server: settings, the environment, the channel.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::Endpoint;
use tower::service_fn;

use crate::client::new_id;
use crate::reach::{self, Connection};
use crate::tls::{self, Tls};
use crate::token::Auth;
use crate::{Address, Client, Error, RetryPolicy};

/// Names in a data directory.
pub(crate) const SOCKET: &str = "contextstore.sock";
pub(crate) const ADDRESSES: &str = "addresses";
/// The server's data directory if nothing says otherwise.
const DATA_DIR: &str = "contexts";
/// A token or a list of addresses that is longer is some other file.
const MAX_FILE_BYTES: u64 = 4096;

/// Measured: the size of frames is what makes large reads fast; the windows keep them from starving.
const FRAME_BYTES: u32 = 256 << 10;
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Makes a [`Client`].
///
/// ```no_run
/// # async fn example() -> Result<(), contextstore_client::Error> {
/// use std::time::Duration;
///
/// let client = contextstore_client::Client::builder()
///     .address("tcp:127.0.0.1:7600")
///     .token_file("/run/agent/token")
///     .timeout(Duration::from_secs(5))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Builder {
    address: Option<String>,
    socket: Option<PathBuf>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    timeout: Option<Duration>,
    retry: RetryPolicy,
    instance_id: Option<String>,
    tls: Tls,
    tls_of_env: Tls,
    leave_leases: bool,
    close_timeout: Option<Duration>,
}

impl Builder {
    /// Where the server listens: `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`. Without it: where that of the data
    /// directory does.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self.socket = None;
        self
    }

    /// The Unix socket where the server listens, also one with a name that is not UTF-8.
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// The token for calls over TCP. Without TLS it is sent to this machine only. A line end behind it does not count.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A file with the token for calls over TCP; read for every call, so it may change.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// The server's data directory, if it is on this machine. The server is at its `contextstore.sock`; or else
    /// where its `addresses` say, at the first socket, or without one at the first port with its `token`, which is
    /// sent only while a server holds the directory, and only to where its `addresses` say that it is. Without a directory, `contexts`, as for the server.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// For the server of a directory, and no other.
    pub(crate) fn in_data_dir(self, path: &Path) -> Self {
        Self { address: None, socket: None, ..self }.data_dir(path)
    }

    /// How long a call may take in all, with its repetitions; and how long a stream may be silent that should
    /// not be. Without one: 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long [`Client::close`] waits for what was appended without waiting. Without one: 10 seconds.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = Some(timeout);
        self
    }

    /// How calls that are safe to repeat are repeated.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Names this client to leases: one that has the same name after a restart of the agent gets its tasks back at once.
    /// Without one it is random.
    pub fn instance_id(mut self, instance_id: impl Into<String>) -> Self {
        self.instance_id = Some(instance_id.into());
        self
    }

    /// The same, if nobody has said who it is.
    pub(crate) fn instance_id_or(mut self, instance_id: &str) -> Self {
        self.instance_id.get_or_insert_with(|| instance_id.to_owned());
        self
    }

    /// Whether the leases of tasks are kept alive in the background: from when a task is started, resumed or forked until it
    /// is paused, ended or deleted, or its last handle is dropped. They are, unless this says no; then
    /// [`Task::keep_alive`](crate::Task::keep_alive) does.
    pub fn renew_leases(mut self, renew: bool) -> Self {
        self.leave_leases = !renew;
        self
    }

    /// A file with the certificates of who may vouch for a server at `tls:HOST:PORT`, in PEM. Without it: those that
    /// the machine trusts.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), contextstore_client::Error> {
    /// let client = contextstore_client::Client::builder()
    ///     .address("tls:store.example.org:7600")
    ///     .token_file("/run/agent/token")
    ///     .ca_file("/etc/agent/ca.pem")
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca_file = Some(path.into());
        self
    }

    /// A file with this client's certificate, and those between it and its CA, in PEM: for a server that asks who it
    /// is. Goes with [`Builder::key_file`].
    pub fn cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.cert_file = Some(path.into());
        self
    }

    /// A file with the key of [`Builder::cert_file`], in PEM.
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key_file = Some(path.into());
        self
    }

    /// The name in the server's certificate, if it is not the host of the address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// Takes what the environment says: `CONTEXTSTORE_ADDRESS`, `CONTEXTSTORE_TOKEN`,
    /// `CONTEXTSTORE_TOKEN_FILE`, `CONTEXTSTORE_DATA_DIR`, and for a server at `tls:HOST:PORT` `CONTEXTSTORE_CA_FILE`,
    /// `CONTEXTSTORE_CERT_FILE` and `CONTEXTSTORE_KEY_FILE`. What is not set, or empty, changes nothing.
    pub fn env(self) -> Self {
        self.vars(|name| std::env::var_os(name))
    }

    fn vars(mut self, var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        // What is not Unicode is refused as an address or a token all the same.
        let text = |name: &str| var(name).map(|value| value.to_string_lossy().into_owned());
        self.address = text("CONTEXTSTORE_ADDRESS").or(self.address);
        self.token = text("CONTEXTSTORE_TOKEN").or(self.token);
        self.token_file = var("CONTEXTSTORE_TOKEN_FILE").map(PathBuf::from).or(self.token_file);
        self.data_dir = var("CONTEXTSTORE_DATA_DIR").map(PathBuf::from).or(self.data_dir);
        self.tls_of_env = Tls::of_vars(var).or(self.tls_of_env);
        self
    }

    /// Makes the client and connects it. Fails if nobody listens; see [`Builder::connect_lazy`].
    pub async fn connect(self) -> Result<Client, Error> {
        let settings = self.settings()?;
        let endpoint = settings.endpoint()?;
        let connected = match &settings.address {
            Address::Unix(path) => endpoint.connect_with_connector(unix_connector(path)).await,
            Address::Tcp { .. } | Address::Tls { .. } => endpoint.connect().await,
        };
        let channel = connected.map_err(|error| {
            let status = Status::from_error(Box::new(error));
            let nobody = reach::is_nobody_there(&status);
            let advice = if nobody { reach::advice(&settings.address) } else { String::new() };
            Error::Connection { address: settings.address.to_string(), status, advice }
        })?;
        Ok(Client::new(Connection::new(channel, true), settings))
    }

    /// Makes the client, which connects when it is first used. Must be called within a tokio runtime. For a
    /// server that is started at the same time, follow it with [`Client::wait_until_ready`].
    pub fn connect_lazy(self) -> Result<Client, Error> {
        let settings = self.settings()?;
        let endpoint = settings.endpoint()?;
        let channel = match &settings.address {
            Address::Unix(path) => endpoint.connect_with_connector_lazy(unix_connector(path)),
            Address::Tcp { .. } | Address::Tls { .. } => endpoint.connect_lazy(),
        };
        Ok(Client::new(Connection::new(channel, false), settings))
    }

    fn settings(self) -> Result<Settings, Error> {
        let timeout = self.timeout.unwrap_or(Duration::from_secs(30));
        if timeout.is_zero() {
            return Err(Error::config("timeout", "must be more than 0"));
        }
        if self.retry.attempts == 0 {
            return Err(Error::config("retry.attempts", "must be at least 1"));
        }
        let (address, data_dir) = match (self.socket, &self.address, self.data_dir) {
            (Some(socket), _, data_dir) => (Address::Unix(socket), data_dir),
            (None, Some(address), data_dir) => (address.parse()?, data_dir),
            (None, None, data_dir) => {
                let data_dir = data_dir.unwrap_or_else(|| DATA_DIR.into());
                (find_server(&data_dir)?, Some(data_dir))
            }
        };
        let secure = matches!(address, Address::Tls { .. });
        if let Some(setting) = self.tls.setting().filter(|_| !secure) {
            return Err(Error::config(setting, format!("is for an address tls:HOST:PORT, not {address}")));
        }
        let tls = secure.then(|| self.tls_of_env.or(self.tls));
        let instance_id = self.instance_id.map_or_else(|| Ok(new_id()), instance_id)?;
        // The socket asks for no token; over TCP one that is on this machine is found by itself.
        let found = data_dir.filter(|_| matches!(address, Address::Tcp { .. }));
        let auth = match (self.token, self.token_file, found) {
            (Some(token), _, _) => Auth::text(&token)?,
            (None, Some(file), _) => Auth::file(file)?,
            (None, None, Some(data_dir)) => Auth::data_dir(data_dir, address.clone()),
            (None, None, None) => Auth::default(),
        };
        if auth.has_token() && !secure && !address.is_here() {
            let problem = format!(
                "`{address}` is another machine, and a token is not sent there in the clear: use tls:HOST:PORT"
            );
            return Err(Error::config("address", problem));
        }
        Ok(Settings {
            address,
            auth,
            timeout,
            retry: self.retry,
            instance_id,
            tls,
            renew_leases: !self.leave_leases,
            close_timeout: self.close_timeout.unwrap_or(Duration::from_secs(10)),
        })
    }
}

impl fmt::Debug for Builder {
    /// Without the token: it is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("address", &self.address)
            .field("socket", &self.socket)
            .field("token_file", &self.token_file)
            .field("data_dir", &self.data_dir)
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .field("instance_id", &self.instance_id)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// What a client was made with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) auth: Auth,
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) instance_id: String,
    pub(crate) renew_leases: bool,
    pub(crate) close_timeout: Duration,
    /// Only for an address that wants it.
    tls: Option<Tls>,
}

impl Settings {
    fn endpoint(&self) -> Result<Endpoint, Error> {
        // Over a socket the authority is a mere word, and a path would not be a valid one.
        let uri = match &self.address {
            Address::Unix(_) => "http://localhost".to_owned(),
            Address::Tcp { host, port } => format!("http://{host}:{port}"),
            Address::Tls { host, port } => format!("https://{host}:{port}"),
        };
        let bad = |error: tonic::transport::Error| Error::config("address", tls::cause(&error));
        let endpoint = Endpoint::from_shared(uri).map_err(bad)?;
        let endpoint =
            endpoint.user_agent(concat!("contextstore-rust/", env!("CARGO_PKG_VERSION"))).map_err(bad)?;
        let endpoint = match &self.tls {
            Some(tls) => endpoint
                .tls_config(tls.config()?)
                .map_err(|error| Error::config("tls", format!("cannot be used: {}", tls::cause(&error))))?,
            None => endpoint,
        };
        Ok(endpoint
            .connect_timeout(self.timeout)
            .tcp_nodelay(true)
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES))
    }
}

fn unix_connector(
    path: &Path,
) -> impl tower::Service<
    http::Uri,
    Response = TokioIo<UnixStream>,
    Error = std::io::Error,
    Future: Send + Unpin + 'static,
> + Send
+ 'static {
    let path = path.to_owned();
    service_fn(move |_| {
        let path = path.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    })
}

fn instance_id(name: String) -> Result<String, Error> {
    if name.is_empty() { Err(Error::config("instance_id", "is empty")) } else { Ok(name) }
}

/// Where the server of a data directory is: at its usual socket, also if it is not there yet, unless a server that
/// does not listen there has written down where it does.
#[expect(clippy::disallowed_methods, reason = "whether it can be used is seen when it is connected to")]
pub(crate) fn find_server(data_dir: &Path) -> Result<Address, Error> {
    let socket = data_dir.join(SOCKET);
    if !socket.exists()
        && let Ok(listed) = read_small(&data_dir.join(ADDRESSES))
    {
        let first = |kind| listed.lines().find(|line| line.starts_with(kind));
        if let Some(address) = first("unix:").or_else(|| first("tcp:")) {
            return address.parse();
        }
    }
    Ok(Address::Unix(socket))
}

/// A small file of text.
#[expect(clippy::disallowed_methods, reason = "the user names the file, and what is read is bounded")]
pub(crate) fn read_small(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::OsString;

    #[test]
    fn the_environment_fills_in_and_empty_is_unset() {
        let var = |name: &str| match name {
            "CONTEXTSTORE_DATA_DIR" => Some(OsString::from("/data")),
            "CONTEXTSTORE_TOKEN" => Some(OsString::new()),
            _ => None,
        };
        let settings = Builder::default().vars(var).settings().unwrap();
        assert_eq!(settings.address, Address::Unix("/data/contextstore.sock".into()));
        assert!(!settings.auth.has_token());
        let settings = Builder::default().vars(|_| None).settings().unwrap();
        assert_eq!(settings.address, Address::Unix("contexts/contextstore.sock".into()));
    }

    #[test]
    fn the_token_comes_from_where_it_is_said_to_be() {
        let dir = std::env::temp_dir().join(format!("contextstore-client-{}", std::process::id()));
        let tcp = || Builder::default().address("tcp:127.0.0.1:9");
        let missing = tcp().token_file(dir.join("x")).settings().unwrap_err().to_string();
        assert!(missing.starts_with("token_file has no token to read in "), "{missing}");

        let has_token = |builder: Builder| builder.settings().unwrap().auth.has_token();
        assert!(!has_token(tcp()));
        assert!(has_token(tcp().data_dir(&dir)));
        assert!(has_token(tcp().token("abc").token_file("/gone")));
        assert!(has_token(tcp().token("abc\n")));
        for bad in ["", "a b", "a\nb", "ä", "abc ", " abc", "abc\n\n", "\n"] {
            assert!(tcp().token(bad).settings().unwrap_err().to_string().starts_with("token is"), "{bad}");
        }
        // No random id has such a part.
        assert!(!format!("{:?}", tcp().token("secret")).contains("secret"));
        assert!(!format!("{:?}", tcp().token("secret").settings().unwrap()).contains("secret"));
    }

    #[test]
    fn a_token_stays_here_or_goes_over_tls() {
        let said = |address: &str| Builder::default().address(address).token("abc").settings();
        for fine in ["tcp:127.0.0.2:9", "tcp:[::1]:9", "tcp:localhost:9", "tls:example.org:9", "unix:/s"] {
            assert!(said(fine).is_ok(), "{fine}");
        }
        for other in ["tcp:192.0.2.1:9", "tcp:example.org:9"] {
            let refused = said(other).unwrap_err().to_string();
            assert!(refused.contains("is another machine"), "{refused}");
        }
    }

    #[test]
    fn certificates_are_for_tls_and_the_environment_names_them() {
        let ca = |name: &str| (name == "CONTEXTSTORE_CA_FILE").then(|| OsString::from("/ca.pem"));
        let tcp = Builder::default().vars(ca).address("tcp:127.0.0.1:9").settings().unwrap();
        assert!(tcp.tls.is_none());
        let tls = Builder::default().vars(ca).address("tls:example.org:9").settings().unwrap().tls.unwrap();
        assert_eq!(tls.ca_file.as_deref(), Some(Path::new("/ca.pem")));
        let refused = Builder::default().address("unix:/s").ca_file("/ca.pem").settings().unwrap_err();
        assert_eq!(refused.to_string(), "ca_file is for an address tls:HOST:PORT, not unix:/s");
    }

    #[test]
    fn settings_that_do_nothing_are_refused() {
        let said = |builder: Builder| builder.settings().unwrap_err().to_string();
        assert_eq!(said(Builder::default().timeout(Duration::ZERO)), "timeout must be more than 0");
        assert_eq!(said(Builder::default().instance_id("")), "instance_id is empty");
        let retry = RetryPolicy { attempts: 0, ..RetryPolicy::default() };
        assert_eq!(said(Builder::default().retry(retry)), "retry.attempts must be at least 1");
    }
}
