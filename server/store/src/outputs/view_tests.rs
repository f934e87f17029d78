//! What holds of every view, whatever the output.

use super::*;
use crate::outputs::Tally;

fn view(bytes: &[u8], limits: ViewLimits, piece: usize, media_type: &str) -> (View, Counted) {
    let (mut maker, mut tally) = (ViewMaker::new(limits), Tally::default());
    for piece in bytes.chunks(piece.max(1)) {
        maker.push(piece);
        tally.push(piece);
    }
    let counted = tally.finish();
    (maker.finish(&counted, media_type), counted)
}

fn text(bytes: &[u8], limits: ViewLimits) -> (String, bool) {
    let (view, _) = view(bytes, limits, 700, "text/plain");
    (view.text.unwrap(), view.truncated)
}

fn limits(max_line_length: usize, max_bytes: usize, tail_bytes: usize) -> ViewLimits {
    ViewLimits { max_line_length, max_bytes, tail_bytes, part_bytes: 0 }
}

/// Bytes of all kinds: short and long lines, CRLF, no last line end, NUL, what is not UTF-8.
fn bytes(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.usize(..60) {
        match rng.u8(..9) {
            0 => bytes.extend_from_slice(&b"x".repeat(rng.usize(..6000))),
            1 => bytes.extend_from_slice("日本語".repeat(rng.usize(..300)).as_bytes()),
            2 => bytes.extend_from_slice(b"\r\n"),
            3 => bytes.push(0),
            4 => bytes.extend((0..rng.usize(..9)).map(|_| rng.u8(..))),
            5 => bytes.extend_from_slice("🦀é".as_bytes()),
            _ => bytes.extend_from_slice(format!("a line {}\n", rng.u32(..)).as_bytes()),
        }
    }
    bytes
}

#[test]
fn a_view_keeps_its_limits_and_names_the_ref_whatever_the_output() {
    let seed = fastrand::u64(..);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut cut = 0;
    for _ in 0..1500 {
        let bytes = bytes(&mut rng);
        let max_bytes = rng.usize(1024..12_000);
        let limits = limits(rng.usize(2..3000), max_bytes, rng.usize(..=max_bytes / 2));
        let piece = rng.usize(1..9000);
        let (view, counted) = view(&bytes, limits, piece, "text/plain");
        let text = view.text.unwrap();
        let what = format!("seed {seed}: {limits:?}, {} bytes by {piece}:\n{text}", bytes.len());
        assert!(text.len() <= max_bytes, "{} of {max_bytes} bytes: {what}", text.len());
        if !view.truncated {
            assert_eq!(text, String::from_utf8_lossy(&bytes).replace('\0', "\u{FFFD}"), "{what}");
            continue;
        }
        cut += 1;
        let id = counted.id.to_string();
        let (shown, closing) = text.rsplit_once('\n').unwrap_or(("", &text));
        assert!(closing.starts_with("[output cut: ") && closing.ends_with(']'), "{what}");
        assert!(closing.contains(&format!("tool_output_cache {{\"ref_id\":\"{id}\",\"offset\":")), "{what}");
        assert!(closing.contains(&format!("tool_output_cache_grep {{\"ref_id\":\"{id}\"")), "{what}");
        for line in shown.lines() {
            let chars = line.chars().count();
            assert!(chars <= limits.max_line_length || line.starts_with("[… "), "{chars} in a line: {what}");
        }
        // As the bytes come, so the view is.
        assert_eq!(text, self::view(&bytes, limits, 100_000, "text/plain").0.text.unwrap());
    }
    assert!(cut > 300, "{cut}");
}

#[test]
fn the_beginning_is_shown_up_to_a_line_end() {
    let lines: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    let (text, truncated) = text(lines.as_bytes(), limits(2000, 2048, 0));
    assert!(truncated);
    let (shown, closing) = text.rsplit_once('\n').unwrap();
    let count = shown.lines().count();
    assert!(shown.ends_with(&format!("line {count}")), "{text}");
    assert!(closing.contains(&format!("{count} of 5000 lines")), "{closing}");
    assert!(closing.contains(&format!("\"offset\":{count},")), "{closing}");
}

#[test]
fn the_end_is_shown_too_if_it_is_asked_for() {
    let lines: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    let (text, _) = text(lines.as_bytes(), limits(2000, 4096, 1000));
    assert!(text.starts_with("line 1\nline 2\n"), "{text}");
    assert!(text.contains("\nline 5000\n[output cut"), "{text}");
    let gap = text.lines().find(|line| line.starts_with("[… ")).unwrap();
    let left_out: u64 = gap.trim_start_matches("[… ").trim_end_matches(" lines]").parse().unwrap();
    let shown = text.lines().filter(|line| line.starts_with("line ")).count() as u64;
    assert_eq!(shown + left_out, 5000, "{text}");
}

#[test]
fn one_long_line_is_cut_at_both_ends() {
    let line = format!("{}{}", "a".repeat(1 << 20), "z".repeat(1 << 20));
    let (text, truncated) = text(line.as_bytes(), limits(2000, 50 << 10, 1024));
    assert!(truncated && text.starts_with(&"a".repeat(1999)), "{text}");
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap().chars().count(), 2000);
    assert!(text.contains("\"offset\":0,"), "{text}");
}

#[test]
fn a_line_is_as_long_as_it_may_be_and_not_cut() {
    for end in ["", "\n"] {
        let whole = format!("{}{end}", "é".repeat(20));
        assert_eq!(text(whole.as_bytes(), limits(20, 4096, 0)), (whole, false));
        let long = format!("{}{end}", "é".repeat(21));
        let (cut, truncated) = text(long.as_bytes(), limits(20, 4096, 0));
        assert!(truncated && cut.starts_with(&format!("{}…\n[output cut", "é".repeat(19))), "{cut}");
    }
}

#[test]
fn what_is_no_text_is_named_or_becomes_a_part() {
    let png = b"\x89PNG\r\n\x1a\n and so on";
    let (named, counted) = view(png, limits(2000, 4096, 0), 5, "image/png");
    let text = named.text.unwrap();
    assert_eq!(text, format!("[image/png output of {} bytes, not shown; ref={}]", png.len(), counted.id));
    assert!(named.truncated);
    let with_parts = limits(2000, 4096, 0).with_parts(16 << 20);
    let (part, _) = view(png, with_parts, 5, "image/png");
    assert!(part.text.is_none() && !part.truncated);
    let parts: serde_json::Value = serde_json::from_str(part.content.as_str()).unwrap();
    let url = parts[1]["image_url"]["url"].as_str().unwrap();
    let data = url.strip_prefix("data:image/png;base64,").unwrap();
    assert_eq!(BASE64_STANDARD.decode(data).unwrap(), png);
    let (file, _) = view(b"%PDF", with_parts, 5, "application/pdf");
    assert!(file.content.as_str().contains("data:application/pdf;base64,"), "{}", file.content.as_str());
    // Nobody takes a part of something else, nor one that is too large.
    assert!(view(png, with_parts, 5, "application/zip").0.text.is_some());
    let small = ViewLimits { part_bytes: 4, ..with_parts };
    assert!(view(png, small, 5, "image/png").0.text.is_some());
}
