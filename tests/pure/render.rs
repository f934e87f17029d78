//! Rendered requests are valid: hostile histories for every provider, checked as the provider checks them.
//!
//! Histories go the way of messages through the store: read as AppendMessage reads them, folded, and rendered from the
//! view. A failure names the seed, and the shortest history that is still refused.

mod cases;
mod prefix;
mod view;

use contextstore_policy::render::Provider;
use contextstore_providers::histories::{History, Taste, tools};
use contextstore_providers::{Rules, check_bytes};

use view::{View, options};

/// The parts that the histories are checked in, beside each other.
const PARTS: u64 = 8;

/// Returns how many histories are rendered for every provider.
fn histories() -> u64 {
    test_support::sized(1_000, 50_000)
}

/// The provider by the validators' name.
pub(crate) fn theirs(provider: Provider) -> contextstore_providers::Provider {
    use contextstore_providers::Provider as P;
    match provider {
        Provider::OpenAi => P::OpenAi,
        Provider::OpenAiResponses => P::OpenAiResponses,
        Provider::Anthropic => P::Anthropic,
        Provider::Ollama => P::Ollama,
        Provider::LmStudio => P::LmStudio,
    }
}

/// Renders a view of so many messages and has it checked; with tools or without.
fn refusal(provider: Provider, view: &View, messages: usize, with_tools: bool) -> Option<String> {
    let tools = if with_tools { tools().to_string() } else { String::new() };
    let thinks = provider == Provider::Anthropic && messages.is_multiple_of(3);
    let params = r#"{"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1024}}"#;
    let body = view.render(options(provider, if thinks { params } else { "" }, &tools));
    let rules = Rules { max_bytes: usize::MAX, ..Rules::of(theirs(provider)) };
    check_bytes(theirs(provider), &body, &rules).err().map(|refusal| refusal.to_string())
}

/// Has the histories of some seeds rendered for every provider.
fn check(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        // Large images are few, as they take long.
        let taste = Taste { large_images: seed % 50 == 0, lone_surrogates: true };
        let history = History::with(seed, taste);
        let with_tools = seed % 4 != 0;
        let view = View::of(&history.messages);
        for provider in Provider::ALL {
            let Some(words) = refusal(provider, &view, history.messages.len(), with_tools) else { continue };
            let again =
                |messages: &[String]| refusal(provider, &View::of(messages), messages.len(), with_tools);
            let least = history.shrink(|messages| again(messages).is_some());
            let last = again(&least.messages).unwrap_or_default();
            panic!("{} refused it: {words}\nat least: {last}\n{}", provider.as_str(), least.describe());
        }
    }
}

/// Some of the histories, each part beside the others.
macro_rules! never_refused {
    ($($name:ident $part:expr;)*) => {$(
        #[test]
        fn $name() {
            check($part * histories() / PARTS..($part + 1) * histories() / PARTS);
        }
    )*};
}

never_refused! {
    no_provider_refuses_a_history_0 0;
    no_provider_refuses_a_history_1 1;
    no_provider_refuses_a_history_2 2;
    no_provider_refuses_a_history_3 3;
    no_provider_refuses_a_history_4 4;
    no_provider_refuses_a_history_5 5;
    no_provider_refuses_a_history_6 6;
    no_provider_refuses_a_history_7 7;
}

/// The view alone is one too, but for calls that are open at its end, for more calls in one message than OpenAI takes, and for
/// what is in images and files.
#[test]
fn the_view_is_a_conversation_by_itself() {
    for seed in 0..histories().min(1_000) {
        let taste = Taste { large_images: false, lone_surrogates: true };
        let mut history = History::with(seed, taste);
        // Nobody answers what is open at the end.
        history.messages.push(r#"{"role":"user","content":"end"}"#.to_owned());
        let view = View::of(&history.messages);
        let lines: Vec<String> = view.lines().map(without_media).collect();
        if lines.iter().any(|line| calls_of(line) > 128) {
            continue;
        }
        let body = format!(r#"{{"model":"m","messages":[{}]}}"#, lines.join(","));
        let theirs = theirs(Provider::OpenAi);
        // Arguments stand as the model wrote them; only servers that read them would mind.
        let rules = Rules { strict: false, ..Rules::of(theirs) };
        if let Err(refusal) = check_bytes(theirs, body.as_bytes(), &rules) {
            panic!("{refusal}\n{}\n{}", lines.join("\n"), history.describe());
        }
    }
}

/// How many calls a line has.
fn calls_of(line: &str) -> usize {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["tool_calls"].as_array().map_or(0, Vec::len)
}

/// A line with images and files that are fine.
fn without_media(line: &str) -> String {
    let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
    for part in value["content"].as_array_mut().into_iter().flatten() {
        if part["type"] == "image_url" {
            part["image_url"]["url"] = "https://example.org/a.png".into();
        } else if part["type"] == "input_audio" {
            part["input_audio"]["data"] = "UklGRiQAAABXQVZF".into();
        } else if part["type"] == "file" && part["file"].get("file_data").is_some() {
            part["file"]["file_data"] = "data:application/pdf;base64,JVBERi0xLjQK".into();
            part["file"]["filename"] = "a.pdf".into();
        }
    }
    value.to_string()
}
