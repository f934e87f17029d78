//! Providers that refuse, fail, drip or babble: each ends in time, in words that say why, and leaves nothing behind.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Instant;

use super::*;

/// What is said of an error never has the key in it, and nothing stays on disk.
fn words(scene: &Scene, error: &ModelError) -> String {
    let words = error.to_string();
    assert!(!words.contains(KEY) && !format!("{error:?}").contains(KEY), "{words}");
    assert_eq!(scene.request_files(), [""; 0]);
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let scene = Scene::with(|config| {
        for provider in &mut config.providers {
            provider.base_url = format!("http://{address}");
        }
    });
    for provider in Provider::ALL {
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::Failed { .. }), "{error:?}");
        assert!(words(&scene, &error).contains("cannot be reached"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_says_nothing_or_too_little() {
    let scene = Scene::new();
    let soon = Duration::from_millis(500);
    for provider in Provider::ALL {
        for script in [
            json!({"fault": "hang_before_headers"}),
            json!({"fault": "hang_mid_stream", "text": SAID}),
            json!({"text": "drip ".repeat(300), "delay_ms": 40}),
        ] {
            scene.fake.script(&script);
            let begun = Instant::now();
            let error = scene.ask(Asked { timeout: soon, ..of(provider) }).await.unwrap_err();
            assert!(matches!(error, ModelError::TimedOut { .. }), "{provider:?} {script}: {error:?}");
            assert!(words(&scene, &error).contains("500ms"), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            scene.fake.wait("the end of the connection", |all| all.iter().all(|one| one["answer"] != "open"));
            scene.fake.reset();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off() {
    let scene = Scene::new();
    for provider in Provider::ALL {
        for fault in
            ["break_mid_stream", "end_early", "malformed_chunk", "error_mid_stream", "close_mid_request"]
        {
            scene.fake.script(&json!({"fault": fault, "text": SAID}));
            let error = scene.ask(of(provider)).await.unwrap_err();
            assert!(matches!(error, ModelError::Failed { .. }), "{provider:?} {fault}: {error:?}");
            assert!(!words(&scene, &error).is_empty());
        }
        // It is asked again as if nothing had been.
        scene.says(SAID);
        scene.ask(of(provider)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_summary() {
    let scene = Scene::new();
    for provider in Provider::ALL {
        for (text, expected) in [
            ("", "empty"),
            (" \n ", "empty"),
            ("<summary>\n</summary>", "no summary"),
            ("<think>I think and think", "no summary"),
            ("I'm sorry, but I can't help with that.", "declined: I'm sorry"),
            ("<summary>I'm sorry, but I can't help with that.</summary>", "declined: I'm sorry"),
        ] {
            scene.says(text);
            let error = scene.ask(of(provider)).await.unwrap_err();
            assert!(error.is_bad_answer(), "{provider:?} {text:?}: {error:?}");
            // What it said is not told to the one that is asked next.
            assert!(!error.to_model().contains("sorry"), "{error:?}");
            assert!(words(&scene, &error).contains(expected), "{error}");
        }
        scene.says("garbage that is no JSON");
        let question = scene.question(of(provider));
        let error = ask_gaps(&scene.gateway, &scene.store, scene.id, &question, &[(0, 5)], &|_| {})
            .await
            .unwrap_err();
        assert!(matches!(error, ModelError::Empty { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_filter_cut_off() {
    let scene = Scene::new();
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        let finish = if provider == Provider::Anthropic { "refusal" } else { "content_filter" };
        scene.fake.script(&json!({"text": "<summary>The user said never to", "finish": finish}));
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(error.is_bad_answer(), "{provider:?}: {error:?}");
        assert!(words(&scene, &error).contains("content_filter"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_longer_than_asked() {
    let scene = Scene::new();
    for provider in Provider::ALL {
        scene.says(&format!("<summary>{}</summary>", "on and on ".repeat(10_000)));
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { limit: 8096, unit: "bytes" }), "{error:?}");
        assert!(words(&scene, &error).contains("longer than asked"), "{error}");
        // One that the provider cut off has lost its end.
        scene.fake.script(&json!({"text": "<summary>The port is", "finish": "length"}));
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { unit: "tokens", .. }), "{provider:?}: {error:?}");
        // What a model thinks aloud is not its answer, whether or not it says where that begins.
        for begin in ["<think>", "", "<analysis>"] {
            let end = if begin == "<analysis>" { "</analysis>" } else { "</think>" };
            scene.says(&format!("{begin}{}{end}{SAID}", "hm ".repeat(8000)));
            let reply = scene.ask(of(provider)).await.unwrap();
            assert!(reply.summary.starts_with("The port"), "{provider:?}: {}", reply.summary);
        }
        // But not for ever.
        scene.says(&"hm ".repeat(40_000));
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { unit: "bytes", .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_smaller_than_was_thought() {
    let mut scene = Scene::new();
    let lines = (1..200)
        .map(|seq| format!("{}\n", json!({"seq": seq, "role": "user", "content": "word ".repeat(300)})));
    scene.material = material_of(&lines.collect::<String>());
    for provider in Provider::ALL {
        scene.fake.reset();
        let too_long =
            json!({"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"});
        scene.fake.script(&too_long);
        scene.says(SAID);
        scene.ask(of(provider)).await.unwrap();
        let sizes: Vec<_> = scene.fake.requests().iter().map(|one| one["bytes"].as_u64().unwrap()).collect();
        assert!(sizes.len() == 2 && sizes[1] * 10 < sizes[0] * 7, "{provider:?}: {sizes:?}");
        // Once, and no more.
        scene.fake.script(&too_long);
        scene.fake.script(&json!({"status": 413}));
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { overflow: true, .. }), "{provider:?}: {error:?}");
        assert_eq!(scene.fake.requests().len(), 4);
        assert!(words(&scene, &error).contains("413"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_take_our_parameters() {
    let scene = Scene::new();
    scene.fake.script(&json!({"status": 400, "message": "max_tokens is too large: 12524. This model supports at most 4096 completion tokens"}));
    scene.says(SAID);
    scene.ask(Asked { budget: 9200, ..PLAIN }).await.unwrap();
    let body = scene.body();
    assert_eq!(body["max_completion_tokens"], 4096);
    assert!(texts(Provider::OpenAi, &body).0.contains("at most 3277 tokens"), "no more than it can answer");
    scene
        .fake
        .script(&json!({"status": 400, "message": "Unsupported value: 'temperature' does not support 0.3"}));
    scene.says(r#"{"gaps":[{"summary":"x"}]}"#);
    scene.ask(Asked { purpose: Purpose::Gaps, ..PLAIN }).await.unwrap();
    assert!(scene.body().get("temperature").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_refused_again_is_not_asked_again() {
    let scene = Scene::with(|config| config.retries = 2);
    for provider in Provider::ALL {
        scene.fake.reset();
        let message = format!("Incorrect API key provided: {KEY}");
        scene.fake.script(&json!({"status": 401, "message": message}));
        let error = scene.ask(of(provider)).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { overflow: false, .. }), "{error:?}");
        assert!(words(&scene, &error).contains("[key]"), "{error}");
        assert_eq!(scene.fake.requests().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_configured_is_named() {
    let scene = Scene::with(|config| config.providers[0].api_key_file = Some(PathBuf::from("/nowhere/key")));
    let error = scene.ask(PLAIN).await.unwrap_err();
    assert!(matches!(error, ModelError::NotConfigured { .. }), "{error:?}");
    assert!(words(&scene, &error).contains("llm.providers.openai"), "{error}");
    let question = Question { model: "", ..scene.question(of(Provider::Ollama)) };
    let error = ask(&scene.gateway, &scene.store, scene.id, &question, &|_| {}).await.unwrap_err();
    assert!(matches!(error, ModelError::NotConfigured { .. }), "{error:?}");
    assert!(scene.fake.requests().is_empty());
}

/// A server that answers every request with the same bytes.
fn answers(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut chunk) = (Vec::new(), [0; 4096]);
            // The whole request, so that the connection is not reset.
            let whole = |head: &[u8]| {
                let text = String::from_utf8_lossy(head).to_lowercase();
                let Some(end) = text.find("\r\n\r\n") else { return false };
                let length =
                    text.split_once("content-length: ").and_then(|(_, rest)| rest.split_once("\r\n"));
                length.is_none_or(|(length, _)| head.len() >= end + 4 + length.parse::<usize>().unwrap())
            };
            while !whole(&head) {
                let read = stream.read(&mut chunk).unwrap_or(0);
                if read == 0 {
                    break;
                }
                head.extend_from_slice(&chunk[..read]);
            }
            let _ = stream.write_all(bytes);
        }
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_stream() {
    let page: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><summary>Welcome</summary></html>\n";
    let nothing: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let noise: &[u8] = b"\x00\xff\x17 not HTTP at all";
    for bytes in [page, nothing, noise] {
        let url = answers(bytes);
        let scene = Scene::with(|config| {
            for provider in &mut config.providers {
                provider.base_url.clone_from(&url);
            }
        });
        for provider in Provider::ALL {
            let error = scene.ask(of(provider)).await.unwrap_err();
            assert!(matches!(error, ModelError::Failed { .. }), "{provider:?}: {error:?}");
            assert!(!words(&scene, &error).is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_does_not_wait_leaves_nothing_behind() {
    let scene = Scene::new();
    scene.fake.script(&json!({"fault": "hang_mid_stream", "text": SAID}));
    let mut asking = Box::pin(scene.ask(PLAIN));
    tokio::select! {
        ended = &mut asking => panic!("{ended:?}"),
        () = async {
            while scene.fake.requests().first().is_none_or(|one| one["verdict"] != "ok") {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    let files = scene.request_files();
    assert_eq!(files, ["summary_request.json"]);
    let mode = std::fs::metadata(scene.folder().join(&files[0])).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(asking);
    assert_eq!(scene.request_files(), [""; 0]);
    scene.fake.wait("the end of the connection", |all| all[0]["answer"] == "gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_leaves_is_gone_when_the_task_is_opened() {
    let scene = Scene::new();
    for name in ["summary_request.json", "summary_request.json.2"] {
        std::fs::write(scene.folder().join(name), "{}").unwrap();
    }
    let Scene { store, place, id, .. } = scene;
    drop(store);
    let (store, _) = Store::open(&place.path().join("data"), StoreOptions::default()).unwrap();
    store.view_snapshot(id).unwrap();
    let names = std::fs::read_dir(place.path().join("data/running").join(id.uuid().to_string())).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("request")), "{names:?}");
}
