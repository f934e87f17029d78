//! Errors as providers send them: status, body, and what they mean.

use super::*;
use crate::error::ErrorBody;

/// `limit` and `sent`; 0: not stated.
fn overflow(limit: u64, sent: u64) -> ErrorClass {
    let stated = |number: u64| Some(number).filter(|number| *number > 0);
    ErrorClass::Overflow(Overflow { limit: stated(limit), sent: stated(sent) })
}

fn long_answer(most: u64) -> ErrorClass {
    ErrorClass::LongAnswer { most: Some(most).filter(|most| *most > 0) }
}

/// What a body means that came with a status; 0: in a stream.
fn judged(status: u16, body: &str) -> ErrorClass {
    let error = ErrorBody::read(body.as_bytes());
    classify(Some(status).filter(|status| *status > 0).or(error.status), &error.kind, &error.message)
}

fn check(table: &[(&str, u16, &str, ErrorClass)]) {
    for (provider, status, body, expected) in table {
        assert_eq!(judged(*status, body), *expected, "{provider}: {status} {body}");
    }
}

#[test]
fn a_context_that_is_too_long_is_known_with_its_figures() {
    check(&[
        (
            "OpenAI",
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            overflow(128_000, 204_308),
        ),
        (
            "OpenAI",
            400,
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, you requested 4972 tokens (3222 in the messages, 1750 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            overflow(4097, 3222),
        ),
        (
            "OpenAI Responses",
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
            overflow(0, 0),
        ),
        (
            "OpenAI Responses, streamed",
            0,
            r#"{"type":"error","sequence_number":2,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model. Please adjust your input and try again.","param":"input"}}"#,
            overflow(0, 0),
        ),
        (
            "OpenAI Responses, streamed",
            0,
            r#"{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
            overflow(0, 0),
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 202128 tokens > 200000 maximum"},"request_id":"req_1"}"#,
            overflow(200_000, 202_128),
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again"}}"#,
            overflow(200_000, 199_759),
        ),
        (
            "Anthropic",
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            overflow(0, 0),
        ),
        ("Bedrock", 400, r#"{"message":"Input is too long for requested model."}"#, overflow(0, 0)),
        (
            "Bedrock",
            400,
            r#"{"__type":"ValidationException","message":"The model returned the following errors: input length and `max_tokens` exceed context limit: 199900 + 4096 > 200000, decrease input length or `max_tokens` and try again"}"#,
            overflow(200_000, 199_900),
        ),
        (
            "Azure",
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            overflow(8192, 8227),
        ),
        ("Ollama", 400, r#"{"error":"the input length exceeds the context length"}"#, overflow(0, 0)),
        (
            "Ollama",
            500,
            r#"{"error":"prompt too long; exceeded max context length by 4 tokens"}"#,
            overflow(0, 0),
        ),
        (
            "LM Studio",
            400,
            r#"{"error":"Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}"#,
            overflow(32_768, 111_490),
        ),
        (
            "LM Studio",
            400,
            r#"{"error":"Cannot truncate prompt with n_keep (13000) >= n_ctx (8192)"}"#,
            overflow(8192, 0),
        ),
        (
            "llama.cpp",
            400,
            r#"{"error":{"code":400,"message":"request (13000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":13000,"n_ctx":8192}}"#,
            overflow(8192, 13_000),
        ),
        (
            "llama.cpp",
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":13000,"n_ctx":8192}}"#,
            overflow(8192, 0),
        ),
        (
            "vLLM",
            400,
            r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
            overflow(16_384, 112_946),
        ),
        (
            "vLLM",
            400,
            r#"{"error":{"message":"This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=262145)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
            overflow(262_144, 262_145),
        ),
        (
            "xAI",
            400,
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 136973 tokens."}"#,
            overflow(131_072, 136_973),
        ),
        (
            "Gemini",
            400,
            r#"{"error":{"code":400,"message":"The input token count (2845475) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            overflow(1_048_576, 2_845_475),
        ),
        (
            "Gemini",
            400,
            r#"[{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed 131072.","errors":[{"domain":"global","reason":"badRequest"}],"status":"INVALID_ARGUMENT"}}]"#,
            overflow(131_072, 0),
        ),
        (
            "TGI",
            422,
            r#"{"error":"Input validation error: `inputs` must have less than 4096 tokens. Given: 4545","error_type":"validation"}"#,
            overflow(4096, 4545),
        ),
        (
            "TGI",
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`","error_type":"validation"}"#,
            overflow(2048, 3474),
        ),
        (
            "OpenRouter",
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 200000 tokens. However, you requested about 264437 tokens (262437 of text input, 2000 in the output). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}}}"#,
            overflow(200_000, 262_437),
        ),
        (
            "OpenRouter",
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"Input is too long for requested model.\"}","provider_name":"Amazon Bedrock"}}}"#,
            overflow(0, 0),
        ),
        (
            "Mistral",
            400,
            r#"{"object":"error","message":"Prompt contains 9123 tokens and 0 draft tokens, too large for model with 8192 maximum context length","type":"invalid_request_prompt","code":"3051"}"#,
            overflow(8192, 9123),
        ),
        (
            "Kimi",
            400,
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)","type":"invalid_request_error"}}"#,
            overflow(262_144, 291_351),
        ),
        ("Z.AI", 400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, overflow(0, 0)),
        (
            "DashScope",
            400,
            r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 30720]","type":"invalid_request_error"}}"#,
            overflow(30_720, 0),
        ),
        (
            "Groq",
            413,
            r#"{"error":{"message":"Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            overflow(0, 0),
        ),
        // The code is worth more than the status.
        (
            "a proxy",
            503,
            r#"{"error":{"message":"context too long","code":"context_length_exceeded"}}"#,
            overflow(0, 0),
        ),
    ]);
}

#[test]
fn an_answer_that_would_be_too_long_is_no_fault_of_the_context() {
    check(&[
        (
            "OpenAI",
            400,
            r#"{"error":{"message":"max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you provided 20000.","type":"invalid_request_error","param":"max_tokens","code":null}}"#,
            long_answer(16_384),
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 20000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022"}}"#,
            long_answer(8192),
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length or `max_tokens` and try again"}}"#,
            long_answer(114_246),
        ),
        (
            "OpenAI Responses",
            400,
            r#"{"error":{"message":"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 20000 instead.","type":"invalid_request_error","param":"max_output_tokens","code":"integer_above_max_value"}}"#,
            long_answer(16_384),
        ),
        (
            "Bedrock",
            400,
            r#"{"message":"The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is lower than 8192."}"#,
            long_answer(8192),
        ),
        (
            "Azure",
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (2000 in the messages, 128000 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            long_answer(126_000),
        ),
        (
            "Ollama",
            400,
            r#"{"error":{"message":"max_tokens (384000) exceeds model's maximum output tokens (65536) for model deepseek-v4-flash:0731","type":"invalid_request_error"}}"#,
            long_answer(65_536),
        ),
        (
            "vLLM",
            400,
            r#"{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 20000. This model's maximum context length is 16384 tokens and your request has 5000 input tokens (20000 > 16384 - 5000).","type":"BadRequestError","param":null,"code":400}"#,
            long_answer(11_384),
        ),
        (
            "Groq",
            400,
            r#"{"error":{"message":"`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model","type":"invalid_request_error"}}"#,
            long_answer(16_384),
        ),
        (
            "TGI",
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768. Given: 1244 `inputs` tokens and 32000 `max_new_tokens`","error_type":"validation"}"#,
            long_answer(31_524),
        ),
        (
            "OpenRouter",
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 262000 tokens. However, you requested about 263390 tokens (658 of text input, 732 of tool input, 262000 in the output). Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}}}"#,
            long_answer(260_610),
        ),
        (
            "DeepSeek",
            400,
            r#"{"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            long_answer(8192),
        ),
        ("LM Studio", 400, r#"{"error":"max_tokens is too large: 20000"}"#, long_answer(0)),
    ]);
}

#[test]
fn a_throttle_is_no_overflow_whatever_it_says_of_tokens() {
    check(&[
        (
            "Bedrock",
            429,
            r#"{"message":"Too many tokens, please wait before trying again."}"#,
            ErrorClass::Throttled,
        ),
        (
            "Bedrock",
            429,
            r#"{"message":"Too many tokens per day, please wait before trying again."}"#,
            ErrorClass::Throttled,
        ),
        (
            "Bedrock",
            400,
            r#"{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}"#,
            ErrorClass::Throttled,
        ),
        (
            "Bedrock behind a relay",
            0,
            r#"{"message":"Too many tokens, please wait before trying again."}"#,
            ErrorClass::Failed,
        ),
        (
            "OpenAI",
            429,
            r#"{"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
            ErrorClass::Throttled,
        ),
        (
            "OpenAI Responses, streamed",
            0,
            r#"{"type":"error","code":"rate_limit_exceeded","message":"Rate limit reached for gpt-5 on tokens per min (TPM)","param":null,"sequence_number":1}"#,
            ErrorClass::Throttled,
        ),
        (
            "Anthropic",
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute."}}"#,
            ErrorClass::Throttled,
        ),
        (
            "Anthropic",
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ErrorClass::Throttled,
        ),
        (
            "Anthropic, streamed",
            0,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ErrorClass::Throttled,
        ),
        (
            "Azure",
            429,
            r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds."}}"#,
            ErrorClass::Throttled,
        ),
        (
            "Gemini",
            429,
            r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan. Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000","status":"RESOURCE_EXHAUSTED"}}]"#,
            ErrorClass::Throttled,
        ),
        (
            "LiteLLM",
            503,
            r#"{"error":{"message":"litellm.ServiceUnavailableError: Requested token count exceeds the model's maximum context length of 131072 tokens.","type":null,"param":null,"code":"503"}}"#,
            ErrorClass::Throttled,
        ),
        (
            "OpenRouter",
            429,
            r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"qwen/qwen3-coder:free is temporarily rate-limited upstream. Please retry shortly.","provider_name":"Chutes"}}}"#,
            ErrorClass::Throttled,
        ),
        ("TGI", 429, r#"{"error":"Model is overloaded","error_type":"overloaded"}"#, ErrorClass::Throttled),
        (
            "vLLM",
            503,
            r#"{"object":"error","message":"The engine is overloaded","type":"ServiceUnavailable","code":503}"#,
            ErrorClass::Throttled,
        ),
    ]);
}

