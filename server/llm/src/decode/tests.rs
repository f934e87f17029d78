//! Answers as providers stream them, cut at every byte: the same events come out.

use super::super::frames::Frames;
use super::*;

/// The events of an answer that comes in pieces, and whether it is whole.
fn events(provider: Provider, pieces: &[&[u8]]) -> Result<(Vec<AnswerEvent>, bool), DecodeError> {
    let (framing, mut decode) = decoder(provider);
    let mut frames = Frames::new(framing);
    let mut out = VecDeque::new();
    for piece in pieces {
        frames.push(piece).unwrap();
        while let Some(frame) = frames.next() {
            take(decode.as_mut(), &frame, &mut out)?;
        }
    }
    frames.end().unwrap();
    while let Some(frame) = frames.next() {
        take(decode.as_mut(), &frame, &mut out)?;
    }
    let whole = decode.end(&mut out);
    Ok((out.into(), whole))
}

/// The text of each kind of piece put together, so that it does not matter how they were cut.
fn whole(provider: Provider, answer: &str) -> Vec<AnswerEvent> {
    let (all, is_whole) = events(provider, &[answer.as_bytes()]).unwrap();
    assert!(is_whole, "{answer}");
    for at in 0..=answer.len() {
        let (head, tail) = answer.as_bytes().split_at(at);
        assert_eq!(events(provider, &[head, tail]).unwrap(), (all.clone(), true), "cut at {at}");
    }
    all
}

fn sse(events: &[&str]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect()
}

fn text(text: &str) -> AnswerEvent {
    AnswerEvent::Text(text.to_owned())
}

fn reasoning(text: &str) -> AnswerEvent {
    AnswerEvent::Reasoning(text.to_owned())
}

fn finish(reason: &str) -> AnswerEvent {
    AnswerEvent::Finish(reason.to_owned())
}

fn call(index: u32, id: &str, name: &str, arguments: &str) -> AnswerEvent {
    let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
    AnswerEvent::ToolCall(ToolCallDelta { index, id, name, custom: false, arguments })
}

fn usage(input: u64, output: u64, cache_creation: u64, cache_read: u64) -> AnswerEvent {
    AnswerEvent::Usage(Usage { input, output, cache_creation, cache_read })
}

#[test]
fn chat_completions_stream_text_thoughts_parallel_calls_and_usage() {
    let answer = sse(&[
        r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"né😀"}},{"index":1,"delta":{"content":"other"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}"#,
        "[DONE]",
    ]);
    let expected = [
        reasoning("hm"),
        text("né😀"),
        call(0, "call_a", "f", ""),
        call(0, "", "", "{\"x\":"),
        call(1, "call_b", "g", "{}"),
        call(0, "", "", "1}"),
        usage(40, 7, 0, 60),
        finish("tool_calls"),
    ];
    assert_eq!(whole(Provider::OpenAi, &answer), expected);
    assert_eq!(whole(Provider::LmStudio, &answer), expected);
}

/// Some number all calls 0, or not at all, or send no ids.
#[test]
fn calls_of_servers_that_count_otherwise_are_told_apart() {
    for answer in [
        sse(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        ]),
        sse(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
        ]),
    ] {
        assert_eq!(
            whole(Provider::OpenAi, &answer),
            [call(0, "a", "f", "{}"), call(1, "b", "g", "{}"), finish("stop")]
        );
    }
    let answer = sse(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]}"#,
    ]);
    let (events, _) = events(Provider::OpenAi, &[answer.as_bytes()]).unwrap();
    // Who gives no id does so to the end: the call is told then, whole.
    let AnswerEvent::ToolCall(first) = &events[0] else { panic!("{events:?}") };
    assert!(first.id.starts_with("call_") && first.arguments == "{}", "{first:?}");
    assert_eq!(events[1..], [finish("tool_calls")]);
}

