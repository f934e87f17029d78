//! What the nearest says wins; what nobody says is as documented.

use super::*;
use crate::context::{CompressionSettings, Pressure};

fn config(json: &str) -> TaskConfig {
    serde_json::from_str(json).unwrap()
}

fn server(compression: CompressionSettings) -> ServerPolicy {
    ServerPolicy { settings: Settings { compression, ..Settings::default() }, ..ServerPolicy::default() }
}

fn resolve(json: &str, server: &ServerPolicy) -> Policy {
    Policy::resolve(None, &config(json), server)
}

/// When it is time for a task with a limit of 1000 and these keys of `compression`.
fn due(compression: &str, server: &ServerPolicy) -> u64 {
    let json = format!(r#"{{"context_length":1000,"compression":{{{compression}}}}}"#);
    let policy = resolve(&json, server);
    let tokens = policy.threshold_tokens;
    assert!(
        !Pressure::of(tokens - 1, &policy).should_compress && Pressure::of(tokens, &policy).should_compress
    );
    tokens
}

#[test]
fn defaults_are_as_documented() {
    let policy = resolve("{}", &ServerPolicy::default());
    assert!(policy.enabled && policy.auto && policy.inherits && !policy.structured && !policy.keep_plan);
    assert_eq!(
        (policy.strategy, policy.summarizer, policy.provider),
        (Strategy::Summarize, Summarizer::Auto, None)
    );
    assert_eq!((policy.limit, policy.limit_source), (128_000, LimitSource::Default));
    assert_eq!((policy.threshold_tokens, policy.summary_tokens, policy.target_tokens), (89_600, None, None));
    let counts = (policy.keep_recent_messages, policy.min_messages, policy.retain_last_turns);
    assert_eq!(counts, (5, 5, 1));
    assert_eq!((policy.prune_target, policy.prune_weights), (0.7, [0.3, 0.3, 0.4]));
    assert_eq!(
        (policy.window_messages, policy.window_tokens, policy.max_inherited_tokens),
        (None, None, 4000)
    );
    assert_eq!(policy.request_budget(), None);
}

#[test]
fn the_nearest_says_when_in_whatever_form() {
    let none = ServerPolicy::default();
    for (said, tokens) in [
        ("", 700),
        (r#""strategy":"compact""#, 800),
        (r#""strategy":"prune""#, 800),
        (r#""strategy":"window""#, 700),
        (r#""complexity":"simple""#, 500),
        (r#""complexity":"medium""#, 700),
        (r#""complexity":"complex""#, 850),
        (r#""preset":"conservative""#, 600),
        (r#""preset":"conservative","complexity":"simple""#, 500),
        (r#""threshold":0.9,"complexity":"simple""#, 900),
        (r#""threshold":0.1,"token_threshold":300"#, 300),
        (r#""token_threshold":5000"#, 1000),
        (r#""threshold":7,"token_threshold":0,"complexity":"odd","preset":"odd","strategy":"odd""#, 700),
    ] {
        assert_eq!(due(said, &none), tokens, "{said}");
    }
    let half = server(CompressionSettings { threshold: Some(0.5), ..CompressionSettings::default() });
    let fixed = server(CompressionSettings { token_threshold: Some(10), ..CompressionSettings::default() });
    assert_eq!((due("", &half), due("", &fixed)), (500, 10));
    for said in [r#""threshold":0.8"#, r#""strategy":"prune""#, r#""preset":"balanced""#] {
        assert_eq!((due(said, &half), due(said, &fixed)), (800, 800), "{said}");
    }
}

#[test]
fn a_compression_has_to_be_worth_it_however_early_it_is_due() {
    let worth = |limit: u64, said: &str| {
        resolve(
            &format!(r#"{{"context_length":{limit},"compression":{{{said}}}}}"#),
            &ServerPolicy::default(),
        )
        .worth()
    };
    assert_eq!((worth(128_000, ""), worth(4000, ""), worth(1000, "")), (12_800, 400, 100));
    assert_eq!(worth(128_000, r#""token_threshold":8000"#), 1600);
    for tiny in [r#""token_threshold":4"#, r#""token_threshold":2000"#, r#""threshold":0.00001"#] {
        assert_eq!((worth(128_000, tiny), worth(4000, tiny)), (500, 400), "{tiny}");
    }
}

#[test]
fn a_share_is_reached_exactly() {
    for limit in 1..2000_u64 {
        for share in [0.07, 0.3, 0.55, 0.7, 0.85, 1.0] {
            let least = least_tokens(share, limit);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let reached = |tokens: u64| tokens as f64 / limit as f64 >= share;
            assert!(reached(least) && (least == 0 || !reached(least - 1)), "{share} of {limit}: {least}");
        }
    }
}

#[test]
fn a_call_wins_over_the_task_and_the_task_over_the_server() {
    let server = server(CompressionSettings {
        keep_recent_messages: Some(9),
        min_messages: Some(8),
        summary_prompt: Some("server".to_owned()),
        ..CompressionSettings::default()
    });
    let task = config(
        r#"{"compression":{"keep_recent_messages":3,"summary_prompt":"task"},"window":{"messages":4}}"#,
    );
    let mut call = Settings::default();
    call.compression.summary_prompt = Some("call".to_owned());
    let policy = Policy::resolve(Some((&call, Some(77))), &task, &server);
    assert_eq!((policy.keep_recent_messages, policy.min_messages), (3, 8));
    assert_eq!((policy.summary_prompt.as_deref(), policy.target_tokens), (Some("call"), Some(77)));
    assert_eq!(policy.window_messages, Some(4));
}

#[test]
fn a_strategy_that_a_call_names_brings_its_own_threshold_unless_the_task_says_when() {
    let half = server(CompressionSettings { threshold: Some(0.5), ..CompressionSettings::default() });
    for (said, tokens) in [
        ("", 800),
        (r#""strategy":"window""#, 800),
        (r#""threshold":0.6"#, 600),
        (r#""token_threshold":90"#, 90),
    ] {
        let task = config(&format!(r#"{{"context_length":1000,"compression":{{{said}}}}}"#));
        let mut call = Settings::default();
        call.compression.strategy = Some("prune".to_owned());
        let policy = Policy::resolve(Some((&call, None)), &task, &half);
        assert_eq!((policy.strategy, policy.threshold_tokens), (Strategy::Prune, tokens), "{said}");
    }
}

#[test]
fn a_compression_goes_a_step_below_the_threshold() {
    for (json, goal, worth) in [
        (r#"{"context_length":100000}"#, 60_000, 10_000),
        (r#"{"context_length":100000,"compression":{"strategy":"compact"}}"#, 70_000, 10_000),
        (
            r#"{"context_length":100000,"compression":{"strategy":"prune"},"prune":{"target":0.4}}"#,
            40_000,
            10_000,
        ),
        // Where it is due early, the step is less.
        (r#"{"context_length":100000,"compression":{"token_threshold":8000}}"#, 6400, 1600),
        (r#"{"context_length":100000,"compression":{"token_threshold":4}}"#, 4, 500),
        (r#"{"context_length":1000}"#, 600, 100),
    ] {
        let policy = resolve(json, &ServerPolicy::default());
        assert_eq!((policy.goal(policy.strategy), policy.worth()), (goal, worth), "{json}");
    }
}

#[test]
fn a_preset_gives_what_nobody_else_does() {
    let preset = |server: &ServerPolicy, json: &str| {
        let policy = resolve(json, server);
        (policy.limit, policy.limit_source, policy.threshold_tokens, policy.prune_target)
    };
    let none = ServerPolicy::default();
    let own = r#"{"compression":{"preset":"aggressive"}}"#;
    assert_eq!(preset(&none, own), (12_000, LimitSource::Task, 10_800, 0.8));
    let more = r#"{"context_length":1000,"compression":{"preset":"aggressive"},"prune":{"target":0.4}}"#;
    assert_eq!(preset(&none, more), (1000, LimitSource::Task, 900, 0.4));
    let balanced =
        CompressionSettings { preset: Some("balanced".to_owned()), ..CompressionSettings::default() };
    let mut server = server(balanced);
    assert_eq!(preset(&server, "{}"), (8000, LimitSource::Server, 6400, 0.7));
    assert_eq!(preset(&server, own).0, 12_000);
    // The model takes less than the preset gives.
    server.context_lengths[Provider::Ollama as usize] = Some(4096);
    assert_eq!(preset(&server, r#"{"llm_provider":"ollama"}"#).0, 4096);
    // A limit that is known is not lowered either.
    for (json, limit) in [
        (r#"{"llm_provider":"ollama"}"#, 4096),
        (r#"{"llm_provider":"openai","model":"gpt-4.1"}"#, 1_047_576),
    ] {
        assert_eq!(preset(&server, json).0, limit, "{json}");
    }
}

#[test]
fn the_limit_is_the_tasks_or_the_servers_or_a_guess() {
    let mut server = ServerPolicy::default();
    let limit = |server: &ServerPolicy, json: &str| {
        let policy = resolve(json, server);
        (policy.limit, policy.limit_source.as_str())
    };
    for (provider, guess) in
        [("openai", 128_000), ("anthropic", 200_000), ("ollama", 32_768), ("another", 128_000)]
    {
        assert_eq!(limit(&server, &format!(r#"{{"llm_provider":"{provider}"}}"#)), (guess, "default"));
    }
    server.context_lengths[Provider::Ollama as usize] = Some(8192);
    assert_eq!(limit(&server, r#"{"llm_provider":"ollama"}"#), (8192, "server"));
    assert_eq!(limit(&server, r#"{"llm_provider":"ollama","context_length":5}"#), (5, "task"));
    assert_eq!(limit(&server, "{}"), (128_000, "default"));
    server.provider = Some(Provider::Ollama);
    assert_eq!(limit(&server, "{}"), (8192, "server"));
    assert_eq!(limit(&server, r#"{"llm_provider":"another"}"#), (128_000, "default"));
}

#[test]
fn nobody_is_asked_for_summaries_unless_the_server_or_the_task_says_so() {
    let who = |server: &ServerPolicy, json: &str| {
        let policy = resolve(json, server);
        (policy.provider.map(Provider::as_str), policy.model)
    };
    let mut server = ServerPolicy::default();
    let openai = r#"{"llm_provider":"openai","model":"m"}"#;
    assert_eq!(who(&server, openai), (None, None));
    let llm = r#"{"llm_provider":"openai","model":"m","compression":{"summarizer":"llm"}}"#;
    assert_eq!(who(&server, llm), (Some("openai"), Some("m".to_owned())));
    server.provider = Some(Provider::Anthropic);
    assert_eq!(who(&server, openai), (Some("openai"), Some("m".to_owned())));
    assert_eq!(who(&server, r#"{"model":"m"}"#), (Some("anthropic"), Some("m".to_owned())));
    // A model goes with the provider it was named for.
    server.settings.compression.provider = Some("ollama".to_owned());
    assert_eq!(who(&server, openai), (Some("ollama"), None));
    server.settings.compression.model = Some("small".to_owned());
    assert_eq!(who(&server, openai), (Some("ollama"), Some("small".to_owned())));
    let other = r#"{"llm_provider":"openai","model":"m","compression":{"provider":"openai"}}"#;
    assert_eq!(who(&server, other), (Some("openai"), Some("m".to_owned())));
}
