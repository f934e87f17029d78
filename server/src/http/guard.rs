//! Refuses requests that were meant for, or come from, another host.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Passes a request whose host and origin, if any, are this machine.
pub(super) async fn only_this_machine(request: Request, next: Next) -> Response {
    let hosts = values(request.headers(), header::HOST);
    let named = request.uri().authority().is_none_or(|authority| is_loopback(authority.as_str()));
    let host = named && !hosts.is_empty() && hosts.iter().all(|host| host.is_some_and(is_loopback));
    let origins = values(request.headers(), header::ORIGIN);
    let origin = origins.iter().all(|origin| origin.is_some_and(is_loopback_origin));
    if host && origin {
        return next.run(request).await;
    }
    let what = if host { "Origin" } else { "Host" };
    let words = format!("refused: {what} must be localhost, 127.0.0.1 or [::1]\n");
    (StatusCode::FORBIDDEN, words).into_response()
}

/// Returns a header as text, or `None` if it is not visible ASCII.
fn values(headers: &HeaderMap, name: HeaderName) -> Vec<Option<&str>> {
    headers.get_all(name).iter().map(|value| value.to_str().ok()).collect()
}

fn is_loopback_origin(origin: &str) -> bool {
    origin
        .split_once("://")
        .is_some_and(|(scheme, host)| ["http", "https"].contains(&scheme) && is_loopback(host))
}

/// Returns true if `host` or `host:port` is this machine.
fn is_loopback(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_bracketed = authority.starts_with('[');
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let is_host = match host.parse() {
        Ok(IpAddr::V4(address)) => !is_bracketed && address.is_loopback(),
        Ok(IpAddr::V6(address)) => is_bracketed && address.is_loopback(),
        Err(_) => !is_bracketed && host.eq_ignore_ascii_case("localhost"),
    };
    is_port && is_host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_pass() {
        for good in
            ["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:9464", "127.0.0.2", "[::1]", "[::1]:80"]
        {
            assert!(is_loopback(good), "{good}");
        }
        let bad = [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:",
            "localhost:x",
            "localhost:1:2",
            "user@localhost",
            "::1",
            "[::1]x",
            "[localhost]",
            "[127.0.0.1]",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "127.1",
            "localhost/",
        ];
        for bad in bad {
            assert!(!is_loopback(bad), "{bad}");
        }
        assert!(is_loopback_origin("http://localhost:3000"));
        for bad in ["null", "localhost", "file://localhost", "http://evil.example", "http://localhost/x"] {
            assert!(!is_loopback_origin(bad), "{bad}");
        }
    }
}