#[test]
fn custom_calls_and_refusals_are_told() {
    let answer = sse(&[
        r#"{"choices":[{"delta":{"refusal":"No."}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"free"}}]},"finish_reason":"function_call"}]}"#,
    ]);
    let piece = ToolCallDelta {
        index: 0,
        id: "a".to_owned(),
        name: "f".to_owned(),
        custom: true,
        arguments: "free".to_owned(),
    };
    assert_eq!(
        whole(Provider::OpenAi, &answer),
        [AnswerEvent::Refusal("No.".to_owned()), AnswerEvent::ToolCall(piece), finish("tool_calls")]
    );
}

#[test]
fn responses_stream_text_calls_and_what_goes_back_encrypted() {
    let item = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA=="}"#;
    let answer = sse(&[
        r#"{"type":"response.created","response":{"usage":null,"error":null,"incomplete_details":null}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm"}"#,
        &format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#),
        r#"{"type":"response.output_text.delta","output_index":1,"delta":"é"}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"call_a","name":"f","arguments":""}}"#,
        r#"{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","call_id":"call_b","name":"g","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"x\":"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"1}"}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"call_a","name":"f","arguments":"{\"x\":1}"}}"#,
        r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"call_b","name":"g","arguments":"{}"}}"#,
        r#"{"type":"response.completed","response":{"usage":{"input_tokens":50,"output_tokens":5,"input_tokens_details":{"cached_tokens":20}}}}"#,
    ]);
    assert_eq!(
        whole(Provider::OpenAiResponses, &answer),
        [
            reasoning("hm"),
            AnswerEvent::Opaque(item.to_owned()),
            text("é"),
            call(0, "call_a", "f", ""),
            call(1, "call_b", "g", ""),
            call(0, "", "", "{\"x\":"),
            call(0, "", "", "1}"),
            call(1, "", "", "{}"),
            usage(30, 5, 0, 20),
            finish("tool_calls"),
        ]
    );
    let cut = sse(&[
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ]);
    assert_eq!(whole(Provider::OpenAiResponses, &cut), [finish("length")]);
}

