//! How the output of a tool shows that something went wrong, or that all is well. One automaton for each, over the bytes
//! of a line.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Whether a text says that something went wrong.
pub(super) fn is_error(text: &str) -> bool {
    error_at(text).is_some()
}

/// Where a line says so.
pub(super) fn error_at(line: &str) -> Option<usize> {
    let Some(found) = WRONG.find(line) else { return code_at(line) };
    (!NOTHING_WRONG.is_match(line)).then_some(found.start())
}

/// Where a line has the code of an error, as compilers write it: E0308.
fn code_at(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    memchr::memchr_iter(b'E', bytes).find(|&at| {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        (3..=5).contains(&digits) && !is_word(bytes.get(at + 1 + digits)) && !is_word(before)
    })
}

/// Whether a text says that all went well.
pub(super) fn is_success(text: &str) -> bool {
    SUCCESS.is_match(text)
}

/// Whether a line is of a program rather than of a report.
pub(super) fn is_code(line: &str) -> bool {
    const STARTS: &str = "// if return throw raise import use fn def const let } except catch";
    let line = line.trim();
    let first = line.split(' ').next().unwrap_or_default();
    line.ends_with(['{', ';', '(', '}']) && !line.contains(": ")
        || STARTS.split(' ').any(|start| start == first)
}

static WRONG: LazyLock<AhoCorasick> = LazyLock::new(|| automaton(WRONG_WORDS));
static NOTHING_WRONG: LazyLock<AhoCorasick> = LazyLock::new(|| automaton(NOTHING_WORDS));
static SUCCESS: LazyLock<AhoCorasick> = LazyLock::new(|| automaton(SUCCESS_WORDS));

fn automaton(words: &[&str]) -> AhoCorasick {
    #[expect(clippy::expect_used, reason = "the tables are constants, and a test builds them")]
    AhoCorasick::new(words).expect("a table of a few dozen words")
}

#[rustfmt::skip]
const WRONG_WORDS: &[&str] = &[
    "error:", "error[", "error ", " error", "ERROR", "Error:", "Error ", "rror(", "FATAL", "fatal",
    "FAILED", "FAIL ", "FAIL:", "--- FAIL", "failed", "Failed", "failure", "Failure", "panicked",
    "panic:", "Traceback", "xception", "exit code", "exit status", "exited with", "Segmentation fault",
    "segfault", "refused", "denied", "timed out", "imeout exceeded", "SQLSTATE", "ORA-", "npm ERR!",
    "npm error", "undefined reference", "not found", "cannot ", "Cannot ", "CRITICAL", "CRIT ", "SEVERE",
    "unreachable", "HTTP 4", "HTTP 5", "HTTP/1.1 4", "HTTP/1.1 5", "status 4", "status 5", "status=4",
    "status=5", "status code 4", "status code 5", "errno", "rejected", "aborted", "deadlock", "violates",
    "out of memory", "OOMKilled", "CrashLoop", "code=E", "ERR_", "ERR-", "AssertionError", "assertion",
    "unexpected", "invalid", "conflict", "エラー", "失敗", "例外", "異常", "拒否", "見つかりません", "タイムアウト", "障害",
    "error\"", "error_", "errorCode", "nable to ", "ould not ", "BackOff", "overflow", "mismatch", "missing", "unreadable",
    "corrupt", "❯ ", "✗", "✖", "✘", "違反", "不一致", "できません", "読めません", "破損", "欠落", "不正",
];

#[rustfmt::skip]
const NOTHING_WORDS: &[&str] = &[
    "0 failed", "0 errors", "no errors", "0 failures", "exit code 0", "exit code: 0", "errors: 0", "エラーなし", "失敗 0",
];

#[rustfmt::skip]
const SUCCESS_WORDS: &[&str] = &[
    "passed", "0 failed", "success", "Success", "SUCCESS", "Finished", "exit code 0", "all tests",
    "All tests", "up to date", "成功", "完了", "合格", "ok.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_reports_that_all_is_well() {
        for (line, there) in [
            ("error[E0308]: mismatched types", true),
            ("2026-01-01 12:00:00 ERROR payment gateway said no", true),
            ("test result: ok. 12 passed; 0 failed; 0 ignored", false),
            ("E1042 connection reset by peer", true),
            ("GE1042 E10425678 E1", false),
            ("接続エラーが発生しました", true),
            ("all fine", false),
        ] {
            assert_eq!(is_error(line), there, "{line}");
        }
        assert!(is_success("12 passed"));
        assert!(is_code("return Err(error);") && !is_code("returned an error"));
    }
}
