//! Counts of tokens: the exact counters against tiktoken, the fitted one against the exact, on texts that it was not
//! fitted to. `tests/tools/token_table.py` made the counts in the corpus.

use contextstore_base::model::TokenCounter;
use contextstore_policy::context::count_text;

struct Text {
    kind: String,
    text: String,
    o200k: u64,
    cl100k: u64,
}

fn corpus() -> Vec<Text> {
    let path = test_support::repository().join("tests/data/tokens/corpus.jsonl");
    let lines = std::fs::read_to_string(path).unwrap();
    let read = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        Text {
            kind: value["kind"].as_str().unwrap().to_owned(),
            text: value["text"].as_str().unwrap().to_owned(),
            o200k: value["o200k"].as_u64().unwrap(),
            cl100k: value["cl100k"].as_u64().unwrap(),
        }
    };
    lines.split_terminator('\n').map(read).collect()
}

#[test]
fn exact_counters_count_as_tiktoken_does() {
    let corpus = corpus();
    assert!(corpus.len() > 80);
    for Text { text, o200k, cl100k, .. } in corpus {
        assert_eq!(count_text(TokenCounter::O200k, &text), o200k, "{text}");
        assert_eq!(count_text(TokenCounter::Cl100k, &text), cl100k, "{text}");
    }
}

#[test]
fn the_fitted_counter_is_near_on_texts_it_was_not_fitted_to() {
    for kind in ["english", "code", "japanese"] {
        let texts: Vec<_> = corpus().into_iter().filter(|text| text.kind == kind).collect();
        assert!(texts.len() >= 18, "{kind}");
        let estimates: Vec<u64> =
            texts.iter().map(|text| count_text(TokenCounter::Fitted, &text.text)).collect();
        let exact: u64 = texts.iter().map(|text| text.o200k).sum();
        let total = estimates.iter().sum::<u64>() as f64 / exact as f64 - 1.0;
        assert!(total.abs() < 0.1, "{kind}: the total is {:+.1} % off", total * 100.0);
        let mut errors: Vec<f64> = estimates
            .iter()
            .zip(&texts)
            .map(|(estimate, text)| (*estimate as f64 / text.o200k as f64 - 1.0).abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        // Of so few, all but the worst one.
        let p95 = errors[(errors.len() * 95).div_ceil(100) - 1];
        assert!(p95 < 0.25, "{kind}: one message in twenty is {:.1} % off", p95 * 100.0);
    }
}

/// Counts only ever grow with what is counted: nothing makes a message free, and nothing overflows.
#[test]
fn every_counter_takes_any_text() {
    let texts = [
        "",
        " ",
        "\n",
        "\u{0}\u{7f}\u{ffff}\u{10ffff}",
        "'s't're",
        "\u{200d}\u{fe0f}\u{1f3fb}",
        "ａＢ１！\u{3000}ﾊﾝｶｸ",
        "﷽\u{301}\u{e0001}",
    ];
    for counter in TokenCounter::ALL {
        for text in texts {
            let once = count_text(counter, text);
            assert!(once <= 4 * text.len() as u64, "{}: {text:?} has {once}", counter.as_str());
            assert!(count_text(counter, &text.repeat(1000)) <= 4 * 1000 * text.len() as u64);
        }
        let long = "The quick brown fox jumps over the lazy dog. ".repeat(20_000);
        let tokens = count_text(counter, &long);
        assert!((150_000..300_000).contains(&tokens), "{}: {tokens}", counter.as_str());
    }
}
