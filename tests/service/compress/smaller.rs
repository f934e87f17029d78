//! What stays is made smaller where it is too large by itself: what may be trimmed, and what is only cut.

use contextstore_proto::v1 as pb;
use serde_json::{Value, json};

use test_support::scene::{Scene, assistant, by_hand, calls, content, result, user};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::Appending;

/// An output of so many lines, each with its number.
fn output(lines: u64) -> String {
    (1..=lines).map(|line| format!("line {line} of the output\n")).collect()
}

/// A result that the model has not seen yet is cut, whoever summarises: it would ask for it again, for ever. What it has
/// answered is trimmed first.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_model_has_not_answered_is_cut_and_not_trimmed() {
    for strategy in ["summarize", "compact", "window"] {
        let mut scene = Scene::new(20_000).await;
        scene.talk(14).await;
        scene.append_all(&[calls(&["old"]), result("old", &output(600)), assistant("I see.")]).await;
        scene.append_all(&[user("And now?"), calls(&["a", "b"]), result("a", "short")]).await;
        scene.append(&result("b", &output(4000))).await;
        let done = scene.compressed(scene.ask(strategy)).await;
        let after = scene.lines().await;
        assert!(done.tokens_after < 14_000, "{strategy}: {done:?}");
        let newest = content(after.last().unwrap());
        assert!(newest.starts_with("line 1 of the output\nline 2 of"), "{strategy}: {newest:.200}");
        assert!(newest.ends_with("line 4000 of the output\n"), "{strategy}");
        assert!(newest.contains("characters left out; seq=21 …]"), "{strategy}");
        // As much as there is room for.
        assert!(newest.len() > 4 * 8000, "{strategy}: {} bytes", newest.len());
        assert_eq!(content(&after[after.len() - 2]), "short", "{strategy}");
        let whole = |line: &String| content(line).contains("line 300 of the output") && line.len() > 10_000;
        assert!(!after[..after.len() - 1].iter().any(whole), "{strategy}");
    }
}

/// The same by itself, and where the output is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_makes_it_due_is_still_there_to_be_answered() {
    let config = pb::TaskConfig { compression: None, ..by_hand(20_000) };
    let server = TestServer::start_configured(&[("compression.auto", "true")]).await;
    let mut scene = Scene::with(server, config).await;
    scene.talk(24).await;
    scene.append(&calls(&["a"])).await;
    let request = scene.work.json(result("a", &output(3000)).to_string()).output_ref("out-9");
    scene.api.append_message(request).await.unwrap();
    eventually(DEADLINE, async || {
        let mut api = scene.api.clone();
        (test_support::wire::task(&mut api, &scene.work).await.view_generation > 0).then_some(())
    })
    .await;
    let last = content(scene.lines().await.last().unwrap());
    assert!(last.starts_with("line 1 of") && last.contains("left out; ref=out-9 …]"), "{last:.200}");
}

/// Outputs of protected tools are not trimmed by a compression either: others go first, and then they are cut.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_of_protected_tools_are_cut_and_not_trimmed() {
    let outputs = pb::OutputsConfig {
        enabled: Some(false),
        protected_tools: vec!["guide".to_owned()],
        ..Default::default()
    };
    for strategy in ["summarize", "window", "prune"] {
        let config = pb::TaskConfig { outputs: Some(outputs.clone()), ..by_hand(100_000) };
        let mut scene = Scene::with(TestServer::start().await, config).await;
        scene.talk(12).await;
        let called = |id: &str, name: &str| {
            let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        };
        scene.append_all(&[called("a", "guide"), result("a", &output(50))]).await;
        scene.append_all(&[called("b", "read"), result("b", &output(100)), assistant("I see.")]).await;
        let before = scene.lines().await;
        for (target, is_whole) in [(700, true), (300, false)] {
            let window = Some(pb::WindowConfig { messages: Some(5), ..Default::default() });
            let request = pb::CompressRequest { target_tokens: Some(target), window, ..scene.ask(strategy) };
            scene.compressed(request).await;
            let after = scene.lines().await;
            let texts: Vec<String> = after.iter().map(|line| content(line)).collect();
            assert!(!texts.contains(&"[tool output trimmed; seq=14]".to_owned()), "{strategy}: {texts:#?}");
            // The others may let all of it go.
            if strategy == "summarize" {
                assert!(
                    texts.contains(&"[tool output trimmed; seq=16]".to_owned()),
                    "{strategy}: {texts:#?}"
                );
                assert_eq!(after.contains(&before[13]), is_whole, "{strategy}: {texts:#?}");
                let is_cut = texts.iter().any(|text| text.contains("characters left out; seq=14 …]"));
                assert_eq!(is_cut, !is_whole, "{strategy}: {texts:#?}");
            }
        }
    }
}

/// Texts are cut in parts too; what is beside them stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_of_parts_is_cut_where_it_is_long() {
    let mut scene = Scene::new(4000).await;
    scene.talk(12).await;
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    let question = json!({"type": "text", "text": "What is wrong with this?"});
    let log = json!({"type": "text", "text": output(2000)});
    scene.append(&json!({"role": "user", "content": [question, image, log]})).await;
    let done = scene.compressed(scene.ask("summarize")).await;
    assert!(done.emergency && done.tokens_after < 2800, "{done:?}");
    let lines = scene.lines().await;
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(last["content"][0], question);
    assert_eq!(last["content"][1], image);
    let cut = last["content"][2]["text"].as_str().unwrap();
    assert!(cut.starts_with("line 1 of") && cut.contains("characters left out; seq=13 …]"), "{cut:.200}");
    assert!(!scene.pressure().await.incompressible);
}

/// What cannot be made smaller and is too large is told as such.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_smaller_is_told_to_be_too_large() {
    let mut scene = Scene::new(2000).await;
    scene.talk(12).await;
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    scene.append(&json!({"role": "user", "content": vec![image; 6]})).await;
    let (done, _) = scene.compress(scene.ask("summarize")).await.unwrap();
    let pressure = done.pressure.unwrap();
    assert!(pressure.ratio > 1.0 && pressure.incompressible, "{pressure:?}");
}
