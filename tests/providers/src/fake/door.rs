//! Which request is answered how: paths, keys, the check of the body, the script.

use std::future::pending;
use std::io;
use std::sync::Arc;

use crate::{Provider, Refusal, Rules, check_bytes};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::fake::Options;
use crate::fake::answer::{self, Reply};
use crate::fake::intake::{self, Taken};
use crate::fake::limits;
use crate::fake::record::{Pen, Records};
use crate::fake::script::{Fault, Script, Scripts};
use crate::fake::send::{self, Body, Gate, Turn};

/// Everything that outlives a request.
#[derive(Debug)]
pub(crate) struct Door {
    options: Options,
    scripts: Scripts,
    records: Arc<Records>,
    gate: Gate,
}

/// Versions of Anthropic's API: what most send, and what the official package sends since it is 2.
const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];

fn provider(path: &str) -> Option<Provider> {
    match path {
        "/v1/chat/completions" => Some(Provider::OpenAi),
        "/v1/responses" => Some(Provider::OpenAiResponses),
        "/v1/messages" => Some(Provider::Anthropic),
        "/api/chat" => Some(Provider::Ollama),
        "/lmstudio/v1/chat/completions" => Some(Provider::LmStudio),
        _ => None,
    }
}

fn json_body(value: &Value) -> Bytes {
    value.to_string().into()
}

fn whole(status: u16, body: Bytes) -> io::Result<Response<Body>> {
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(io::Error::other)
}

impl Door {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, scripts: Scripts::default(), records: Arc::default(), gate: Gate::default() }
    }

    /// Answers a request. An error breaks the connection.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer_port: u16,
    ) -> io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        if path.starts_with("/control") {
            return self.control(&parts, body).await;
        }
        if let (Some(provider), &Method::POST) = (provider(&path), &parts.method) {
            return self.model(provider, &parts, body, peer_port).await;
        }
        let mut pen = self.records.begin(&parts, peer_port);
        let (status, body) = match (&parts.method, path.as_str()) {
            (&Method::GET, "/v1/models") => (
                200,
                json!({"object": "list", "has_more": false, "data": [
                    {"id": "fake", "object": "model", "created": 1_700_000_000, "owned_by": "fake"},
                ]}),
            ),
            (&Method::GET, "/api/tags") => {
                (200, json!({"models": [{"name": "fake:latest", "model": "fake:latest", "size": 1}]}))
            }
            _ => (404, json!({"error": {"message": format!("Invalid URL ({} {path})", parts.method)}})),
        };
        pen.write(|record| record.status = status);
        pen.sent();
        whole(status, json_body(&body))
    }

    async fn control(&self, parts: &Parts, body: Incoming) -> io::Result<Response<Body>> {
        match (&parts.method, parts.uri.path()) {
            (&Method::POST, "/control") => {
                let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
                match serde_json::from_slice::<Script>(&body) {
                    Ok(script) => {
                        self.scripts.add(script);
                        whole(200, json_body(&json!({})))
                    }
                    Err(err) => whole(400, json_body(&json!({"error": err.to_string()}))),
                }
            }
            (&Method::POST, "/control/go_on") => {
                self.gate.open();
                whole(200, json_body(&json!({})))
            }
            (&Method::DELETE, "/control") => {
                self.scripts.clear();
                self.records.clear();
                whole(200, json_body(&json!({})))
            }
            (&Method::GET, "/control/requests") => {
                whole(200, serde_json::to_vec(&self.records.all())?.into())
            }
            (&Method::GET, path) => {
                let number =
                    path.strip_prefix("/control/requests/").and_then(|rest| rest.strip_suffix("/body"));
                let kept = number.and_then(|number| self.records.body(number.parse().ok()?));
                kept.map_or_else(
                    || whole(404, json_body(&json!({"error": "not kept"}))),
                    |body| whole(200, body),
                )
            }
            _ => whole(404, json_body(&json!({"error": "no such control"}))),
        }
    }

    fn script(&self, parts: &Parts) -> Result<Script, serde_json::Error> {
        match parts.headers.get("x-fake-script") {
            Some(script) => serde_json::from_slice(script.as_bytes()),
            None => Ok(self.scripts.take(parts.uri.path())),
        }
    }

    fn rules(&self, provider: Provider) -> Rules {
        let own = Rules::of(provider);
        Rules {
            max_bytes: self.options.max_bytes.unwrap_or(own.max_bytes),
            strict: !self.options.lenient,
            ..own
        }
    }

    async fn model(
        &self,
        provider: Provider,
        parts: &Parts,
        body: Incoming,
        peer_port: u16,
    ) -> io::Result<Response<Body>> {
        // Before the request can be seen, so that whoever has seen it can let it go on.
        let turn = self.gate.turn();
        let mut pen = self.records.begin(parts, peer_port);
        let script = match self.script(parts) {
            Ok(script) => script,
            Err(err) => return whole(400, json_body(&json!({"error": format!("x-fake-script: {err}")}))),
        };
        let rules = self.rules(provider);
        let stop = (script.fault == Some(Fault::CloseMidRequest)).then_some(script.after.unwrap_or(1));
        // One that is too large anyway is not held.
        let hold = self.options.check_bytes.min(rules.max_bytes);
        let taken = match intake::take(body, hold, !self.options.count_only, stop).await {
            Ok(taken) => taken,
            Err(broken) => {
                pen.write(|record| record.bytes = broken.bytes);
                return Err(io::Error::other("the request broke off"));
            }
        };
        pen.body(taken.bytes, taken.blake3.clone(), taken.whole.clone());
        if script.fault == Some(Fault::HangBeforeHeaders) {
            pending::<()>().await;
        }
        let checked =
            self.authorized(provider, &parts.headers).and_then(|()| check(provider, &taken, &rules));
        pen.write(|record| {
            record.verdict = match &checked {
                Ok(None) => "not checked".to_owned(),
                Ok(Some(_)) => "ok".to_owned(),
                Err(refusal) => refusal.message.clone(),
            };
        });
        let body = match checked {
            Ok(body) => body.unwrap_or(Value::Null),
            Err(refusal) => return refuse(provider, &refusal, None, pen),
        };
        if let (Some(status), Some(body)) = (script.status, &script.body) {
            pen.write(|record| record.status = status);
            pen.sent();
            return whole(status, json_body(body));
        }
        if let Some(status) = script.status {
            return refuse(provider, &answer::failure(status, &script), script.retry_after.as_deref(), pen);
        }
        if let Err(refusal) = limits::check(provider, &body, taken.bytes, &script) {
            return refuse(provider, &refusal, None, pen);
        }
        let reply = Reply::new(pen.number, provider, &body, taken.bytes, &script);
        respond(provider, &reply, &script, turn, pen)
    }

    /// The key and the other headers that a provider wants.
    fn authorized(&self, provider: Provider, headers: &HeaderMap) -> Result<(), Refusal> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let refusal = |status, kind, message: &str| Refusal {
            status,
            kind,
            code: (status == 401).then_some("invalid_api_key"),
            param: None,
            message: message.to_owned(),
        };
        let good = |key: &str| self.options.key.as_deref().is_none_or(|only| only == key);
        let bearer = header(AUTHORIZATION.as_str()).strip_prefix("Bearer ").unwrap_or_default();
        match provider {
            Provider::OpenAi | Provider::OpenAiResponses => {
                let key = bearer;
                if key.is_empty() {
                    let words = "You didn't provide an API key. You need to provide your API key in an \
                                 Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).";
                    return Err(refusal(401, "invalid_request_error", words));
                }
                if !good(key) {
                    return Err(refusal(401, "invalid_request_error", "Incorrect API key provided."));
                }
            }
            Provider::Anthropic => {
                // The official package sends its key as a bearer's since version 2.
                let key = if header("x-api-key").is_empty() { bearer } else { header("x-api-key") };
                if key.is_empty() {
                    return Err(refusal(401, "authentication_error", "x-api-key header is required"));
                }
                if !good(key) {
                    return Err(refusal(401, "authentication_error", "invalid x-api-key"));
                }
                let version = header("anthropic-version");
                if version.is_empty() {
                    let words = "anthropic-version: header is required";
                    return Err(refusal(400, "invalid_request_error", words));
                }
                if !VERSIONS.contains(&version) {
                    let words = format!("anthropic-version: \"{version}\" is not a valid version");
                    return Err(refusal(400, "invalid_request_error", &words));
                }
            }
            Provider::Ollama => return Ok(()),
            // It needs no key, unless its owner wants one.
            Provider::LmStudio if good(bearer) => {}
            Provider::LmStudio => return Err(refusal(401, "invalid_request_error", "Invalid API key.")),
        }
        let kind = header(CONTENT_TYPE.as_str());
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let words = format!(
                "Unsupported content type: '{kind}'. This API method only accepts 'application/json' requests, but \
                 you specified the header 'Content-Type: {kind}'. Please try again with a supported content type."
            );
            return Err(refusal(415, "invalid_request_error", &words));
        }
        Ok(())
    }
}

