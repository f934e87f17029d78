//! Parsers of values: each returns the value and its display form, or the accepted values.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::listen::{self, Listen};
use super::masking;
use super::value::{self, Raw, Shown, none, optional, quoted, text};
use crate::mask::{CustomRule, Rule};
use crate::telemetry;

/// A display form and a value, or the accepted values.
pub(super) type Parsed<T> = Result<(Shown, T), String>;

pub(super) fn path(raw: &Raw) -> Parsed<PathBuf> {
    let path = match raw {
        Raw::Path(path) => path.clone(),
        Raw::Text(_) | Raw::Plain(_) | Raw::List(_) => PathBuf::from(text(raw)?),
    };
    let lossy = path.to_string_lossy();
    if path.as_os_str().is_empty() || lossy.contains('\0') {
        return Err("must be a path".to_owned());
    }
    Ok((Shown::text(lossy), path))
}

pub(super) fn file(raw: &Raw) -> Parsed<Option<PathBuf>> {
    let path = optional(text(raw)?, |text| {
        let is_path = !text.is_empty() && !text.contains('\0');
        is_path.then(|| PathBuf::from(text)).ok_or_else(|| "must be a path".to_owned())
    })?;
    Ok((path.as_ref().map_or_else(none, |path| Shown::text(path.to_string_lossy())), path))
}

pub(super) fn addresses(raw: &Raw) -> Parsed<Vec<Listen>> {
    let list = value::addresses(raw)?;
    let texts: Vec<_> = list.iter().map(Listen::to_string).collect();
    Ok((plain_list(&texts), list))
}

pub(super) fn address(raw: &Raw) -> Parsed<Option<SocketAddr>> {
    let address = optional(text(raw)?, |text| listen::loopback(text).map_err(|error| error.to_string()))?;
    Ok((address.map_or_else(none, |address| Shown::text(address.to_string())), address))
}

pub(super) fn filter(raw: &Raw) -> Parsed<String> {
    let text = text(raw)?;
    telemetry::check_filter(text).map_err(|error| format!("cannot be read: {error}"))?;
    Ok((Shown::text(text), text.to_owned()))
}

pub(super) fn name(raw: &Raw) -> Parsed<Option<String>> {
    let is_name = |text: &str| !text.trim().is_empty() && !text.contains(char::is_control);
    checked(raw, is_name, || "must be a name".to_owned())
}

/// Parses an optional text that must pass a check.
pub(super) fn checked(
    raw: &Raw,
    check: impl Fn(&str) -> bool,
    wrong: impl Fn() -> String,
) -> Parsed<Option<String>> {
    let read = optional(text(raw)?, |text| check(text).then(|| text.to_owned()).ok_or_else(&wrong))?;
    Ok((read.as_ref().map_or_else(none, Shown::text), read))
}

/// Returns true for a valid name of an environment variable.
pub(super) fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns true for a text that is not blank and within the limit.
pub(super) fn is_text(text: &str, most: usize) -> bool {
    !text.trim().is_empty() && text.len() <= most && !text.contains('\0')
}

pub(super) fn texts(raw: &Raw) -> Parsed<Vec<String>> {
    let texts = value::texts(raw)?;
    Ok((plain_list(&texts), texts))
}

pub(super) fn table(raw: &Raw) -> Parsed<Vec<(String, u64)>> {
    let table = value::table(raw)?;
    let yaml: Vec<_> = table.iter().map(|(name, tokens)| format!("{}: {tokens}", quoted(name))).collect();
    let json: serde_json::Map<_, _> =
        table.iter().map(|(name, tokens)| (name.clone(), (*tokens).into())).collect();
    let shown = if table.is_empty() {
        Shown::plain("none", json)
    } else {
        Shown::plain(format!("{{{}}}", yaml.join(", ")), json)
    };
    Ok((shown, table))
}

pub(super) fn switches(raw: &Raw) -> Parsed<Vec<(Rule, bool)>> {
    let switches = masking::switches(raw)?;
    let words = switches.iter().map(|(rule, on)| (rule.name(), if *on { "on" } else { "off" }));
    Ok((value::map(words), switches))
}

pub(super) fn patterns(raw: &Raw) -> Parsed<Vec<CustomRule>> {
    let rules = masking::patterns(raw)?;
    let shown = value::map(rules.iter().map(|rule| (rule.name.as_str(), rule.pattern.as_str())));
    Ok((shown, rules))
}

/// Parses the URL of a hook. Errors do not repeat it, because it may hold a secret.
pub(super) fn call(raw: &Raw, wrong: impl Fn() -> String) -> Parsed<Option<String>> {
    let url = optional(text(raw)?, |text| value::called(text).ok_or_else(&wrong))?;
    Ok((url.as_ref().map_or_else(none, Shown::text), url))
}

/// Parses the URL of an API. Errors do not repeat it, because it may hold a password.
pub(super) fn base_url(raw: &Raw, wrong: impl Fn() -> String) -> Parsed<String> {
    let url = value::url(text(raw)?).ok_or_else(wrong)?;
    Ok((Shown::text(&url), url))
}

fn plain_list(texts: &[String]) -> Shown {
    let yaml: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    Shown::plain(format!("[{}]", yaml.join(", ")), texts.to_vec())
}