#[test]
fn other_errors_are_refused_or_pass() {
    check(&[
        (
            "OpenAI",
            401,
            r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            ErrorClass::Refused,
        ),
        (
            "OpenAI",
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
            ErrorClass::Refused,
        ),
        (
            "OpenAI",
            500,
            r#"{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}"#,
            ErrorClass::Failed,
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages: roles must alternate between \"user\" and \"assistant\""}}"#,
            ErrorClass::Refused,
        ),
        (
            "Anthropic, streamed",
            0,
            r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            ErrorClass::Failed,
        ),
        ("Ollama", 404, r#"{"error":"model 'x' not found"}"#, ErrorClass::Refused),
        (
            "Ollama, streamed",
            0,
            r#"{"error":"model runner has unexpectedly stopped, this may be due to resource limitations or an internal error"}"#,
            ErrorClass::Failed,
        ),
        (
            "vLLM",
            0,
            r#"{"object":"error","message":"no such tool","type":"BadRequestError","param":null,"code":400}"#,
            ErrorClass::Refused,
        ),
        (
            "OpenRouter",
            502,
            r#"{"error":{"message":"Provider returned error","code":502}}"#,
            ErrorClass::Failed,
        ),
        ("a gateway", 502, "<html>Bad Gateway</html>", ErrorClass::Failed),
    ]);
}