/// The body, if it was small enough to be checked by every rule.
fn check(provider: Provider, taken: &Taken, rules: &Rules) -> Result<Option<Value>, Refusal> {
    if let Some(whole) = &taken.whole {
        return check_bytes(provider, whole, rules).map(Some);
    }
    if taken.bytes > rules.max_bytes {
        crate::check_with(provider, &Value::Null, taken.bytes, rules)?;
    }
    if taken.is_json == Some(false) {
        // Its words for what is no JSON.
        check_bytes(provider, b"{", rules)?;
    }
    Ok(None)
}

fn refuse(
    provider: Provider,
    refusal: &Refusal,
    retry_after: Option<&str>,
    mut pen: Pen,
) -> io::Result<Response<Body>> {
    pen.write(|record| record.status = refusal.status);
    pen.sent();
    let mut response = whole(refusal.status, json_body(&refusal.body(provider)))?;
    if let Some(retry_after) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, retry_after.parse().map_err(io::Error::other)?);
    }
    response.headers_mut().insert("request-id", http::HeaderValue::from_static("req_fake"));
    Ok(response)
}

fn respond(
    provider: Provider,
    reply: &Reply,
    script: &Script,
    turn: Turn,
    mut pen: Pen,
) -> io::Result<Response<Body>> {
    pen.write(|record| record.status = 200);
    let (kind, pieces) = if !reply.streamed || script.whole {
        let answer = answer::whole(provider, reply);
        // Over many lines, as some write it.
        let answer = if script.whole { format!("{answer:#}").into() } else { json_body(&answer) };
        if script.fault.is_none() && script.delay_ms == 0 {
            pen.sent();
            return whole(200, answer);
        }
        // Cut in two, so that it can break in the middle.
        let half = answer.len() / 2;
        ("application/json", vec![answer.slice(..half), answer.slice(half..)])
    } else if provider == Provider::Ollama {
        ("application/x-ndjson", answer::stream(provider, reply))
    } else {
        ("text/event-stream; charset=utf-8", answer::stream(provider, reply))
    };
    let malformed = answer::malformed(provider);
    let failed = answer::failed(provider, script);
    let body = send::body(pieces, script, malformed, failed, turn, pen);
    Response::builder()
        .header(CONTENT_TYPE, kind)
        .header("x-request-id", "req_fake")
        .body(body)
        .map_err(io::Error::other)
}
