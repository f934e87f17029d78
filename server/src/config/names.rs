//! Names of keys in the environment, and suggestions for unknown names.

use super::error::{Origin, Problem};
use super::keys::{KEYS, Key, OTHER_VARIABLES};
use super::older::{GONE, RENAMED};

/// Prefix of the environment variables.
pub(super) const PREFIX: &str = "CONTEXTSTORE_";

/// Returns the variable of a key: `limits.message_bytes` is `CONTEXTSTORE_LIMITS__MESSAGE_BYTES`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Returns the key of a variable.
pub(super) fn key_of(variable: &str) -> Option<usize> {
    KEYS.iter().position(|key| self::variable(key.name) == variable)
}

/// Returns the key with this name.
pub(super) fn find(name: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.name == name)
}

/// Splits an entry of the file into its table and its name in that table.
pub(super) fn find_in_table(name: &str) -> Option<(usize, &str)> {
    let tables = KEYS.iter().enumerate().filter(|(_, key)| key.kind.is_map());
    tables.filter_map(|(at, key)| Some((at, name.strip_prefix(key.name)?.strip_prefix('.')?))).next()
}

/// Returns true if the name is a section of keys.
pub(super) fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|below| below.starts_with('.')))
}

pub(super) fn section_of(key: &Key) -> Option<&'static str> {
    key.name.split_once('.').map(|(section, _)| section)
}

/// Returns true for variables that Kubernetes sets for a service named `contextstore` or `contextstore-…`. They are
/// not mistakes.
pub(super) fn is_of_kubernetes(variable: &str, value: &str) -> bool {
    let name = variable.strip_prefix(PREFIX).map(|rest| format!("_{rest}")).unwrap_or_default();
    let is_link =
        name.contains("_PORT_") && (name.contains("_TCP") || name.contains("_UDP") || name.contains("_SCTP"));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || is_link
        || (name.ends_with("_PORT") && value.contains("://"))
}

/// Returns the problem for an unknown key in the file.
pub(super) fn unknown_key(origin: Origin, key: &str) -> Problem {
    unknown(origin, key, key, str::to_owned, &[])
}

/// Returns the problem for an unknown environment variable.
pub(super) fn unknown_variable(name: &str) -> Problem {
    let key = name.strip_prefix(PREFIX).unwrap_or(name).to_lowercase().replace("__", ".");
    let others: Vec<_> = OTHER_VARIABLES.iter().map(|(name, _)| *name).collect();
    unknown(Origin::Environment(name.to_owned()), &key, &key, variable, &others)
}

/// Returns the problem for an unknown name. `spell` writes a key the way that its place requires.
fn unknown(origin: Origin, written: &str, key: &str, spell: fn(&str) -> String, others: &[&str]) -> Problem {
    let last = key.rsplit('.').next().unwrap_or(key);
    let written = written.to_owned();
    if let Some((_, now)) = RENAMED.iter().find(|(old, _)| *old == last || *old == key) {
        return Problem::Renamed { origin, key: written, now: spell(now) };
    }
    if let Some((_, why)) = GONE.iter().find(|(old, _)| *old == last) {
        return Problem::Gone { origin, key: written, why };
    }
    let keys = KEYS.iter().map(|known| (distance(key, last, known.name), spell(known.name)));
    let others = others.iter().map(|name| (edits(&spell(key), name), (*name).to_owned()));
    let nearest = keys.chain(others).min_by_key(|(distance, _)| *distance);
    let close = nearest.filter(|(distance, _)| *distance <= (key.len() / 3).max(1));
    Problem::Unknown { origin, key: written, nearest: close.map(|(_, name)| name) }
}

/// Returns the distance from a name to a key: of the whole name, or of its last part in the wrong section; `None` if
/// the name lies below the key.
fn distance(key: &str, last: &str, known: &str) -> usize {
    if key.strip_prefix(known).is_some_and(|below| below.starts_with('.')) {
        return 0;
    }
    let by_last = edits(last, known.rsplit('.').next().unwrap_or(known));
    let by_last = if by_last <= last.len() / 3 { 1 + by_last } else { usize::MAX };
    edits(key, known).min(by_last)
}

/// Returns the edit distance: the fewest characters to insert, remove or replace.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
