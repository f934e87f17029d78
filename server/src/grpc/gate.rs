//! The gate that every call goes through: who may call, how much at once, and what is counted.
//!
//! Default deny: only the methods of `grpc.health.v1.Health`, by their exact names, are open to everybody.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, Response, header};
use subtle::ConstantTimeEq;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

use super::intake::{Held, InFlight, Intake, Whole};
use super::metered::{Keeper, Metered};
use super::methods::Methods;
use super::paced::Pace;
use super::peer::{Connection, OPEN_CALLS, OpenCall, Peer, Via};
use super::status::Refusal;
use crate::infra::metrics;

/// The methods that need no permission.
const OPEN: [&str; 3] =
    ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List"];

/// How long such a call may take to send its message.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);

/// How long after its start a server tells callers with another token to read it again: every start makes a new one.
const NEW: Duration = Duration::from_secs(5);

/// Who may call.
pub(crate) struct Access {
    /// The server's own user.
    pub(crate) uid: u32,
    /// Hash of the token that calls over TCP must carry; none: they need none.
    token: Option<blake3::Hash>,
    since: Instant,
}

impl Access {
    pub(crate) fn new(uid: u32, token: Option<&str>) -> Self {
        Self { uid, token: token.map(hash), since: Instant::now() }
    }

    fn check(&self, via: Via, authorization: Option<&HeaderValue>) -> Result<(), Refusal> {
        match via {
            Via::Unix { uid } if uid == self.uid || uid == 0 => Ok(()),
            Via::Unix { uid } => Err(Refusal::Forbidden { caller: uid, server: self.uid }),
            Via::Tcp => match self.token {
                None => Ok(()),
                Some(token) => {
                    let given = authorization.and_then(|value| value.to_str().ok()).and_then(bearer);
                    // Hashes have one length, so nothing can be learnt from how long this takes.
                    let same =
                        given.is_some_and(|given| hash(given).as_bytes().ct_eq(token.as_bytes()).into());
                    // Who sends another token may have read it before this server made its own.
                    let is_new = given.is_some() && self.since.elapsed() < NEW;
                    if same { Ok(()) } else { Err(Refusal::Unauthenticated { is_new }) }
                }
            },
        }
    }
}

fn hash(token: &str) -> blake3::Hash {
    blake3::hash(token.as_bytes())
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The services behind the gate.
#[derive(Clone)]
pub(crate) struct Gate {
    routes: Routes,
    access: Arc<Access>,
    in_flight: Arc<InFlight>,
    connections: u64,
    methods: Arc<Methods>,
    pace: Arc<Pace>,
}

impl Gate {
    pub(crate) fn new(
        routes: Routes,
        access: Arc<Access>,
        in_flight: Arc<InFlight>,
        connections: u64,
        pace: Arc<Pace>,
    ) -> Self {
        let methods = Arc::new(Methods::default());
        Self { routes, access, in_flight, connections, methods, pace }
    }

    fn admit(&self, request: &Request<Body>) -> Result<(), Refusal> {
        let Some(peer) = request.extensions().get::<Peer>() else {
            return Err(Refusal::Internal("a call without a connection".to_owned()));
        };
        let allowed = self.access.check(peer.via, request.headers().get(header::AUTHORIZATION));
        if allowed.is_ok() {
            peer.line.permit();
        }
        if OPEN.contains(&request.uri().path()) {
            return Ok(());
        }
        allowed?;
        if !peer.line.has_place() {
            return Err(Refusal::Overloaded { what: "connections", limit: self.connections });
        }
        Ok(())
    }

    /// Counts a call of a method that is open to everybody; whoever may not call otherwise has few of them at once.
    fn open_call(line: Option<&Arc<Connection>>) -> Result<Option<OpenCall>, Refusal> {
        let Some(line) = line else { return Ok(None) };
        let call = line
            .open_call()
            .ok_or(Refusal::Overloaded { what: "calls without a token", limit: OPEN_CALLS })?;
        Ok(Some(call))
    }
}

impl Service<Request<Body>> for Gate {
    type Response = Response<Metered>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.routes, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let started = Instant::now();
        let method = self.methods.find(request.uri().path());
        let open = OPEN.contains(&request.uri().path());
        let held = if open { Held::small() } else { Held::new(&self.in_flight) };
        let line = request.extensions().get::<Peer>().map(|peer| Arc::clone(&peer.line));
        if let Some(line) = &line {
            line.touch(self.pace.now());
        }
        let admitted = self.admit(&request);
        let open_call = if open { Self::open_call(line.as_ref()) } else { Ok(None) };
        let keeper = line.map(|line| Keeper { pace: Arc::clone(&self.pace), line });
        let (open_call, refused) = match (admitted, open_call) {
            (Ok(()), Ok(open_call)) => (open_call, None),
            (Err(refusal), _) | (Ok(()), Err(refusal)) => (None, Some(refusal)),
        };
        let meter = move |response: Response<Body>, held| {
            Metered::wrap(response, method, started, held, keeper, open_call)
        };
        if let Some(refusal) = refused {
            if matches!(refusal, Refusal::Overloaded { .. }) {
                metrics::rejected("connections");
            }
            let response = Status::from(refusal).into_http();
            return Box::pin(async move { Ok(meter(response, held)) });
        }
        let patience = if open { OPEN_PATIENCE.min(self.pace.idle()) } else { self.pace.idle() };
        let wanting = method.takes_one;
        let whole = Whole::default();
        let intake = |body| Intake::new(body, Arc::clone(&held), wanting, patience, whole.clone());
        let mut request = request.map(|body| Body::new(intake(body)));
        request.extensions_mut().insert(whole);
        request.extensions_mut().insert(Arc::clone(&held));
        let answer = self.routes.call(request);
        Box::pin(async move { answer.await.map(|response| meter(response, held)) })
    }
}
