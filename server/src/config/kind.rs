//! What a key takes: reading a value into its field, and telling the value and the range.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::listen::{self, Listen};
use super::{Config, units};
use crate::infra::telemetry;

/// What a value can be, with the field that it goes to.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Path {
        set: fn(&mut Config, PathBuf),
    },
    Addresses {
        set: fn(&mut Config, Vec<Listen>),
    },
    Address {
        set: fn(&mut Config, Option<SocketAddr>),
    },
    Word {
        words: &'static [Word],
    },
    Bytes {
        least: u64,
        most: u64,
        set: fn(&mut Config, u64),
    },
    Count {
        least: u64,
        most: u64,
        set: fn(&mut Config, u64),
    },
    Tokens {
        set: fn(&mut Config, Option<u64>),
    },
    Time {
        least: Duration,
        most: Duration,
        set: fn(&mut Config, Duration),
    },
    Share {
        set: fn(&mut Config, Option<f64>),
    },
    Filter {
        set: fn(&mut Config, String),
    },
    /// A path that need not be given.
    File {
        set: fn(&mut Config, Option<PathBuf>),
    },
    /// Any text that need not be given.
    Name {
        set: fn(&mut Config, Option<String>),
    },
    /// The name of a variable. What is refused is not repeated: it may be the key that the variable should hold.
    Variable {
        set: fn(&mut Config, Option<String>),
    },
    /// Where something is served over HTTP. What is refused is not repeated: it may hold a password.
    Url {
        set: fn(&mut Config, String),
    },
}

/// A word with what it sets.
type Word = (&'static str, fn(&mut Config));

/// A value as it was given, before its key is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// Text: of the environment, or quoted or plain in the file.
    Text(String),
    /// A number or a truth value of the file.
    Plain(String),
    /// A list of texts.
    List(Vec<String>),
    /// A path that may be no text.
    Path(PathBuf),
}

/// A value as it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// As it could stand in the file.
    pub yaml: String,
    /// For programs: sizes as bytes, none as null.
    pub json: Value,
}

impl Shown {
    fn plain(yaml: impl Into<String>, json: impl Into<Value>) -> Self {
        Self { yaml: yaml.into(), json: json.into() }
    }

    fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { yaml: quoted(&text), json: Value::String(text) }
    }
}

/// A text so that the file would give it back: `$` is doubled where it would name a variable.
fn quoted(text: &str) -> String {
    let text = text.replace("${", "$${");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=".contains(c);
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(is_plain)
        && !text.ends_with(':')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if safe { text } else { Value::String(text).to_string() }
}

impl Kind {
    /// Reads a value into its field; answers how it is told, or what it must be.
    pub(super) fn take(&self, config: &mut Config, raw: &Raw) -> Result<Shown, String> {
        match self {
            Self::Path { set } => {
                let path = match raw {
                    Raw::Path(path) => path.clone(),
                    Raw::Text(_) | Raw::Plain(_) | Raw::List(_) => PathBuf::from(text(raw)?),
                };
                let lossy = path.to_string_lossy();
                if path.as_os_str().is_empty() || lossy.contains('\0') {
                    return Err("must be a path".to_owned());
                }
                let shown = Shown::text(lossy);
                set(config, path);
                Ok(shown)
            }
            Self::Addresses { set } => {
                let list = addresses(raw)?;
                let texts: Vec<_> = list.iter().map(Listen::to_string).collect();
                let yaml: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                set(config, list);
                Ok(Shown::plain(format!("[{}]", yaml.join(", ")), texts))
            }
            Self::Address { set } => {
                let address =
                    optional(text(raw)?, |text| listen::loopback(text).map_err(|error| error.to_string()))?;
                set(config, address);
                Ok(address.map_or_else(none, |address| Shown::text(address.to_string())))
            }
            Self::Word { words } => {
                let text = text(raw)?;
                let wrong = || format!("must be {}, not {text:?}", self.range());
                let (word, set) = words.iter().find(|(word, _)| *word == text).ok_or_else(wrong)?;
                set(config);
                Ok(Shown::text(*word))
            }
            Self::Bytes { least, most, set } => {
                let bytes = units::bytes(scalar(raw)?)?;
                self.within(*least <= bytes && bytes <= *most)?;
                set(config, bytes);
                Ok(Shown::plain(units::show_bytes(bytes), bytes))
            }
            Self::Count { least, most, set } => {
                let count = count(scalar(raw)?)?;
                self.within(*least <= count && count <= *most)?;
                set(config, count);
                Ok(Shown::plain(count.to_string(), count))
            }
            Self::Tokens { set } => {
                let tokens = optional(scalar(raw)?, count)?;
                self.within(tokens != Some(0))?;
                set(config, tokens);
                Ok(tokens.map_or_else(none, |tokens| Shown::plain(tokens.to_string(), tokens)))
            }
            Self::Time { least, most, set } => {
                let time = units::duration(scalar(raw)?)?;
                self.within(*least <= time && time <= *most)?;
                set(config, time);
                let shown = units::show_duration(time);
                Ok(Shown::plain(shown.clone(), shown))
            }
            Self::Share { set } => {
                let wrong = |_| format!("must be {}", self.range());
                let share = optional(scalar(raw)?, |text| text.parse::<f64>().map_err(wrong))?;
                self.within(share.is_none_or(|share| share > 0.0 && share <= 1.0))?;
                set(config, share);
                Ok(share.map_or_else(none, |share| Shown::plain(share.to_string(), share)))
            }
            Self::Filter { set } => {
                let text = text(raw)?;
                telemetry::check_filter(text).map_err(|error| format!("cannot be read: {error}"))?;
                set(config, text.to_owned());
                Ok(Shown::text(text))
            }
            Self::File { set } => {
                let path = optional(text(raw)?, |text| {
                    let is_path = !text.is_empty() && !text.contains('\0');
                    is_path.then(|| PathBuf::from(text)).ok_or_else(|| "must be a path".to_owned())
                })?;
                let shown = path.as_ref().map_or_else(none, |path| Shown::text(path.to_string_lossy()));
                set(config, path);
                Ok(shown)
            }
            Self::Name { set } => {
                let name = optional(text(raw)?, |text| {
                    let is_name = !text.trim().is_empty() && !text.contains(char::is_control);
                    is_name.then(|| text.to_owned()).ok_or_else(|| "must be a name".to_owned())
                })?;
                let shown = name.as_ref().map_or_else(none, Shown::text);
                set(config, name);
                Ok(shown)
            }
            Self::Variable { set } => {
                let name = optional(text(raw)?, |text| {
                    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    is_name.then(|| text.to_owned()).ok_or_else(|| format!("must be {}", self.range()))
                })?;
                let shown = name.as_ref().map_or_else(none, Shown::text);
                set(config, name);
                Ok(shown)
            }
            Self::Url { set } => {
                let url = url(text(raw)?).ok_or_else(|| format!("must be {}", self.range()))?;
                let shown = Shown::text(&url);
                set(config, url);
                Ok(shown)
            }
        }
    }

