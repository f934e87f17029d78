//! Posts events over HTTP.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, StatusCode, header};

use super::{FailedTry, HookEvent};
use crate::model::in_full;

/// The URL of a hook.
pub(super) struct Post {
    url: String,
    host: String,
    /// Created on first use.
    client: OnceLock<Result<Client, String>>,
}

impl Post {
    pub(super) fn new(url: &str) -> Self {
        let host = url.parse::<http::Uri>().ok().and_then(|url| Some(url.authority()?.to_string()));
        Self { url: url.to_owned(), host: host.unwrap_or_default(), client: OnceLock::new() }
    }

    /// Returns the host, the only part of the URL that can be logged.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Posts an event. Any status but 2xx is a failure; the response body is not read.
    pub(super) async fn send(&self, event: &HookEvent, limit: Duration) -> Result<(), FailedTry> {
        let client = self.client.get_or_init(|| self.make_client());
        let client = client.as_ref().map_err(|why| FailedTry { why: why.clone(), may_pass: false })?;
        let request = client
            .post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .timeout(limit)
            .body(event.body.clone());
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status();
                let passing = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
                let may_pass = status.is_server_error() || passing;
                Err(FailedTry { why: format!("it answered {status}"), may_pass })
            }
            Err(error) if error.is_timeout() => {
                Err(FailedTry { why: format!("it did not answer within {limit:?}"), may_pass: true })
            }
            Err(error) => Err(FailedTry { why: in_full(&error.without_url()), may_pass: true }),
        }
    }

    fn make_client(&self) -> Result<Client, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("contextstore/", env!("CARGO_PKG_VERSION")))
            // A redirect would send the event to another address.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        if self.is_loopback() {
            builder = builder.no_proxy();
        }
        if self.url.starts_with("http:") {
            // A machine without root certificates can still post over plain HTTP.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|error| format!("no client can be made: {}", in_full(&error)))
    }

    fn is_loopback(&self) -> bool {
        let url: http::Uri = self.url.parse().unwrap_or_default();
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}
