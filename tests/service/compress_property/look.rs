//! What must hold of any view: its groups are whole, and every provider takes it.

use contextstore_proto::v1 as pb;
use contextstore_providers::histories::tools;
use contextstore_providers::{Provider, Rules, check_bytes};
use serde_json::Value;

use test_support::scene::Scene;
use test_support::wire::all;

const PROVIDERS: [(&str, Provider); 5] = [
    ("openai", Provider::OpenAi),
    ("openai_responses", Provider::OpenAiResponses),
    ("anthropic", Provider::Anthropic),
    ("ollama", Provider::Ollama),
    ("lmstudio", Provider::LmStudio),
];

/// What stands for the result of a call that never came.
pub(crate) const MISSING: &str = "[no result: the call was interrupted]";

/// The ids that a line calls.
fn called(line: &Value) -> Vec<&Value> {
    line["tool_calls"]
        .as_array()
        .map(|calls| calls.iter().map(|call| &call["id"]).collect())
        .unwrap_or_default()
}

/// Every result follows its call, and every call but the last ones has its result. Answers the results that are
/// missing, by their ids.
pub(crate) fn groups(lines: &[String]) -> Vec<String> {
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut open, mut missing): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        if line["role"] == "tool" {
            let place = open.iter().position(|id| *id == line["tool_call_id"]);
            let place = place.unwrap_or_else(|| panic!("line {at} answers no call: {line}"));
            open.remove(place);
            if line["content"] == MISSING {
                missing.push(line["tool_call_id"].to_string());
            }
            continue;
        }
        assert!(open.is_empty(), "line {at} comes before the results of {open:?}: {line}");
        open = called(line).into_iter().cloned().collect();
    }
    missing
}

/// What is rendered of the view is what each provider takes.
pub(crate) async fn rendered(scene: &mut Scene<()>, seed: u64) {
    for (name, provider) in PROVIDERS {
        let tools_json = if seed.is_multiple_of(4) { String::new() } else { tools().to_string() };
        let request = pb::RenderContextRequest { tools_json, ..scene.work.request(name) };
        let chunks = all(scene.api.render_context(request).await).await.unwrap();
        let body: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
        let rules = Rules { max_bytes: usize::MAX, ..Rules::of(provider) };
        if let Err(refusal) = check_bytes(provider, &body, &rules) {
            panic!("{name} refuses it: {refusal}\n{}", String::from_utf8_lossy(&body));
        }
    }
}
