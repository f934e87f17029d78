//! One answer: sends the request, retries it where that can help, and streams the events of the answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, StatusCode, header};
use reqwest::{Body, Response};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::body::FileBody;
use super::decode::{AnswerEvent, Decode, DecodeError, decoder, take};
use super::error::{ErrorBody, quoted};
use super::error_class::{ErrorClass, classify};
use super::frames::{Frames, MAX_FRAME_BYTES};
use super::key::ApiKey;
use super::{Gateway, LlmError, LlmRequest, endpoint, headers};
use crate::infra::clock::SystemClock;
use crate::infra::metrics;
use crate::model::{Provider, in_full};

/// Pause before the first retry; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause that the gateway chooses by itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Bytes of an error body that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Time to read a complete answer to the end of its stream, so that the connection can be reused.
const TAIL: Duration = Duration::from_secs(1);

/// An answer in progress. Dropping it closes the connection.
pub struct Answer {
    gateway: Arc<Gateway>,
    request: LlmRequest,
    stream: Option<AnswerStream>,
    ready: VecDeque<AnswerEvent>,
    /// True once an event was returned. A retry would repeat it, so there is none from then on.
    emitted: bool,
    ended: bool,
    tries: u32,
    began: Instant,
    deadline: Instant,
    outcome: Option<&'static str>,
    /// The error that ended the stream. It is returned after the events that arrived before it.
    broke: Option<FailedTry>,
}

/// The response stream of one try.
struct AnswerStream {
    response: Response,
    key: Option<ApiKey>,
    frames: Frames,
    decode: Box<dyn Decode>,
    begun: bool,
}

impl AnswerStream {
    /// Returns true if the answer was complete when the connection broke, and adds its last events.
    fn is_whole(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool {
        let _ = self.frames.end();
        while let Some(frame) = self.frames.next() {
            // The last frame can be incomplete.
            if let Err(DecodeError::Error(_)) = take(self.decode.as_mut(), &frame, out) {
                return false;
            }
        }
        self.decode.end(out)
    }
}

/// The error of one try.
struct FailedTry {
    error: LlmError,
    /// True if the same request can succeed later.
    passes: bool,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("request", &self.request)
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}

impl Answer {
    pub(super) fn new(gateway: Arc<Gateway>, request: LlmRequest) -> Self {
        let began = Instant::now();
        let deadline = began + gateway.config.of(request.provider).timeout;
        Self {
            gateway,
            request,
            stream: None,
            ready: VecDeque::new(),
            emitted: false,
            ended: false,
            tries: 0,
            began,
            deadline,
            outcome: None,
            broke: None,
        }
    }

