//! What a key takes: reading a value into its field, and telling the value and the range.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::listen::{self, Listen};
use super::value::{
    Raw, Shown, addresses, called, count, map, none, optional, quoted, scalar, table, text, texts, url,
};
use super::{Config, masking, units};
use crate::mask::{CustomRule, Rule};
use crate::telemetry;

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
    /// Yes or no.
    Truth {
        set: fn(&mut Config, bool),
    },
    /// A number that need not be whole.
    Number {
        least: f64,
        most: f64,
        set: fn(&mut Config, f64),
    },
    /// Text of any kind that need not be given, of at most so many bytes.
    Text {
        most: usize,
        set: fn(&mut Config, Option<String>),
    },
    /// A list of texts: at most so many, of at most so many bytes each.
    Texts {
        count: usize,
        each: usize,
        set: fn(&mut Config, Vec<String>),
    },
    /// Names with a number of tokens each.
    Table {
        set: fn(&mut Config, Vec<(String, u64)>),
    },
    /// Rules of the masking, each on or off.
    Switches {
        set: fn(&mut Config, Vec<(Rule, bool)>),
    },
    /// Names with a regular expression each.
    Patterns {
        set: fn(&mut Config, Vec<CustomRule>),
    },
    /// What is called over HTTP. It may hold a secret: what is refused is not repeated.
    Call {
        set: fn(&mut Config, Option<String>),
    },
    /// Where something is served over HTTP. What is refused is not repeated: it may hold a password.
    Url {
        set: fn(&mut Config, String),
    },
}

/// A word with what it sets.
type Word = (&'static str, fn(&mut Config));

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
            Self::Truth { set } => {
                let truth = scalar(raw)?.parse().map_err(|_| format!("must be {}", self.range()))?;
                set(config, truth);
                Ok(Shown::plain(truth.to_string(), truth))
            }
            Self::Number { least, most, set } => {
                let wrong = |_| format!("must be {}", self.range());
                let number = scalar(raw)?.parse::<f64>().map_err(wrong)?;
                self.within(*least <= number && number <= *most)?;
                set(config, number);
                Ok(Shown::plain(number.to_string(), number))
            }
            Self::Text { most, set } => {
                let text = optional(text(raw)?, |text| {
                    let fits = !text.trim().is_empty() && text.len() <= *most && !text.contains('\0');
                    fits.then(|| text.to_owned()).ok_or_else(|| format!("must be {}", self.range()))
                })?;
                let shown = text.as_ref().map_or_else(none, Shown::text);
                set(config, text);
                Ok(shown)
            }
            Self::Texts { count, each, set } => {
                let texts = texts(raw)?;
                let fits =
                    |text: &String| !text.trim().is_empty() && text.len() <= *each && !text.contains('\0');
                self.within(texts.len() <= *count && texts.iter().all(fits))?;
                let yaml: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                let shown = Shown::plain(format!("[{}]", yaml.join(", ")), texts.clone());
                set(config, texts);
                Ok(shown)
            }
            Self::Table { set } => {
                let table = table(raw)?;
                let yaml: Vec<_> =
                    table.iter().map(|(name, tokens)| format!("{}: {tokens}", quoted(name))).collect();
                let json: serde_json::Map<_, _> =
                    table.iter().map(|(name, tokens)| (name.clone(), (*tokens).into())).collect();
                let shown = if table.is_empty() {
                    Shown::plain("none", json)
                } else {
                    Shown::plain(format!("{{{}}}", yaml.join(", ")), json)
                };
                set(config, table);
                Ok(shown)
            }
            Self::Switches { set } => {
                let switches = masking::switches(raw)?;
                let words = switches.iter().map(|(rule, on)| (rule.name(), if *on { "on" } else { "off" }));
                let shown = map(words);
                set(config, switches);
                Ok(shown)
            }
            Self::Patterns { set } => {
                let rules = masking::patterns(raw)?;
                let shown = map(rules.iter().map(|rule| (rule.name.as_str(), rule.pattern.as_str())));
                set(config, rules);
                Ok(shown)
            }
            Self::Call { set } => {
                let url = optional(text(raw)?, |text| {
                    called(text).ok_or_else(|| format!("must be {}", self.range()))
                })?;
                let shown = url.as_ref().map_or_else(none, Shown::text);
                set(config, url);
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
            Self::Truth { .. } => "`true` or `false`".to_owned(),
            Self::Number { least, most, .. } => format!("a number from {least} to {most}"),
            Self::Text { most, .. } => format!("text of at most {}, or `none`", units::show_bytes(*most as u64)),
            Self::Texts { count, each, .. } => {
                format!("a list of at most {count} texts of at most {} each", units::show_bytes(*each as u64))
            }
            Self::Table { .. } => "a map of names to numbers from 1, or `none`".to_owned(),
            Self::Switches { .. } => "a map of rules to `on` or `off`, or `none`".to_owned(),
            Self::Patterns { .. } => "a map of names to regular expressions, or `none`".to_owned(),
            Self::Call { .. } => "`http://HOST` or `https://HOST`, with a path and a query, without a user, or `none`".to_owned(),
            Self::Url { .. } => "`http://HOST` or `https://HOST`, with a path, without a user or a query".to_owned(),
        }
    }

    /// Whether the file has a map for it.
    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Table { .. } | Self::Switches { .. } | Self::Patterns { .. })
    }

    fn within(&self, is_within: bool) -> Result<(), String> {
        if is_within { Ok(()) } else { Err(format!("must be {}", self.range())) }
    }
}
