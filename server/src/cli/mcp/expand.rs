//! Answers of the tools: bounded text for a model, with a hint how to read on.

use std::collections::VecDeque;
use std::fmt::Write as _;

use contextstore_client::{Error, Grep, Outputs, ReadOutput, Task};
use serde_json::Value;

/// Longest answer in bytes, without the hint at its end.
const MOST: usize = 50 << 10;
/// Longest line in characters; an answer has room for several.
const LINE: u32 = 2000;

/// An answer, or an error.
pub(super) type Told = Result<String, String>;

fn refused(error: Error) -> String {
    let words = error.to_string();
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// Returns numbered lines of an output.
pub(super) async fn read(outputs: &Outputs, ref_id: &str, offset: u64, limit: u64) -> Told {
    let known = outputs.stat(ref_id).await.map_err(refused)?.r#ref.unwrap_or_default();
    let lines = known.line_count;
    if limit == 0 {
        return Err("limit must be at least 1.".to_owned());
    }
    if offset >= lines {
        return Ok(format!("[the output has {lines} lines; there is nothing behind line {offset}]"));
    }
    let asked = ReadOutput { offset, limit, max_line_length: LINE };
    let mut chunks = outputs.read(ref_id, asked);
    let mut text = Vec::new();
    while let Some(chunk) = chunks.try_next().await.map_err(refused)? {
        text.extend_from_slice(&chunk);
        if text.len() > MOST {
            break;
        }
    }
    whole_lines(&mut text);
    let shown = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    let last = offset + shown;
    if last < lines {
        let _ = write!(
            text,
            "[lines {} to {last} of {lines}; call again with offset={last} for more]",
            offset + 1
        );
    } else {
        let _ = write!(text, "[lines {} to {last} of {lines}: the end]", offset + 1);
    }
    Ok(text)
}

/// Cuts an answer to the limit at the end of a line.
fn whole_lines(text: &mut Vec<u8>) {
    if text.len() > MOST {
        let end = text[..MOST].iter().rposition(|byte| *byte == b'\n').map_or(MOST, |at| at + 1);
        text.truncate(end);
    }
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
}

/// Returns matching lines by output.
pub(super) async fn grep(outputs: &Outputs, grep: Grep) -> Told {
    let most = grep.max_matches;
    let mut batches = outputs.grep(grep);
    let (mut text, mut of, mut matches, mut limited, mut full) =
        (String::new(), String::new(), 0, false, false);
    while let Some(batch) = batches.try_next().await.map_err(refused)? {
        for line in batch.lines {
            if text.len() > MOST {
                full = true;
                break;
            }
            if line.ref_id != of {
                let _ = writeln!(text, "{}:", line.ref_id);
                of.clone_from(&line.ref_id);
            } else if line.gap_before {
                text.push_str("--\n");
            }
            let mark = if line.is_match { ':' } else { '-' };
            let _ = writeln!(text, "{:6}{mark}\t{}", line.line_number, line.text);
        }
        if full {
            break;
        }
        matches = batch.matches.unwrap_or(matches);
        limited |= batch.limited;
    }
    if full {
        text.push_str("[there is more than can be shown at once; a narrower pattern finds less]");
    } else if limited {
        let _ = write!(text, "[the first {most} matching lines; there may be more]");
    } else {
        let _ = write!(text, "[{matches} matching lines in all]");
    }
    Ok(text)
}

/// Returns the newest plan.
pub(super) async fn plan(task: &Task) -> Told {
    let Some(plan) = task.latest_plan().await.map_err(refused)? else {
        return Ok("There is no plan yet.".to_owned());
    };
    let content: Value = serde_json::from_str(&plan.plan_content_json).unwrap_or_default();
    let content = match content.as_str() {
        Some(text) => text.to_owned(),
        None => serde_json::to_string_pretty(&content).unwrap_or(plan.plan_content_json),
    };
    Ok(cut(format!("Plan {} ({}):\n{content}", plan.id, plan.plan_type)))
}

/// Returns the newest summaries, oldest first.
pub(super) async fn summaries(task: &Task, limit: usize) -> Told {
    let mut newest: VecDeque<String> = VecDeque::new();
    let mut bytes = 0;
    let mut records = task.summaries(0);
    while let Some(record) = records.try_next().await.map_err(refused)? {
        let summary: Value = serde_json::from_slice(&record).unwrap_or_default();
        // The messages of an undone summary are in the conversation again.
        if summary["undone"] == true {
            continue;
        }
        let (text, from, to) = (&summary["summary"], &summary["start_seq"], &summary["end_seq"]);
        let told = format!("Messages {from} to {to}:\n{}\n", text.as_str().unwrap_or_default());
        bytes += told.len();
        newest.push_back(told);
        while newest.len() > limit.max(1) || (bytes > MOST && newest.len() > 1) {
            bytes -= newest.pop_front().map_or(0, |old| old.len());
        }
    }
    if newest.is_empty() {
        return Ok("There are no summaries: the whole conversation is in view.".to_owned());
    }
    Ok(cut(newest.into_iter().collect::<Vec<_>>().join("\n")))
}

/// Limits a count to what one answer can hold.
fn cut(mut text: String) -> String {
    if text.len() > MOST {
        text.truncate(text.floor_char_boundary(MOST));
        text.push_str("\n[the rest is left out]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_a_whole_line() {
        let mut text = "     1\tabc\n".repeat(MOST).into_bytes();
        whole_lines(&mut text);
        assert!(text.len() <= MOST && text.ends_with(b"abc\n"));
        let mut text = b"     1\tabc".to_vec();
        whole_lines(&mut text);
        assert_eq!(text, b"     1\tabc\n");
        let text = cut("é".repeat(MOST));
        assert!(text.len() < MOST + 32 && text.ends_with("é\n[the rest is left out]"));
    }
}
