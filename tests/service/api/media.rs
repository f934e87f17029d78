//! Images and files in a view that is too large for a request become notes, the oldest first.

use std::fs;

use contextstore_proto::v1 as pb;
use serde_json::{Value, json};

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Api, Appending, Work, api, start_as, task, view};

const BUDGET: u64 = 1 << 20;
/// Base64 of an image.
const IMAGE: usize = 200 << 10;

async fn start(api: &mut Api, budget: u64) -> Work {
    let compression = pb::CompressionConfig { max_request_bytes: Some(budget), ..Default::default() };
    let config = pb::TaskConfig { compression: Some(compression), ..Default::default() };
    start_as(api, pb::StartTaskRequest { config: Some(config), ..Default::default() }).await
}

fn image(number: usize) -> Value {
    let url = format!("data:image/png;base64,{}", "iVBO".repeat(IMAGE / 4));
    let parts = [
        json!({"type": "text", "text": format!("image {number}")}),
        json!({"type": "image_url", "image_url": {"url": url}}),
    ];
    json!({"role": "user", "content": parts})
}

/// Whether a message of the view still has all it came with.
fn is_whole(message: &Value) -> bool {
    !message["content"].to_string().contains("left out")
}

async fn append(api: &mut Api, work: &Work, message: &Value) -> u64 {
    api.append_message(work.json(message.to_string())).await.unwrap().into_inner().seq
}

async fn current(api: &mut Api, work: &Work) -> Vec<Value> {
    let text = view(api, work.current()).await;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_images_become_notes_in_batches() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api, BUDGET).await;
    let pinned = work.json(image(0).to_string()).pinned();
    api.append_message(pinned).await.unwrap();
    append(&mut api, &work, &json!({"role": "assistant", "content": "seen"})).await;
    const IMAGES: usize = 30;
    for number in 1..=IMAGES {
        append(&mut api, &work, &image(number)).await;
        append(&mut api, &work, &json!({"role": "assistant", "content": "seen"})).await;
        let small_enough = async || {
            let bytes = task(&mut api.clone(), &work).await.statistics.unwrap().view_bytes;
            (bytes <= BUDGET + (IMAGE as u64) + 4096).then_some(())
        };
        eventually(DEADLINE, small_enough).await;
    }
    // The last rewrite may be under way.
    let settled = async || {
        let bytes = task(&mut api.clone(), &work).await.statistics.unwrap().view_bytes;
        (bytes <= BUDGET).then_some(bytes)
    };
    eventually(DEADLINE, settled).await;

    let now = current(&mut api, &work).await;
    assert_eq!(now.len(), 2 * IMAGES + 2);
    let whole: Vec<usize> = (0..=IMAGES).filter(|number| is_whole(&now[number * 2])).collect();
    // The pinned one, and the newest without a hole.
    let newest: Vec<usize> = (IMAGES + 2 - whole.len()..=IMAGES).collect();
    assert_eq!((whole[0], &whole[1..]), (0, &newest[..]));
    assert!(!newest.is_empty());
    assert_eq!(
        now[2]["content"],
        json!([
            {"type": "text", "text": "image 1"},
            {"type": "text", "text": "[image left out, the request was too large; seq=3 part=1]"},
        ])
    );
    // Each rewrite breaks a prompt cache: it has to be worth it.
    let generation = view_generation(&mut api, &work).await;
    assert!((1..=IMAGES as u64 / 2).contains(&generation), "{generation} rewrites for {IMAGES} images");
    // The log keeps everything, and the counters are right.
    let log = fs::read_to_string(server.running(&work.uuid).join("messages.jsonl")).unwrap();
    assert_eq!(log.matches("data:image/png").count(), IMAGES + 1);
}

