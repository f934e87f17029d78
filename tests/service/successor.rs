//! A task is deleted, and another started under the same id, while something goes on for the first: nothing of it ends up in
//! the second.

use contextstore_client::{
    Chat, Client, Compress, Error, NewMessage, PutOutput, ReadCurrent, StartTask, Task, v1,
};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use v1::ErrorReason;

use test_support::fake_llm::FakeLlm;
use test_support::scene::words;
use test_support::server::TestServer;

const UUID: &str = "0190f3d2-7c1e-7b5a-9c00-000000000001";

struct Scene {
    fake: FakeLlm,
    server: TestServer,
    client: Client,
    _keys: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        let fake = FakeLlm::start();
        let keys = tempfile::tempdir().unwrap();
        let key = keys.path().join("key");
        std::fs::write(&key, "test").unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (url, key) = (format!("{}/v1", fake.url()), key.display().to_string());
        let server = TestServer::start_configured(&[
            ("llm.retries", "0"),
            ("llm.provider", "openai"),
            ("llm.providers.openai.base_url", &url),
            ("llm.providers.openai.api_key_file", &key),
            ("llm.providers.openai.model", "fake"),
        ])
        .await;
        let client = server.client().await;
        Self { fake, server, client, _keys: keys }
    }

    /// Starts the task, with something said in it by somebody.
    async fn start(&self, who: &str, messages: u64) -> Task {
        let config = v1::TaskConfig { context_length: Some(100_000), ..Default::default() };
        let start = StartTask { task_uuid: Some(UUID.to_owned()), config, ..Default::default() };
        let task = self.client.start_task(start).await.unwrap();
        for number in 1..=messages {
            let message = match number % 2 {
                1 => NewMessage::user(format!("{who}: {}", words(number))),
                _ => NewMessage::assistant(format!("{who} was told: {}", words(number))),
            };
            task.append(message).await.unwrap();
        }
        task
    }

    /// The second task has what was said in it, and nothing else.
    async fn is_untouched(&self, second: &Task, messages: u64) {
        let found = second.get().await.unwrap().task.unwrap();
        assert_eq!((found.last_seq, found.view_generation, found.health().name()), (messages, 0, "ok"));
        let view: Vec<_> = second.current(ReadCurrent::default()).await.unwrap().try_collect().await.unwrap();
        let view = String::from_utf8(view.concat()).unwrap();
        assert_eq!(view.lines().count() as u64, messages);
        assert!(!view.contains("first"), "{view}");
        second.append(NewMessage::user("second: on")).await.unwrap();
        assert!(!self.server.log().contains("no more writes are taken"), "{}", self.server.log());
    }
}

fn is_gone<T: std::fmt::Debug>(ended: Result<T, Error>) {
    let reason = ended.unwrap_err().reason();
    let gone = [Some(ErrorReason::TaskNotFound), Some(ErrorReason::CompactionNotFound)];
    assert!(gone.contains(&reason), "{reason:?}");
}

/// One that is shorter, so that what was worked out for the first does not even fit, and one that is as long.
const LENGTHS: [u64; 2] = [3, 40];

#[tokio::test(flavor = "multi_thread")]
async fn a_compression_that_waits_for_a_model() {
    for length in LENGTHS {
        let scene = Scene::new().await;
        let first = scene.start("first", 40).await;
        scene.fake.script(&json!({"text": "<summary>The first one.</summary>", "fault": "wait_mid_stream"}));
        let working = first.clone();
        let compressing = tokio::spawn(async move { working.compress(Compress::default()).await });
        scene.fake.wait("a request for a summary", |requests| !requests.is_empty());
        first.delete().await.unwrap();
        let second = scene.start("second", length).await;
        scene.fake.go_on();
        is_gone(compressing.await.unwrap());
        scene.is_untouched(&second, length).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_by_an_agent() {
    for length in LENGTHS {
        let scene = Scene::new().await;
        let first = scene.start("first", 40).await;
        let compaction = first.begin_compaction(Compress::default()).await.unwrap();
        let token = compaction.begun().token.clone();
        first.delete().await.unwrap();
        let second = scene.start("second", length).await;
        for lease_generation in [0, first.lease_generation(), second.lease_generation()] {
            let request = v1::CommitCompactionRequest {
                task_uuid: UUID.to_owned(),
                token: token.clone(),
                summary: "The first one did a lot of work on many parts of it.".to_owned(),
                lease_generation,
                ..Default::default()
            };
            let status = scene.client.raw().commit_compaction(request).await.unwrap_err();
            assert!(!status.message().is_empty());
        }
        scene.is_untouched(&second, length).await;
        // The second one is not kept from its own.
        if length > 10 {
            second.begin_compaction(Compress::default()).await.unwrap().abort().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_waits_for_its_answer() {
    for length in LENGTHS {
        let scene = Scene::new().await;
        let first = scene.start("first", 4).await;
        scene.fake.script(&json!({"text": "to the first alone", "fault": "wait_mid_stream"}));
        let ask = Chat {
            messages: vec![NewMessage::user("first: what is it?")],
            provider: v1::Provider::Openai,
            ..Default::default()
        };
        let mut chat = Box::pin(first.chat(ask));
        chat.next().await.unwrap().unwrap();
        first.delete().await.unwrap();
        let second = scene.start("second", length).await;
        scene.fake.go_on();
        is_gone(chat.try_collect::<Vec<_>>().await);
        scene.is_untouched(&second, length).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_comes_slowly() {
    let scene = Scene::new().await;
    let first = scene.start("first", 2).await;
    let (bytes, pieces) = mpsc::channel(1);
    let put = PutOutput {
        tool_name: "sh".to_owned(),
        tool_call_id: "c".to_owned(),
        append: true,
        ..Default::default()
    };
    let working = first.clone();
    let putting =
        tokio::spawn(async move { working.outputs().put_stream(put, ReceiverStream::new(pieces)).await });
    // Each of them takes the place of the one before, so some have arrived.
    for _ in 0..20 {
        bytes.send(bytes::Bytes::from(vec![b'f'; 64 << 10])).await.unwrap();
    }
    first.delete().await.unwrap();
    let second = scene.start("second", 2).await;
    let _ = bytes.send(bytes::Bytes::from_static(b"first")).await;
    drop(bytes);
    is_gone(putting.await.unwrap());
    scene.is_untouched(&second, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_the_first() {
    let scene = Scene::new().await;
    let mut generations = Vec::new();
    for _ in 0..3 {
        let task = scene.start("second", 1).await;
        for lease in &generations {
            let old = scene.client.task_under(UUID, *lease);
            let refused = old.append(NewMessage::user("first: again")).await.unwrap_err();
            assert_eq!(refused.reason(), Some(ErrorReason::StaleLease));
        }
        scene.is_untouched(&task, 1).await;
        generations.push(task.lease_generation());
        task.delete().await.unwrap();
    }
    generations.dedup();
    assert!(generations.len() == 3 && generations.is_sorted(), "{generations:?}");
}
