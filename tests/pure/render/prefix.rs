//! Between rewrites each body repeats the one before it, up to the first call that was open in that one: byte for byte, but
//! for what closes it and what is said for the user at its end.

use contextstore_policy::render::Provider;
use contextstore_providers::histories::{History, Taste, tools};

use super::view::{View, options};

/// What stands for a result that never came.
const MISSING: &[u8] = b"[no result: the call was interrupted]";
/// The parts that the histories are checked in, beside each other.
const PARTS: u64 = 4;
/// Most bodies of a history that are compared.
const STEPS: usize = 16;

/// Returns how many histories are rendered message by message.
fn seeds() -> u64 {
    test_support::sized(40, 400)
}

fn common(a: &[u8], b: &[u8]) -> usize {
    // Most of it is the same, and whole pieces are compared faster.
    const PIECE: usize = 256;
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE)).take_while(|(a, b)| a == b);
    let same: usize = pieces.map(|(a, _)| a.len()).sum();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// What may stand at the end of a body and go when it grows, the longest first.
fn tails(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::OpenAi | Provider::Ollama | Provider::LmStudio => &[
            r#",{"role":"user","content":"Continue."}]}"#,
            r#"{"role":"user","content":"Continue."}]}"#,
            "]}",
        ],
        Provider::OpenAiResponses => &[
            // Instructions and nothing else.
            r#"","input":[{"role":"user","content":"Continue."}]}"#,
            r#""input":[{"role":"user","content":"Continue."}]}"#,
            r#",{"role":"user","content":"Continue."}]}"#,
            "]}",
        ],
        Provider::Anthropic => &[
            r#"],"messages":[{"role":"user","content":[{"type":"text","text":"Continue."}]}]}"#,
            r#""messages":[{"role":"user","content":[{"type":"text","text":"Continue."}]}]}"#,
            r#"]},{"role":"user","content":[{"type":"text","text":"Continue."}]}]}"#,
            r#",{"type":"text","text":"Continue."}]}]}"#,
            "]}]}",
        ],
    }
}

/// What a result begins with.
fn openers(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::OpenAi | Provider::Ollama | Provider::LmStudio => &[r#"{"role":"tool""#],
        Provider::OpenAiResponses => {
            &[r#"{"type":"function_call_output""#, r#"{"type":"custom_tool_call_output""#]
        }
        // Without tools it is text.
        Provider::Anthropic => &[r#"{"type":"tool_result""#, r#"{"type":"text","text":"[Tool: "#],
    }
}

/// Up to where a body has to be repeated: the result of the first call that is open in it, or its end.
fn lasting(provider: Provider, body: &[u8], open: usize) -> usize {
    if open == 0 {
        let tail = tails(provider).iter().find(|tail| body.ends_with(tail.as_bytes()));
        let tail = tail.unwrap_or_else(|| panic!("ends strangely: {}", String::from_utf8_lossy(body)));
        return body.len() - tail.len();
    }
    let places: Vec<usize> = memchr::memmem::find_iter(body, MISSING).collect();
    let first = places[places.len() - open];
    let begins = |opener: &&str| memchr::memmem::rfind(&body[..first], opener.as_bytes());
    openers(provider).iter().filter_map(begins).max().unwrap()
}

fn check(seeds: std::ops::Range<u64>) {
    let tools = tools().to_string();
    let (mut compared, mut open_ones) = (0, 0);
    let histories = seeds.end - seeds.start;
    for seed in seeds {
        let history = History::with(seed, Taste { large_images: false, lone_surrogates: true });
        let with_tools = if seed % 4 == 0 { "" } else { &tools };
        let mut view = View::default();
        let mut last: [Option<(Vec<u8>, usize)>; Provider::ALL.len()] = Default::default();
        // All steps of most histories; of long ones some, and always the last ones.
        let stride = history.messages.len().div_ceil(STEPS);
        for (at, message) in history.messages.iter().enumerate() {
            view.append(message);
            if at % stride != seed as usize % stride && at + 2 < history.messages.len() {
                continue;
            }
            for (provider, last) in Provider::ALL.into_iter().zip(&mut last) {
                let options = options(provider, r#"{"max_tokens":100,"stream":true}"#, with_tools);
                let body = view.render(options.clone());
                if at + 1 == history.messages.len() {
                    assert_eq!(body, view.render(options), "the same view gives the same bytes");
                }
                if let Some((before, open)) = last {
                    let (wanted, found) = (lasting(provider, before, *open), common(before, &body));
                    assert!(
                        found >= wanted,
                        "{}: {found} of {wanted} bytes are repeated\n{}\n{}\n{}",
                        provider.as_str(),
                        String::from_utf8_lossy(before),
                        String::from_utf8_lossy(&body),
                        history.describe()
                    );
                    compared += 1;
                    open_ones += u64::from(*open > 0);
                }
                *last = Some((body, view.open_calls()));
            }
        }
    }
    assert!(
        compared > 30 * histories && open_ones > 5 * histories,
        "{compared} bodies, {open_ones} with open calls"
    );
}

macro_rules! each_body_extends_the_last_one {
    ($($name:ident $part:expr;)*) => {$(
        #[test]
        fn $name() {
            check($part * seeds() / PARTS..($part + 1) * seeds() / PARTS);
        }
    )*};
}

each_body_extends_the_last_one! {
    each_body_extends_the_last_one_0 0;
    each_body_extends_the_last_one_1 1;
    each_body_extends_the_last_one_2 2;
    each_body_extends_the_last_one_3 3;
}