#[test]
fn messages_stream_text_calls_and_signed_thoughts() {
    let answer: String = [
        ("message_start", r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"cache_creation_input_tokens":100,"cache_read_input_tokens":50,"output_tokens":1}}}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#),
        ("ping", r#"{"type":"ping"}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let \"me\""}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eq=="}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"日本"}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":3}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_b","name":"g","input":{}}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":4}"#),
        ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":33}}"#),
        ("message_stop", r#"{"type":"message_stop"}"#),
    ]
    .iter()
    .map(|(name, data)| format!("event: {name}\r\ndata: {data}\r\n\r\n"))
    .collect();
    assert_eq!(
        whole(Provider::Anthropic, &answer),
        [
            usage(9, 1, 100, 50),
            reasoning("Let \"me\""),
            AnswerEvent::Opaque(
                r#"{"type":"thinking","thinking":"Let \"me\"","signature":"Eq=="}"#.to_owned()
            ),
            AnswerEvent::Opaque(r#"{"type":"redacted_thinking","data":"xyz"}"#.to_owned()),
            text("日本"),
            call(0, "toolu_a", "f", ""),
            call(0, "", "", "{\"x\":1}"),
            call(1, "toolu_b", "g", ""),
            call(1, "", "", "{}"),
            usage(9, 33, 100, 50),
            finish("tool_calls"),
        ]
    );
}

#[test]
fn ollama_streams_lines_with_arguments_as_objects() {
    let answer = "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"hm\"},\"done\":false}\n\
        {\"message\":{\"content\":\"né\"},\"done\":false}\n\
        {\"message\":{\"content\":\"\",\"tool_calls\":[{\"id\":\"c1\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1.50}}},{\"id\":\"c2\",\"function\":{\"name\":\"g\"}}]},\"done\":false}\n\
        {\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":11,\"eval_count\":4}";
    assert_eq!(
        whole(Provider::Ollama, answer),
        [
            reasoning("hm"),
            text("né"),
            call(0, "c1", "f", "{\"x\":1.50}"),
            call(1, "c2", "g", "{}"),
            usage(11, 4, 0, 0),
            finish("tool_calls"),
        ]
    );
}

#[test]
fn an_answer_that_breaks_off_is_not_whole() {
    for (provider, answer) in [
        (Provider::OpenAi, sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#])),
        (Provider::OpenAi, String::new()),
        (Provider::OpenAi, sse(&["[DONE]"])),
        (
            Provider::OpenAiResponses,
            sse(&[r#"{"type":"response.output_text.delta","output_index":1,"delta":"a"}"#, "[DONE]"]),
        ),
        (
            Provider::Anthropic,
            sse(&[r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#]),
        ),
        (Provider::Ollama, "{\"message\":{\"content\":\"a\"},\"done\":false}\n".to_owned()),
    ] {
        let (_, whole) = events(provider, &[answer.as_bytes()]).unwrap();
        assert!(!whole, "{provider:?} {answer}");
    }
}

#[test]
fn what_a_provider_says_in_the_middle_is_passed_on() {
    let said = |kind: &str, message: &str| {
        let (kind, message) = (kind.to_owned(), message.to_owned());
        DecodeError::Error(ErrorBody { status: None, kind, message })
    };
    for (provider, answer, expected) in [
        (
            Provider::OpenAi,
            sse(&[r#"{"error":{"message":"The server had an error","type":"server_error"}}"#]),
            said("server_error", "The server had an error"),
        ),
        (
            Provider::OpenAiResponses,
            sse(&[
                r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"no"}}}"#,
            ]),
            said("server_error", "no"),
        ),
        (
            Provider::OpenAiResponses,
            sse(&[r#"{"type":"error","code":"rate_limit","message":"slow"}"#]),
            said("rate_limit", "slow"),
        ),
        (
            Provider::OpenAiResponses,
            sse(&[
                r#"{"type":"error","sequence_number":2,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"too long","param":"input"}}"#,
            ]),
            said("context_length_exceeded", "too long"),
        ),
        (
            Provider::OpenAiResponses,
            sse(&[r#"{"type":"error","code":null,"message":"no","param":null}"#]),
            said("", "no"),
        ),
        (
            Provider::Anthropic,
            sse(&[r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#]),
            said("overloaded_error", "Overloaded"),
        ),
        (
            Provider::Ollama,
            "{\"error\":\"model runner crashed\"}\n".to_owned(),
            said("", "model runner crashed"),
        ),
    ] {
        assert_eq!(events(provider, &[answer.as_bytes()]), Err(expected), "{provider:?}");
    }
    let nonsense = events(Provider::OpenAi, &[b"data: <html>\n\n"]);
    assert!(matches!(nonsense, Err(DecodeError::Malformed(_))), "{nonsense:?}");
}

/// A server that does not stream gives the same answer in one piece, on one line or on many.
#[test]
fn whole_answers_are_taken_though_a_stream_was_asked_for() {
    let openai = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"hm","content":"Hi","refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"a","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#;
    let calls = [call(0, "a", "f", "{}"), call(1, "a", "g", "{\"x\":1}")];
    let expected = |rest: &[AnswerEvent]| [&[reasoning("hm"), text("Hi")], &calls[..], rest].concat();
    for provider in [Provider::OpenAi, Provider::LmStudio] {
        assert_eq!(whole(provider, openai), expected(&[usage(5, 2, 0, 4), finish("tool_calls")]));
    }
    let item = r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"}"#;
    let responses = format!(
        r#"{{"id":"r","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[{item},{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"Hi","annotations":[]}}]}},{{"type":"function_call","call_id":"a","name":"f","arguments":"{{}}"}}],"usage":{{"input_tokens":9,"output_tokens":2}}}}"#
    );
    assert_eq!(
        whole(Provider::OpenAiResponses, &responses),
        [
            reasoning("hm"),
            AnswerEvent::Opaque(item.to_owned()),
            text("Hi"),
            call(0, "a", "f", "{}"),
            usage(9, 2, 0, 0),
            finish("tool_calls")
        ]
    );
    let anthropic = r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Hi"},{"type":"tool_use","id":"a","name":"f","input":{"x": 1}},{"type":"tool_use","id":"b","name":"g"}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":2}}"#;
    assert_eq!(
        whole(Provider::Anthropic, anthropic),
        [
            reasoning("hm"),
            AnswerEvent::Opaque(r#"{"type":"thinking","thinking":"hm","signature":"s"}"#.to_owned()),
            text("Hi"),
            call(0, "a", "f", ""),
            call(0, "", "", "{\"x\": 1}"),
            call(1, "b", "g", ""),
            call(1, "", "", "{}"),
            usage(9, 2, 0, 0),
            finish("tool_calls")
        ]
    );
    let ollama = r#"{"message":{"role":"assistant","content":"Hi"},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":2}"#;
    for pretty in [ollama.to_owned(), ollama.replacen('{', "{\n", 1).replace(',', ",\n")] {
        assert_eq!(whole(Provider::Ollama, &pretty), [text("Hi"), usage(9, 2, 0, 0), finish("stop")]);
    }
    // Something that is no answer is none.
    for other in ["{}", r#"{"choices":[]}"#, "{\n\"half\":"] {
        for provider in Provider::ALL {
            assert!(!matches!(events(provider, &[other.as_bytes()]), Ok((_, true))), "{provider:?} {other}");
        }
    }
}

#[test]
fn an_error_in_place_of_a_stream_keeps_its_words() {
    for (body, status, kind, message) in [
        (
            r#"{"error":{"message":"too long","type":"invalid_request_error","code":null}}"#,
            None,
            "invalid_request_error",
            "too long",
        ),
        (r#"{"error":{"message":"slow down","code":429}}"#, Some(429), "", "slow down"),
        (
            r#"{"object":"error","message":"no","type":"BadRequestError","code":400}"#,
            Some(400),
            "BadRequestError",
            "no",
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            None,
            "overloaded_error",
            "Overloaded",
        ),
        (r#"{"error":"no such model"}"#, None, "", "no such model"),
    ] {
        let (kind, message) = (kind.to_owned(), message.to_owned());
        let expected = DecodeError::Error(ErrorBody { status, kind, message });
        for provider in [Provider::OpenAi, Provider::OpenAiResponses, Provider::Anthropic, Provider::LmStudio]
        {
            assert_eq!(events(provider, &[body.as_bytes()]), Err(expected.clone()), "{provider:?} {body}");
        }
    }
    for body in [r#"{"error":"no such model"}"#, r#"{"error":{"message":"no such model","code":404}}"#] {
        let Err(DecodeError::Error(error)) = events(Provider::Ollama, &[body.as_bytes()]) else {
            panic!("{body} is an error");
        };
        assert_eq!(error.message, "no such model");
    }
}

/// What others than OpenAI make of chat completions.
#[test]
fn ids_and_names_may_come_later_and_figures_with_a_point() {
    let answer = sse(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"1"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}},{"index":1,"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":11.0,"completion_tokens":2.0,"prompt_tokens_details":{"cached_tokens":1.0}}}"#,
    ]);
    assert_eq!(
        whole(Provider::LmStudio, &answer),
        [
            call(0, "a", "f", "{\"x\":1"),
            call(1, "b", "g", "{"),
            call(0, "", "", "}"),
            call(1, "", "", "}"),
            usage(10, 2, 0, 1),
            finish("tool_calls"),
        ]
    );
    let answer = sse(&[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":null,"name":"","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"call_a","name":"f","arguments":"{}"}}"#,
        r#"{"type":"response.completed","response":{"usage":{"input_tokens":5.0,"output_tokens":1.0}}}"#,
    ]);
    assert_eq!(
        whole(Provider::OpenAiResponses, &answer),
        [call(0, "call_a", "f", "{}"), usage(5, 1, 0, 0), finish("tool_calls")]
    );
}

#[test]
fn a_content_in_parts_is_text_and_thoughts() {
    let answer = sse(&[
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"Hi"},{"type":"reference","reference_ids":[1]}]},"finish_reason":"stop"}]}"#,
    ]);
    assert_eq!(whole(Provider::OpenAi, &answer), [reasoning("hm"), text("Hi"), finish("stop")]);
}
