//! The last message of the user stays word for word, whatever the strategy; and what a call asks for is kept to, or it is
//! said why not.

use contextstore_proto::v1 as pb;
use serde_json::json;

use test_support::scene::{Scene, assistant, by_hand, calls, content, result, user, words};
use test_support::server::TestServer;
use test_support::wire::all;

const STRATEGIES: [&str; 4] = ["summarize", "compact", "prune", "window"];
const ASKED: &str = "Please migrate the search to OpenSearch:\n1. Keep the old index until Friday.\n2. Do not touch payments.";

fn by_itself(limit: u64) -> pb::TaskConfig {
    let compression = pb::CompressionConfig { auto: Some(true), ..Default::default() };
    pb::TaskConfig { compression: Some(compression), ..by_hand(limit) }
}

/// As many calls with results as there are numbers.
async fn work(scene: &mut Scene, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let id = format!("c{number}");
        scene
            .append_all(&[calls(&[&id]), result(&id, &words(number)), assistant(&words(number + 1000))])
            .await;
    }
}

async fn count(scene: &mut Scene, text: &str) -> usize {
    scene.lines().await.iter().filter(|line| content(line) == text).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_message_of_the_user_stays_word_for_word() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(8000).await;
        scene.talk(10).await;
        scene.append(&user(ASKED)).await;
        let overrides = pb::CompressionConfig {
            keep_recent_messages: Some(0),
            retain_last_turns: Some(0),
            ..Default::default()
        };
        // Again and again, also where as little as can be is to stay.
        for (from, target) in [(0, 3000), (30, 900), (60, 150)] {
            work(&mut scene, from..from + 30).await;
            let overrides = (target < 3000).then(|| overrides.clone());
            let window = Some(pb::WindowConfig { messages: Some(3), ..Default::default() });
            let request =
                pb::CompressRequest { target_tokens: Some(target), overrides, window, ..scene.ask(strategy) };
            scene.compressed(request).await;
            assert_eq!(count(&mut scene, ASKED).await, 1, "{strategy} {target}");
        }
        // The next one takes its place.
        scene.append(&user("Now implement the importer:\n- for CSV\n- for XML")).await;
        work(&mut scene, 100..130).await;
        scene.compressed(pb::CompressRequest { target_tokens: Some(400), ..scene.ask(strategy) }).await;
        let next = "Now implement the importer:\n- for CSV\n- for XML";
        assert_eq!(count(&mut scene, next).await, 1, "{strategy}");
    }
}

/// A message that alone is too large is shortened, and says how much is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_user_that_is_too_large_is_shortened() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(8000).await;
        scene.talk(10).await;
        let long: String = (0..5000).map(|line| format!("line {line} of the log\n")).collect();
        scene.append(&user(&format!("What is wrong here?\n{long}Tell me by noon."))).await;
        work(&mut scene, 0..20).await;
        let done = scene.compressed(scene.ask(strategy)).await;
        assert!(done.tokens_after < 8000, "{strategy}: {done:?}");
        let lines = scene.lines().await;
        let asked =
            lines.iter().map(|line| content(line)).find(|text| text.starts_with("What is wrong here?"));
        let asked = asked.unwrap_or_else(|| panic!("{strategy}: {lines:.200?}"));
        assert!(
            asked.ends_with("Tell me by noon.") && asked.contains("characters left out; seq="),
            "{asked:.99}"
        );
    }
}

/// The same where there is nothing else that could go: the request is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_by_itself_is_sent_shortened() {
    let mut scene = Scene::with(TestServer::start().await, by_itself(8000)).await;
    scene.append(&json!({"role": "system", "content": "Be brief."})).await;
    scene.append(&user(&"What is wrong with this line of the log? ".repeat(8000))).await;
    all(scene.api.render_context(scene.work.request("openai")).await).await.unwrap();
    let pressure = scene.pressure().await;
    assert!(pressure.tokens < 8000 && !pressure.incompressible, "{pressure:?}");
    let asked = content(&scene.lines().await[1]);
    assert!(
        asked.starts_with("What is wrong") && asked.contains("characters left out; seq=2"),
        "{asked:.99}"
    );
}

/// One that is pinned stays once.
#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_message_of_the_user_stays_once() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(20_000).await;
        scene.talk(10).await;
        let seq = scene.append(&user(ASKED)).await.seq;
        scene.pin(seq).await;
        work(&mut scene, 0..30).await;
        scene.compressed(pb::CompressRequest { target_tokens: Some(500), ..scene.ask(strategy) }).await;
        assert_eq!(count(&mut scene, ASKED).await, 1, "{strategy}");
    }
}

/// A target that the view is below already changes nothing; one that is missed is said, with what takes the room.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_kept_to_or_it_is_said_why_not() {
    for strategy in STRATEGIES {
        let mut scene = Scene::new(20_000).await;
        scene.append(&json!({"role": "system", "content": "Always be careful. ".repeat(100)})).await;
        scene.append(&user(ASKED)).await;
        work(&mut scene, 0..30).await;
        let (before, tokens) = (scene.lines().await, scene.pressure().await.tokens);
        let ask = |scene: &Scene, target| pb::CompressRequest {
            target_tokens: Some(target),
            ..scene.ask(strategy)
        };
        for target in [tokens, 10 * tokens] {
            let done = scene.compress(ask(&scene, target)).await.unwrap().0;
            assert_eq!((done.compressed, done.skip_reason().name()), (false, "within_target"), "{done:?}");
            assert_eq!(scene.lines().await, before);
        }
        let done = scene.compress(ask(&scene, 200)).await.unwrap().0;
        let over = format!("{} tokens too many: system prompt ", done.tokens_after - 200);
        assert!(done.compressed && done.target_missed.starts_with(&over), "{done:?}");
        assert!(done.target_missed.contains(", last user message "), "{done:?}");
    }
}

/// Notes of repeated prunes become one where they stand beside each other, and none of what is missing is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn neighbouring_notes_become_one() {
    for strategy in ["prune", "window"] {
        let mut scene = Scene::new(4000).await;
        scene.append(&json!({"role": "system", "content": "Be brief."})).await;
        scene.append(&user(ASKED)).await;
        for round in 0..12 {
            for number in 0..10 {
                let number = round * 10 + number;
                scene.append_all(&[assistant(&words(number)), user(&words(number + 1000))]).await;
            }
            let target_tokens = Some(600 + 50 * round);
            scene.compressed(pb::CompressRequest { target_tokens, ..scene.ask(strategy) }).await;
            let lines = scene.lines().await;
            let texts: Vec<String> = lines.iter().map(|line| content(line)).collect();
            let is_note = |text: &String| text.starts_with('[') && text.contains(" omitted");
            assert!(!texts.windows(2).any(|pair| pair.iter().all(is_note)), "{strategy}: {texts:#?}");
            let missing = |text: &String| text[1..].split(' ').next().unwrap().parse::<u64>().unwrap();
            let gone: u64 = texts.iter().filter(|text| is_note(text)).map(missing).sum();
            let there = texts.iter().filter(|text| !is_note(text)).count() as u64;
            assert_eq!(gone + there, 2 + (round + 1) * 20, "{strategy}: {texts:#?}");
        }
    }
}
