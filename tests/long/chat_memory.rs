//! Memory: a context is sent to a provider from disk, so a large one takes no more of it than a small one.
//!
//! `make test-long` sends 1 GB to each provider instead of 64 MB.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use contextstore_client::{RawClient, v1};
use futures_util::stream;
use v1::chat_response::Event;

use test_support::fake_llm::FakeLlm;
use test_support::server::{DEADLINE, TestServer};
use test_support::service::{once, serve_in, start_task};

const MIB: u64 = 1 << 20;
/// What sending may take.
const GROWTH: u64 = 32 * MIB;
const LARGE: &str = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10";
const SMALL: &str = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f11";
const PROVIDERS: [&str; 4] = ["openai", "openai_responses", "anthropic", "ollama"];

fn context_bytes() -> u64 {
    test_support::sized(48 * MIB, 1 << 30)
}

/// The most memory that a server has had since it was last asked.
fn peak(server: &TestServer) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
    peak
}

async fn fill(raw: &mut RawClient, lease: u64, bytes: u64) {
    let text = Arc::new("All work and no play makes Jack a dull boy.\n".repeat(MIB as usize / 44));
    let requests = (0..bytes / MIB).map(move |number| {
        let content = format!("{number} {text}");
        let role = if number % 2 == 0 { v1::Role::User } else { v1::Role::Assistant }.into();
        let message = v1::Message { role, content, ..Default::default() };
        v1::AppendMessagesRequest {
            task_uuid: LARGE.to_owned(),
            messages: vec![v1::NewMessage {
                body: Some(v1::new_message::Body::Fields(message)),
                ..Default::default()
            }],
            lease_generation: lease,
        }
    });
    let mut acks = raw.append_messages(stream::iter(requests)).await.unwrap().into_inner();
    while acks.message().await.unwrap().is_some() {}
}

/// Asks a provider; answers what it said.
async fn chat(raw: &mut RawClient, provider: &str, task: &str, lease: u64) -> String {
    let user = v1::Message { role: v1::Role::User.into(), content: "Go on".to_owned(), ..Default::default() };
    let new = v1::NewMessage { body: Some(v1::new_message::Body::Fields(user)), ..Default::default() };
    let request = v1::ChatRequest {
        task_uuid: task.to_owned(),
        messages: vec![new],
        provider: v1::Provider::from_name(provider).unwrap().into(),
        model: "fake".to_owned(),
        lease_generation: lease,
        ..Default::default()
    };
    let mut stream = raw.chat(request).await.unwrap().into_inner();
    let (mut text, mut done) = (String::new(), false);
    while let Some(piece) = stream.message().await.unwrap() {
        match piece.event.unwrap() {
            Event::Text(more) => text.push_str(&more),
            Event::Done(_) => done = true,
            Event::Started(_) | Event::Reasoning(_) | Event::ToolCall(_) | Event::Usage(_) => {}
        }
    }
    assert!(done);
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_context_is_sent_from_disk() {
    let fake =
        FakeLlm::start_with(&["--count-only", "--check-bytes", "1000000", "--max-bytes", "9000000000"]);
    let mut settings = "llm:\n  providers:\n".to_owned();
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let key = root.path().join("key");
    fs::write(&key, "sk-any").unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for provider in PROVIDERS {
        let version = if provider.starts_with("openai") { "/v1" } else { "" };
        let (url, key) = (fake.url(), key.display());
        settings.push_str(&format!(
            "    {provider}:\n      base_url: {url}{version}\n      api_key_file: {key}\n      timeout: 1h\n"
        ));
    }
    let mut server = serve_in(root, &settings).await;
    let mut raw = once(&server).await.raw();
    let bytes = context_bytes();
    let (large, small) =
        (start_task(&mut raw, LARGE, "process").await, start_task(&mut raw, SMALL, "process").await);
    fill(&mut raw, large, bytes).await;
    // A server without anything in memory.
    server.restart().await;
    let client = server.builder().timeout(20 * DEADLINE).connect().await.unwrap();
    let mut raw = client.raw();
    for provider in PROVIDERS {
        // What every first request takes is not the context's.
        chat(&mut raw, provider, SMALL, small).await;
    }
    for provider in PROVIDERS {
        peak(&server);
        let before = server.rss();
        let begun = Instant::now();
        let said = chat(&mut raw, provider, LARGE, large).await;
        let grown = peak(&server).saturating_sub(before);
        let sent = fake.requests().last().unwrap()["bytes"].as_u64().unwrap();
        println!(
            "{provider}: {} MiB in {:?}, {:.1} MiB of memory, {said:?}",
            sent / MIB,
            begun.elapsed(),
            grown as f64 / MIB as f64
        );
        assert!(sent > bytes, "{provider} got {sent} bytes of {bytes}");
        assert!(grown <= GROWTH, "{provider}: sending {} MiB took {} MiB", sent / MIB, grown / MIB);
    }
}