    /// The values that are taken, in words.
    pub(super) fn range(&self) -> String {
        match self {
            Self::Path { .. } => "a path".to_owned(),
            Self::Addresses { .. } => "a list of `unix:PATH` and `tcp:HOST:PORT`, on loopback".to_owned(),
            Self::Address { .. } => "`HOST:PORT` on loopback, or `none`".to_owned(),
            Self::Word { words } => {
                let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
                match words.split_last() {
                    Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                    Some(_) | None => words.concat(),
                }
            }
            Self::Bytes { least: 0, most: u64::MAX, .. } => "a size".to_owned(),
            Self::Bytes { least, most, .. } => {
                format!("a size from {} to {}", units::show_bytes(*least), units::show_bytes(*most))
            }
            Self::Count { least, most, .. } => format!("a number from {least} to {most}"),
            Self::Tokens { .. } => "a number from 1, or `none`".to_owned(),
            Self::Time { least, most, .. } => {
                format!("a time from {} to {}", units::show_duration(*least), units::show_duration(*most))
            }
            Self::Share { .. } => "a number over 0 and at most 1, or `none`".to_owned(),
            Self::Filter { .. } => {
                "`off`, `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,contextstore=debug`"
                    .to_owned()
            }
            Self::File { .. } => "a path, or `none`".to_owned(),
            Self::Name { .. } => "a name, or `none`".to_owned(),
            Self::Variable { .. } => "the name of a variable, or `none`".to_owned(),
            Self::Url { .. } => "`http://HOST` or `https://HOST`, with a path, without a user or a query".to_owned(),
        }
    }

    fn within(&self, is_within: bool) -> Result<(), String> {
        if is_within { Ok(()) } else { Err(format!("must be {}", self.range())) }
    }
}

fn none() -> Shown {
    Shown::plain("none", Value::Null)
}

fn optional<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == "none" { Ok(None) } else { read(text).map(Some) }
}

fn count(text: &str) -> Result<u64, String> {
    // `parse` would take a sign.
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| "must be a whole number".to_owned())
}

/// The address of a service, without a slash at its end.
fn url(text: &str) -> Option<String> {
    let url: http::Uri = text.parse().ok()?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let host = url.authority().filter(|host| !host.as_str().contains('@') && !host.host().is_empty());
    let plain = is_http && host.is_some() && url.query().is_none() && !text.contains('#');
    plain.then(|| text.trim_end_matches('/').to_owned())
}

/// One value of any type.
fn scalar(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Text(text) | Raw::Plain(text) => Ok(text),
        Raw::List(_) | Raw::Path(_) => Err("must be one value, not a list".to_owned()),
    }
}

/// One value that is text: YAML reads `data_dir: 007` as a number, and what was written is lost.
fn text(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Plain(text) => Err(format!("must be text: write it in quotes if {text} is meant")),
        Raw::Text(_) | Raw::List(_) | Raw::Path(_) => scalar(raw),
    }
}

fn addresses(raw: &Raw) -> Result<Vec<Listen>, String> {
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
