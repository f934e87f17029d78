//! Values as they are given and as they are displayed.

use std::path::PathBuf;

use serde_json::Value;

use super::listen::Listen;

/// A value as it is given, before its key parses it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// Text from the environment, or quoted or plain text in the file.
    Text(String),
    /// A number or a boolean in the file.
    Plain(String),
    /// A list of texts.
    List(Vec<String>),
    /// A path, which need not be UTF-8.
    Path(PathBuf),
}

/// A value for display.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The YAML form, valid in the file.
    pub yaml: String,
    /// The JSON form: sizes in bytes, no value as null.
    pub json: Value,
}

impl Shown {
    pub(super) fn plain(yaml: impl Into<String>, json: impl Into<Value>) -> Self {
        Self { yaml: yaml.into(), json: json.into() }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { yaml: quoted(&text), json: Value::String(text) }
    }
}

/// Returns a text escaped for the file: `$` is doubled where it would start a variable.
pub(super) fn quoted(text: &str) -> String {
    let text = text.replace("${", "$${");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=".contains(c);
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(is_plain)
        && !text.ends_with(':')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if safe { text } else { Value::String(text).to_string() }
}

pub(super) fn none() -> Shown {
    Shown::plain("none", Value::Null)
}

/// Returns a map of names to texts, or no value if it is empty.
pub(super) fn map<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Shown {
    let (mut yaml, mut json) = (Vec::new(), serde_json::Map::new());
    for (name, text) in entries {
        yaml.push(format!("{name}: {}", quoted(text)));
        json.insert(name.to_owned(), text.into());
    }
    let written = if yaml.is_empty() { "none".to_owned() } else { format!("{{{}}}", yaml.join(", ")) };
    Shown::plain(written, json)
}

pub(super) fn optional<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == "none" { Ok(None) } else { read(text).map(Some) }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    // `parse` accepts a sign, the configuration does not.
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| "must be a whole number".to_owned())
}

/// Parses the URL of a service and removes a slash at its end.
pub(super) fn url(text: &str) -> Option<String> {
    let url: http::Uri = text.parse().ok()?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let host = url.authority().filter(|host| !host.as_str().contains('@') && !host.host().is_empty());
    let plain = is_http && host.is_some() && url.query().is_none() && !text.contains('#');
    plain.then(|| text.trim_end_matches('/').to_owned())
}

/// Returns a single value of any type.
pub(super) fn scalar(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Text(text) | Raw::Plain(text) => Ok(text),
        Raw::List(_) | Raw::Path(_) => Err("must be one value, not a list".to_owned()),
    }
}

/// Returns a single text value. YAML reads an unquoted `data_dir: 007` as a number and loses the zeros, so it is
/// refused.
pub(super) fn text(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Plain(text) => Err(format!("must be text: write it in quotes if {text} is meant")),
        Raw::Text(_) | Raw::List(_) | Raw::Path(_) => scalar(raw),
    }
}

pub(super) fn addresses(raw: &Raw) -> Result<Vec<Listen>, String> {
    let items: Vec<&str> = match raw {
        Raw::List(items) => items.iter().map(String::as_str).collect(),
        Raw::Text(_) | Raw::Plain(_) | Raw::Path(_) => {
            let text = text(raw)?;
            if text.is_empty() { Vec::new() } else { text.split(',').map(str::trim).collect() }
        }
    };
    let mut list: Vec<Listen> = Vec::new();
    for item in items {
        let address = item.parse().map_err(|error| format!("has {item:?}, which {error}"))?;
        let is_any_port = matches!(address, Listen::Tcp(address) if address.port() == 0);
        if list.contains(&address) && !is_any_port {
            return Err(format!("has {address} twice"));
        }
        list.push(address);
    }
    Ok(list)
}

/// Parses a list of texts; a single value is split at commas.
pub(super) fn texts(raw: &Raw) -> Result<Vec<String>, String> {
    match raw {
        Raw::List(items) => Ok(items.clone()),
        Raw::Text(_) | Raw::Plain(_) | Raw::Path(_) => {
            let text = text(raw)?;
            let items = text.split(',').map(|item| item.trim().to_owned());
            Ok(if text.is_empty() { Vec::new() } else { items.collect() })
        }
    }
}

/// Parses names with a number from 1: `name=number`, each name once.
pub(super) fn table(raw: &Raw) -> Result<Vec<(String, u64)>, String> {
    let items = if matches!(raw, Raw::Text(text) if text == "none") { Vec::new() } else { texts(raw)? };
    let mut table: Vec<(String, u64)> = Vec::new();
    for item in items {
        let (name, number) =
            item.rsplit_once('=').ok_or_else(|| format!("has {item:?}, which is no NAME=NUMBER"))?;
        let (name, number) = (name.trim(), count(number.trim()).ok().filter(|number| *number > 0));
        let number = number.ok_or_else(|| format!("has {item:?}, whose number is not a whole one from 1"))?;
        if name.is_empty() || name.contains(char::is_control) {
            return Err(format!("has {item:?}, which has no name"));
        }
        if table.iter().any(|(other, _)| other == name) {
            return Err(format!("has {name:?} twice"));
        }
        table.push((name.to_owned(), number));
    }
    table.sort_unstable();
    Ok(table)
}

/// Parses the URL of a hook.
pub(super) fn called(text: &str) -> Option<String> {
    let url: http::Uri = text.parse().ok()?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let host = url.authority().filter(|host| !host.as_str().contains('@') && !host.host().is_empty());
    (is_http && host.is_some() && !text.contains('#')).then(|| text.to_owned())
}