async fn view_generation(api: &mut Api, work: &Work) -> u64 {
    let mut chunks = api.stream_current(work.current()).await.unwrap().into_inner();
    chunks.message().await.unwrap().unwrap().generation
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_has_not_answered_stays() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api, BUDGET).await;
    for number in 0..8 {
        append(&mut api, &work, &image(number)).await;
    }
    assert!(current(&mut api, &work).await.iter().all(is_whole));
    append(&mut api, &work, &json!({"role": "assistant", "content": "seen"})).await;
    append(&mut api, &work, &image(8)).await;
    let shed = async || {
        let now = current(&mut api.clone(), &work).await;
        (!is_whole(&now[0])).then_some(now)
    };
    let now = eventually(DEADLINE, shed).await;
    assert!(is_whole(now.last().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_budget_and_without_media_nothing_is_done() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let (free, text) = (start(&mut api, 0).await, start(&mut api, BUDGET).await);
    for number in 0..10 {
        append(&mut api, &free, &image(number)).await;
        append(&mut api, &free, &json!({"role": "assistant", "content": "seen"})).await;
        let long = json!({"role": "user", "content": [{"type": "text", "text": "x".repeat(IMAGE)}]});
        append(&mut api, &text, &long).await;
        append(&mut api, &text, &json!({"role": "assistant", "content": "seen"})).await;
    }
    // What is done in the background would be seen by a rewrite that is asked for: its ordinal says how many there were.
    for work in [&free, &text] {
        let rewound = api.rewind_task(work.rewind(20)).await.unwrap().into_inner();
        assert_eq!(rewound.generation, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn images_that_only_some_providers_take_count_too() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api, BUDGET).await;
    // In a tool's result, OpenAI takes none: it stands beside the view, for those that do.
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBO".repeat(IMAGE / 4)});
    for number in 0..8 {
        let id = format!("call-{number}");
        let call = json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
        append(&mut api, &work, &json!({"role": "assistant", "content": null, "tool_calls": [call]})).await;
        let image = [json!({"type": "image", "source": source})];
        append(&mut api, &work, &json!({"role": "tool", "tool_call_id": id, "content": image})).await;
    }
    append(&mut api, &work, &json!({"role": "assistant", "content": "seen"})).await;
    append(&mut api, &work, &json!({"role": "user", "content": [{"type": "text", "text": "Go on."}]})).await;
    let shed = async || (view_generation(&mut api.clone(), &work).await > 0).then_some(());
    eventually(DEADLINE, shed).await;
    let beside = fs::metadata(server.running(&work.uuid).join("current.extra.jsonl")).unwrap().len();
    assert!(beside <= BUDGET, "{beside} bytes beside the view");
    let first = &current(&mut api, &work).await[1]["content"];
    assert!(first.to_string().contains("image left out"), "{first}");
}

/// A view that fits can become a request that does not, as tools and parameters come on top: then its images go, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_budget_of_its_task_is_made_to_fit() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api, BUDGET).await;
    let url = format!("data:image/png;base64,iVBORw0KGgoAAAANSUhE{}", "AAAA".repeat(IMAGE / 4));
    for _ in 0..4 {
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]});
        append(&mut api, &work, &image).await;
        append(&mut api, &work, &json!({"role": "assistant", "content": "seen"})).await;
    }
    append(&mut api, &work, &json!({"role": "user", "content": "And now?"})).await;
    assert!(task(&mut api, &work).await.statistics.unwrap().view_bytes < BUDGET);
    let tool = |bytes: usize| {
        json!([{"type": "function", "function": {"name": "f", "description": "d".repeat(bytes)}}]).to_string()
    };
    let asked = |tools: String, max_bytes| pb::RenderContextRequest {
        tools_json: tools,
        max_bytes,
        ..work.request("openai")
    };
    // What cannot be made to fit changes nothing, and neither does a limit of the call's own.
    let refused = |status: tonic::Status| assert!(status.message().contains("bytes"), "{status:?}");
    refused(api.render_context(asked(tool(2 << 20), 0)).await.unwrap_err());
    refused(api.render_context(asked(tool(400 << 10), BUDGET)).await.unwrap_err());
    assert_eq!(view_generation(&mut api, &work).await, 0);
    let pieces = test_support::wire::all(api.render_context(asked(tool(400 << 10), 0)).await).await.unwrap();
    let body: Vec<u8> = pieces.iter().flat_map(|piece| piece.data.to_vec()).collect();
    assert!(body.len() as u64 <= BUDGET, "{} bytes", body.len());
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(body["messages"][0].to_string().contains("image left out"), "{}", body["messages"][0]);
    assert!(body["messages"][6].to_string().contains("image_url"), "the newest one stays");
    assert_eq!(view_generation(&mut api, &work).await, 1);
}
