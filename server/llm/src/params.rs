//! Request parameters: adds those that streaming and the configuration require to the caller's.

use crate::ProviderSettings;
use crate::model::json::{field, fields};
use crate::model::{InvalidField, Json, JsonKind, Provider};

/// Parameters that callers cannot set, with the reason.
const OURS: [(&str, &str); 4] = [
    ("stream", "answers are always streamed"),
    ("stream_options", "answers are always streamed"),
    ("n", "one answer is asked for"),
    ("background", "the answer is waited for"),
];

/// Returns the parameters to send, as a JSON object. The caller's parameters keep their order, which has a meaning in
/// a schema.
pub(super) fn complete(
    provider: Provider,
    config: &ProviderSettings,
    model: &str,
    params_json: &str,
    window: u64,
) -> Result<String, InvalidField> {
    let wrong = |problem: String| InvalidField::new("params_json", problem);
    let given = if params_json.is_empty() { "{}" } else { params_json };
    let given = Json::parse(given).map_err(|error| wrong(format!("is not valid: {error}")))?;
    if given.kind() != JsonKind::Object {
        return Err(wrong("is not a JSON object".to_owned()));
    }
    if let Some((name, why)) = OURS.iter().find(|(name, _)| field(given.as_str(), name).is_some()) {
        return Err(wrong(format!("has {name}, which cannot be chosen: {why}")));
    }
    let has = |name: &str| field(given.as_str(), name).is_some();
    let most = config.max_output_tokens;
    let mut added = vec![("stream", "true".to_owned())];
    let mut add = |name: &'static str, value: Option<String>| {
        added.extend(value.filter(|_| !has(name)).map(|value| (name, value)));
    };
    let mut replaced = None;
    match provider {
        Provider::OpenAi | Provider::LmStudio => {
            add("stream_options", Some(r#"{"include_usage":true}"#.to_owned()));
            // LM Studio knows only the older name, OpenAI's newer models only the newer one.
            let name = if provider == Provider::OpenAi { "max_completion_tokens" } else { "max_tokens" };
            let said = has("max_completion_tokens") || has("max_tokens");
            add(name, most.filter(|_| !said).map(|most| most.to_string()));
        }
        Provider::OpenAiResponses => {
            add("max_output_tokens", most.map(|most| most.to_string()));
            // The context is stored here, not at the provider. The reasoning comes along, so that it can be sent
            // back.
            add("store", Some("false".to_owned()));
            // Models without reasoning refuse this parameter.
            let thinks = has("reasoning") || thinks(model);
            add("include", thinks.then(|| r#"["reasoning.encrypted_content"]"#.to_owned()));
        }
        Provider::Anthropic => {
            // The thinking budget counts as output, so it is added; otherwise the provider refuses the request.
            let thinking = field(given.as_str(), "thinking");
            let thinking = thinking.filter(|thinking| JsonKind::of(thinking) == JsonKind::Object);
            let budget = thinking.and_then(|thinking| field(thinking, "budget_tokens")?.parse::<u64>().ok());
            add("max_tokens", most.map(|most| most.saturating_add(budget.unwrap_or(0)).to_string()));
        }
        Provider::Ollama => {
            let options = field(given.as_str(), "options").unwrap_or("{}");
            if JsonKind::of(options) != JsonKind::Object {
                return Err(wrong("has options that are no object".to_owned()));
            }
            // Without `num_ctx`, Ollama silently drops the beginning of a context that is longer than its default.
            let more = [("num_predict", most), ("num_ctx", Some(window))];
            let more = more.into_iter().filter_map(|(name, value)| Some((name, value?.to_string())));
            let more: Vec<_> = more.filter(|(name, _)| field(options, name).is_none()).collect();
            if !more.is_empty() {
                replaced = Some(joined(options, &more, &[]));
                add("options", replaced.clone());
            }
        }
    }
    let replaced: Vec<_> = replaced.iter().map(|options| ("options", options.as_str())).collect();
    Ok(joined(given.as_str(), &added, &replaced))
}

/// Returns the output tokens that the parameters ask for, under any provider's name, or 0 if there are none.
pub fn answer_tokens(params_json: &str) -> u64 {
    let options = field(params_json, "options").unwrap_or("{}");
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let said = names.into_iter().find_map(|name| field(params_json, name)?.parse().ok());
    said.or_else(|| field(options, "num_predict")?.parse().ok()).unwrap_or(0)
}

/// Returns the parameters with this many output tokens, under the name in use or else the provider's name.
pub fn with_answer(provider: Provider, params_json: &str, most: u64) -> String {
    let most = most.to_string();
    if provider == Provider::Ollama {
        let options = field(params_json, "options").unwrap_or("{}");
        let inner = with_field(options, "num_predict", &most);
        return with_field(params_json, "options", &inner);
    }
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let name = names.into_iter().find(|name| field(params_json, name).is_some());
    let usual = match provider {
        Provider::OpenAi => "max_completion_tokens",
        Provider::OpenAiResponses => "max_output_tokens",
        Provider::Anthropic | Provider::LmStudio | Provider::Ollama => "max_tokens",
    };
    with_field(params_json, name.unwrap_or(usual), &most)
}

/// Returns an object with a field set.
fn with_field(object: &str, name: &str, value: &str) -> String {
    match field(object, name) {
        Some(_) => joined(object, &[], &[(name, value)]),
        None => joined(object, &[(name, value.to_owned())], &[]),
    }
}

/// Returns true if an OpenAI model reasons before it answers, judging by its name.
pub fn thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let newer = name.strip_prefix("gpt-").and_then(|rest| rest.chars().next()?.to_digit(10));
    numbered("o") || (newer.is_some_and(|major| major >= 5) && !name.contains("chat"))
}

/// Returns an object with some values replaced and some fields added.
fn joined(object: &str, added: &[(&str, String)], replaced: &[(&str, &str)]) -> String {
    let mut out = String::from("{");
    let mut push = |key: &str, value: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(key);
        out.push(':');
        out.push_str(value);
    };
    for (key, value) in fields(object) {
        let other = replaced.iter().find(|(name, _)| Json::text(name).as_str() == key);
        push(key, other.map_or(value, |(_, other)| other));
    }
    for (name, value) in added {
        push(Json::text(name).as_str(), value);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn completed(provider: Provider, params: &str) -> Result<Value, InvalidField> {
        let config = ProviderSettings {
            base_url: String::new(),
            api_key_env: None,
            api_key_file: None,
            model: None,
            max_output_tokens: Some(7),
            context_length: Some(9),
            timeout: Duration::ZERO,
        };
        complete(provider, &config, "gpt-5-mini", params, 9)
            .map(|params| serde_json::from_str(&params).unwrap())
    }

    #[test]
    fn each_provider_gets_its_own_words() {
        for (provider, params, expected) in [
            (
                Provider::OpenAi,
                r#"{"temperature":0.5}"#,
                json!({"temperature":0.5,"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7}),
            ),
            (
                Provider::OpenAi,
                r#"{"max_tokens":3}"#,
                json!({"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}),
            ),
            (
                Provider::LmStudio,
                "",
                json!({"stream":true,"stream_options":{"include_usage":true},"max_tokens":7}),
            ),
            (
                Provider::OpenAiResponses,
                r#"{"max_output_tokens":3}"#,
                json!({"stream":true,"max_output_tokens":3,"store":false,"include":["reasoning.encrypted_content"]}),
            ),
            (Provider::Anthropic, "{}", json!({"stream":true,"max_tokens":7})),
            (
                Provider::Anthropic,
                r#"{"thinking":{"type":"enabled","budget_tokens":2000}}"#,
                json!({"thinking":{"type":"enabled","budget_tokens":2000},"stream":true,"max_tokens":2007}),
            ),
            (
                Provider::Anthropic,
                r#"{"max_tokens":3,"thinking":"on"}"#,
                json!({"max_tokens":3,"thinking":"on","stream":true}),
            ),
            (
                Provider::Ollama,
                r#"{"options":{"num_ctx":3}}"#,
                json!({"stream":true,"options":{"num_ctx":3,"num_predict":7}}),
            ),
        ] {
            assert_eq!(completed(provider, params).unwrap(), expected, "{provider:?} {params}");
        }
    }

    #[test]
    fn thoughts_are_asked_for_where_there_are_any() {
        for model in ["o1", "o3-mini", "o4-mini-2025-04-16", "gpt-5", "gpt-5.1-codex", "openai/gpt-5"] {
            assert!(thinks(model), "{model}");
        }
        for model in ["gpt-4o", "gpt-4.1", "gpt-5-chat-latest", "omni", "llama3", ""] {
            assert!(!thinks(model), "{model}");
        }
    }

    /// A model fills in the fields of a schema in their order.
    #[test]
    fn what_the_caller_gives_keeps_its_order_and_its_words() {
        let config = ProviderSettings {
            base_url: String::new(),
            api_key_env: None,
            api_key_file: None,
            model: None,
            max_output_tokens: None,
            context_length: None,
            timeout: Duration::ZERO,
        };
        let given = r#"{ "z": {"b":1e2, "a":1.50}, "a": [1] }"#;
        let completed = complete(Provider::Anthropic, &config, "m", given, 9).unwrap();
        assert_eq!(completed, r#"{"z":{"b":1e2,"a":1.50},"a":[1],"stream":true}"#);
    }

    #[test]
    fn what_cannot_be_chosen_is_refused() {
        for bad in ["[]", "{", r#"{"stream":false}"#, r#"{"n":2}"#, r#"{"a":1,"a":2}"#, r#"{"options":3}"#] {
            assert_eq!(completed(Provider::Ollama, bad).unwrap_err().field, "params_json", "{bad}");
        }
    }
}
