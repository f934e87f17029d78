//! One answer: the request is sent, again where that may help, and what comes back is told piece by piece.

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
use super::error::{ErrorBody, told};
use super::frames::{Frames, MAX_FRAME_BYTES};
use super::key::ApiKey;
use super::verdict::{ErrorClass, judge};
use super::{Gateway, LlmError, LlmRequest, endpoint, headers};
use crate::infra::clock::SystemClock;
use crate::infra::metrics;
use crate::model::{Provider, in_full};

/// The first pause before a request is sent again; each one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause of our own.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// What is read of the words of a refusal.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// How long the end of a stream is waited for once the answer is whole, so that the connection can be used again.
const TAIL: Duration = Duration::from_secs(1);

/// An answer that is on its way. Dropping it closes the connection.
pub struct Answer {
    gateway: Arc<Gateway>,
    request: LlmRequest,
    stream: Option<AnswerStream>,
    ready: VecDeque<AnswerEvent>,
    /// Whether something was told that cannot be taken back.
    told: bool,
    ended: bool,
    tries: u32,
    began: Instant,
    deadline: Instant,
    outcome: Option<&'static str>,
    /// Why it broke off, while what arrived before that is told.
    broke: Option<FailedTry>,
}

/// The answer to one try.
struct AnswerStream {
    response: Response,
    key: Option<ApiKey>,
    frames: Frames,
    decode: Box<dyn Decode>,
    begun: bool,
}

impl AnswerStream {
    /// Whether the model had ended when the connection broke. Tells the rest then.
    fn is_whole(&mut self, out: &mut VecDeque<AnswerEvent>) -> bool {
        let _ = self.frames.end();
        while let Some(frame) = self.frames.next() {
            // The last frame may be half of one.
            if let Err(DecodeError::Error(_)) = take(self.decode.as_mut(), &frame, out) {
                return false;
            }
        }
        self.decode.end(out)
    }
}

/// Why a try failed.
struct FailedTry {
    error: LlmError,
    /// Whether the same request may be answered later.
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
            told: false,
            ended: false,
            tries: 0,
            began,
            deadline,
            outcome: None,
            broke: None,
        }
    }

    /// The next piece; none behind [`AnswerEvent::Finish`]. After an error there is nothing more. A call of this that is
    /// dropped before it returns may lose what had arrived.
    pub async fn next(&mut self) -> Result<Option<AnswerEvent>, LlmError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.told |= !matches!(event, AnswerEvent::Usage(_));
                return Ok(Some(event));
            }
            if let Some(failure) = self.broke.take() {
                self.again(failure).await?;
            }
            if self.ended {
                return Ok(None);
            }
            if let Err(failure) = self.step().await {
                self.stream = None;
                // What arrived before it is told first, and then nothing is sent again.
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

    /// Waits before the next try, or gives up.
    async fn again(&mut self, FailedTry { error, passes }: FailedTry) -> Result<(), LlmError> {
        let config = &self.gateway.config;
        let asked = if let LlmError::Failed { retry_after, .. } = &error { *retry_after } else { None };
        let pause = asked.unwrap_or_else(|| pause(self.tries));
        let worth = passes
            && !self.told
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

    /// Sends the request, or reads on.
    async fn step(&mut self) -> Result<(), FailedTry> {
        let Some(mut stream) = self.stream.take() else {
            self.stream = Some(self.connect().await?);
            return Ok(());
        };
        let config = &self.gateway.config;
        let limit = if stream.begun { config.idle_timeout } else { config.first_byte_timeout };
        let until = self.deadline.min(Instant::now() + limit);
        let chunk = match timeout_at(until, stream.response.chunk()).await {
            Ok(Ok(chunk)) => chunk,
            // What was to come behind the end of an answer is not worth the answer.
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
            // A connection whose answer was read to its end is used again.
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
        let body = ErrorBody::read(&self.words(response).await);
        Err(self.judged(Some(status), &body, retry_after, key.as_ref()))
    }

    /// Waits for the head of the answer. As long as the provider takes the request, it is not silent.
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

    /// The words of a refusal, as far as they come.
    async fn words(&self, mut response: Response) -> Vec<u8> {
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
            DecodeError::Error(body) => self.judged(None, &body, None, key),
            DecodeError::Malformed(problem) => {
                let problem = told(&problem, key.map(ApiKey::expose));
                self.failed(format!("what it sent cannot be read: {problem}"))
            }
        }
    }

    /// The failure that an error of the provider is. `status` is that of an answer that is nothing else.
    fn judged(
        &self,
        status: Option<StatusCode>,
        body: &ErrorBody,
        retry_after: Option<Duration>,
        key: Option<&ApiKey>,
    ) -> FailedTry {
        let (provider, exposed) = (self.provider(), key.map(ApiKey::expose));
        let (kind, message) = (told(&body.kind, exposed), told(&body.message, exposed));
        let number = status.as_ref().map(StatusCode::as_u16).or(body.status);
        let verdict = judge(number, &body.kind, &body.message);
        match verdict {
            ErrorClass::Overflow(_) | ErrorClass::LongAnswer { .. } | ErrorClass::Refused => {
                let status = number.unwrap_or(200);
                let error = LlmError::Refused { provider, status, kind, message, verdict };
                FailedTry { error, passes: false }
            }
            ErrorClass::Throttled | ErrorClass::Failed => {
                let what = status.map_or_else(|| "with an error".to_owned(), words_of);
                let kind = if kind.is_empty() { kind } else { format!(" ({kind})") };
                let problem = format!("it answered {what}{kind}: {message}");
                FailedTry { error: LlmError::Failed { provider, problem, retry_after }, passes: true }
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Whoever does not want the rest has interrupted it.
        let outcome = self.outcome.unwrap_or("interrupted");
        metrics::llm_request_ended(self.provider().as_str(), outcome, self.began.elapsed());
    }
}

fn words_of(status: StatusCode) -> String {
    status
        .canonical_reason()
        .map_or_else(|| status.as_str().to_owned(), |words| format!("{} {words}", status.as_str()))
}

/// A pause before the next try: twice as long each time, and not the same for all who wait.
fn pause(tries: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(8)).min(LONGEST_PAUSE);
    let share = (uuid::Uuid::new_v4().as_u128() & 0xffff) as f64 / 65_536.0;
    longest.mul_f64(0.5 + share / 2.0)
}

/// The pause that a provider asks for: in seconds, in milliseconds, or until a date.
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