    /// Returns the next event, or `None` after [`AnswerEvent::Finish`] or an error. Dropping the future before it is
    /// ready can lose events.
    pub async fn next(&mut self) -> Result<Option<AnswerEvent>, LlmError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.emitted |= !matches!(event, AnswerEvent::Usage(_));
                return Ok(Some(event));
            }
            if let Some(failure) = self.broke.take() {
                self.retry_or_fail(failure).await?;
            }
            if self.ended {
                return Ok(None);
            }
            if let Err(failure) = self.advance().await {
                self.stream = None;
                // Events that arrived before the error are returned first. Then there is no retry.
                self.broke = Some(failure);
            }
        }
    }

    fn provider(&self) -> Provider {
        self.request.provider
    }

    fn failed(&self, problem: impl Into<String>) -> FailedTry {
        let (provider, problem) = (self.provider(), problem.into());
        FailedTry { error: LlmError::Failed { provider, problem, retry_after: None }, passes: true }
    }

    /// Waits before the next try, or returns the error if no retry can help.
    async fn retry_or_fail(&mut self, FailedTry { error, passes }: FailedTry) -> Result<(), LlmError> {
        let config = &self.gateway.config;
        let asked = if let LlmError::Failed { retry_after, .. } = &error { *retry_after } else { None };
        let pause = asked.unwrap_or_else(|| pause(self.tries));
        let worth = passes
            && !self.emitted
            && self.tries <= config.retries
            && asked.is_none_or(|asked| asked <= config.max_retry_after)
            && Instant::now() + pause < self.deadline;
        if !worth {
            self.ended = true;
            let refused = matches!(error, LlmError::Refused { .. } | LlmError::NotConfigured { .. });
            self.outcome = Some(if refused { "refused" } else { "failed" });
            return Err(error);
        }
        tracing::info!(provider = self.provider().as_str(), %error, ?pause, "a request to a provider is sent again");
        metrics::llm_retried(self.provider().as_str());
        sleep(pause).await;
        Ok(())
    }

    /// Sends the request, or reads the next chunk of the answer.
    async fn advance(&mut self) -> Result<(), FailedTry> {
        let Some(mut stream) = self.stream.take() else {
            self.stream = Some(self.connect().await?);
            return Ok(());
        };
        let config = &self.gateway.config;
        let limit = if stream.begun { config.idle_timeout } else { config.first_byte_timeout };
        let until = self.deadline.min(Instant::now() + limit);
        let chunk = match timeout_at(until, stream.response.chunk()).await {
            Ok(Ok(chunk)) => chunk,
            // A connection that breaks after a complete answer is no error.
            _ if stream.is_whole(&mut self.ready) => {
                self.ended = true;
                self.outcome = Some("ok");
                return Ok(());
            }
            Ok(Err(error)) => {
                return Err(self.failed(format!("the answer broke off: {}", in_full(&error.without_url()))));
            }
            Err(_) if until == self.deadline => return Err(self.too_slow()),
            Err(_) => return Err(self.failed(format!("it message nothing for {limit:?}"))),
        };
        let ended = chunk.is_none();
        match chunk {
            Some(bytes) => {
                stream.begun = true;
                stream.frames.push(&bytes)
            }
            None => stream.frames.end(),
        }
        .map_err(|_| self.failed(format!("it sent an event of more than {MAX_FRAME_BYTES} bytes")))?;
        while let Some(frame) = stream.frames.next() {
            let taken = take(stream.decode.as_mut(), &frame, &mut self.ready);
            taken.map_err(|broken| self.broken(broken, stream.key.as_ref()))?;
        }
        if !ended && !stream.decode.is_done() {
            self.stream = Some(stream);
            return Ok(());
        }
        if !stream.decode.end(&mut self.ready) {
            return Err(self.failed("the answer ended in the middle"));
        }
        self.ended = true;
        self.outcome = Some("ok");
        if !ended {
            // HTTP can reuse a connection only after the response was read to its end.
            let _ = timeout(TAIL, async { while let Ok(Some(_)) = stream.response.chunk().await {} }).await;
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<AnswerStream, FailedTry> {
        let provider = self.provider();
        let final_ = |error| FailedTry { error, passes: false };
        self.tries += 1;
        let key = self.gateway.key(provider).map_err(final_)?;
        let client = self.gateway.client(provider).map_err(final_)?;
        let sent = Arc::new(AtomicU64::new(0));
        let body = FileBody::new(self.request.payload.clone(), Arc::clone(&sent));
        let url = endpoint(provider, self.gateway.config.of(provider));
        let request = client.post(url).headers(headers(provider, key.as_ref())).body(Body::wrap(body));
        let response = self.first_byte(request.send(), &sent).await?;
        let status = response.status();
        if status.is_success() {
            let (framing, decode) = decoder(provider);
            return Ok(AnswerStream { response, key, frames: Frames::new(framing), decode, begun: false });
        }
        let retry_after = retry_after(response.headers(), SystemClock::shared().now());
        let body = ErrorBody::read(&self.error_body(response).await);
        Err(self.failure_of(Some(status), &body, retry_after, key.as_ref()))
    }

    /// Waits for the response headers. The time-out starts again while the provider still receives the request.
    async fn first_byte(
        &self,
        sending: impl Future<Output = reqwest::Result<Response>>,
        sent: &AtomicU64,
    ) -> Result<Response, FailedTry> {
        let limit = self.gateway.config.first_byte_timeout;
        let mut sending = std::pin::pin!(sending);
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let until = self.deadline.min(since + limit);
            tokio::select! {
                sent = &mut sending => return sent.map_err(|error| {
                    let what = if error.is_connect() { "it cannot be reached" } else { "the connection broke" };
                    self.failed(format!("{what}: {}", in_full(&error.without_url())))
                }),
                () = sleep_until(until) => {
                    let now = sent.load(Ordering::Relaxed);
                    if until == self.deadline {
                        return Err(self.too_slow());
                    }
                    if now == seen {
                        return Err(self.failed(format!("it did not begin to answer within {limit:?}")));
                    }
                    (seen, since) = (now, Instant::now());
                }
            }
        }
    }

    /// Reads the body of an error response, up to the limit.
    async fn error_body(&self, mut response: Response) -> Vec<u8> {
        let mut words = Vec::new();
        let until = self.deadline.min(Instant::now() + self.gateway.config.idle_timeout);
        while words.len() < MAX_ERROR_BYTES
            && let Ok(Ok(Some(bytes))) = timeout_at(until, response.chunk()).await
        {
            words.extend_from_slice(&bytes);
        }
        words.truncate(MAX_ERROR_BYTES);
        words
    }

    fn too_slow(&self) -> FailedTry {
        let limit = self.gateway.config.of(self.provider()).timeout;
        FailedTry { passes: false, ..self.failed(format!("the answer took longer than {limit:?}")) }
    }

    fn broken(&self, broken: DecodeError, key: Option<&ApiKey>) -> FailedTry {
        match broken {
            DecodeError::Error(body) => self.failure_of(None, &body, None, key),
            DecodeError::Malformed(problem) => {
                let problem = quoted(&problem, key.map(ApiKey::expose));
                self.failed(format!("what it sent cannot be read: {problem}"))
            }
        }
    }

    /// Returns the failure that an error body stands for. `status` is the HTTP status unless it was 200.
    fn failure_of(
        &self,
        status: Option<StatusCode>,
        body: &ErrorBody,
        retry_after: Option<Duration>,
        key: Option<&ApiKey>,
    ) -> FailedTry {
        let (provider, exposed) = (self.provider(), key.map(ApiKey::expose));
        let (kind, message) = (quoted(&body.kind, exposed), quoted(&body.message, exposed));
        let number = status.as_ref().map(StatusCode::as_u16).or(body.status);
        let class = classify(number, &body.kind, &body.message);
        match class {
            ErrorClass::Overflow(_) | ErrorClass::LongAnswer { .. } | ErrorClass::Refused => {
                let status = number.unwrap_or(200);
                let error = LlmError::Refused { provider, status, kind, message, class };
                FailedTry { error, passes: false }
            }
            ErrorClass::Throttled | ErrorClass::Failed => {
                let what = status.map_or_else(|| "with an error".to_owned(), status_text);
                let kind = if kind.is_empty() { kind } else { format!(" ({kind})") };
                let problem = format!("it answered {what}{kind}: {message}");
                FailedTry { error: LlmError::Failed { provider, problem, retry_after }, passes: true }
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // An answer that is dropped before its end was interrupted by the caller.
        let outcome = self.outcome.unwrap_or("interrupted");
        metrics::llm_request_ended(self.provider().as_str(), outcome, self.began.elapsed());
    }
}

fn status_text(status: StatusCode) -> String {
    status
        .canonical_reason()
        .map_or_else(|| status.as_str().to_owned(), |words| format!("{} {words}", status.as_str()))
}

/// Returns the pause before the next try: twice as long each time, with random jitter.
fn pause(tries: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(8)).min(LONGEST_PAUSE);
    let share = (uuid::Uuid::new_v4().as_u128() & 0xffff) as f64 / 65_536.0;
    longest.mul_f64(0.5 + share / 2.0)
}

/// Returns the pause that the provider asks for: in seconds, in milliseconds, or until a date.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return seconds(milliseconds / 1000.0);
    }
    let asked = text(header::RETRY_AFTER.as_str())?;
    if let Ok(number) = asked.parse::<f64>() {
        return seconds(number);
    }
    let at = DateTime::parse_from_rfc2822(asked).ok()?.to_utc();
    Some((at - now).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_provider_can_ask_for_a_pause_in_three_ways() {
        let now: DateTime<Utc> = "2026-01-02T03:04:05Z".parse().unwrap();
        for (name, value, expected) in [
            ("retry-after", "3", Some(Duration::from_secs(3))),
            ("retry-after", "0.5", Some(Duration::from_millis(500))),
            ("retry-after-ms", "250", Some(Duration::from_millis(250))),
            ("retry-after", "Fri, 02 Jan 2026 03:04:15 GMT", Some(Duration::from_secs(10))),
            ("retry-after", "Fri, 02 Jan 2026 03:04:00 GMT", Some(Duration::ZERO)),
            ("retry-after", "-3", None),
            ("retry-after", "soon", None),
            ("retry-after", "inf", None),
            ("other", "3", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(retry_after(&headers, now), expected, "{name}: {value}");
        }
    }

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        for tries in 1..40 {
            let pause = pause(tries);
            assert!(pause >= FIRST_PAUSE / 2 && pause <= LONGEST_PAUSE, "{tries}: {pause:?}");
        }
        assert!(pause(1) <= FIRST_PAUSE);
        assert!(pause(6) >= LONGEST_PAUSE / 2);
    }
}
