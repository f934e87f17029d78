//! Names in a text that cannot be guessed: addresses, paths, ids, constants.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

/// An address, a path with a folder, the name of a file, an id with letters and digits, a number behind `#`, a constant.
const NAME: &str = r"(?x-u)
    [a-z]+:// [\w.~:/?\#@!$&*+,;=%-]+
    | [\w.~@-]* / [\w.@-]+ (?: / [\w.@-]* )+ | [\w-]+ / [\w.-]+ \. [a-z]{1,5} \b | [~.]{0,2} / [\w.-]*[a-zA-Z][\w.-]*
    | \b [\w-]+ \. (?: [a-z]{2,4} | [a-z]{1,4}[0-9] | [ch] ) \b
    | \b [A-Za-z][A-Za-z_-]* [0-9][\w.-]* | \b [0-9]+ [A-Za-z_-][\w.-]*[0-9][\w-]* | \b [0-9]{8,} \b
    | \# [0-9]+ | \b [0-9]+ \. [0-9]+ \. [0-9]+ [\w.:]*
    | \b [A-Z]{4,} \b | \b [A-Za-z]+ _ \w+";

#[expect(clippy::expect_used, reason = "the pattern is constant, and tests build it")]
static NAMES: LazyLock<Regex> = LazyLock::new(|| Regex::new(NAME).expect("a valid pattern"));

/// Returns where the first name of a text stands.
pub(super) fn first_name(text: &str) -> Option<usize> {
    #[cfg(test)]
    super::tests::work(text.len());
    NAMES.find(text).map(|found| found.start())
}

/// Returns whether a text has a name or a number in it.
pub(super) fn is_specific(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) || first_name(text).is_some()
}
