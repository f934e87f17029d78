//! Kinds of values: parses a value into its field, and describes the accepted values.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::listen::Listen;
use super::parse::{self, Parsed};
use super::value::{Raw, Shown, count, none, optional, scalar, text};
use super::{Config, units};
use crate::mask::{CustomRule, Rule};

/// The kind of a value, with the field that it sets.
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
    /// An optional path.
    File {
        set: fn(&mut Config, Option<PathBuf>),
    },
    /// An optional text.
    Name {
        set: fn(&mut Config, Option<String>),
    },
    /// The name of a variable. Errors do not repeat the value, which may be the secret itself.
    Variable {
        set: fn(&mut Config, Option<String>),
    },
    /// A boolean.
    Truth {
        set: fn(&mut Config, bool),
    },
    /// A decimal number.
    Number {
        least: f64,
        most: f64,
        set: fn(&mut Config, f64),
    },
    /// An optional text of any kind, with a limit in bytes.
    Text {
        most: usize,
        set: fn(&mut Config, Option<String>),
    },
    /// A list of texts, with limits for their number and their bytes.
    Texts {
        count: usize,
        each: usize,
        set: fn(&mut Config, Vec<String>),
    },
    /// Names with a number of tokens each.
    Table {
        set: fn(&mut Config, Vec<(String, u64)>),
    },
    /// Built-in masking rules, each on or off.
    Switches {
        set: fn(&mut Config, Vec<(Rule, bool)>),
    },
    /// Names with a regular expression each.
    Patterns {
        set: fn(&mut Config, Vec<CustomRule>),
    },
    /// The URL of a hook. Errors do not repeat it, because it may hold a secret.
    Call {
        set: fn(&mut Config, Option<String>),
    },
    /// The URL of an API. Errors do not repeat it, because it may hold a password.
    Url {
        set: fn(&mut Config, String),
    },
}

/// A word, and the function that sets it.
type Word = (&'static str, fn(&mut Config));

impl Kind {
    /// Parses a value into its field. Returns the value for display, or the accepted values.
    pub(super) fn take(&self, config: &mut Config, raw: &Raw) -> Result<Shown, String> {
        let wrong = || format!("must be {}", self.range());
        let outside = |fits: bool| if fits { Ok(()) } else { Err(wrong()) };
        match self {
            Self::Path { set } => put(config, *set, parse::path(raw)),
            Self::Addresses { set } => put(config, *set, parse::addresses(raw)),
            Self::Address { set } => put(config, *set, parse::address(raw)),
            Self::Word { words } => {
                let text = text(raw)?;
                let wrong = || format!("must be {}, not {text:?}", self.range());
                let (word, set) = words.iter().find(|(word, _)| *word == text).ok_or_else(wrong)?;
                set(config);
                Ok(Shown::text(*word))
            }
            Self::Bytes { least, most, set } => {
                let bytes = units::bytes(scalar(raw)?)?;
                outside(*least <= bytes && bytes <= *most)?;
                put(config, *set, Ok((Shown::plain(units::show_bytes(bytes), bytes), bytes)))
            }
            Self::Count { least, most, set } => {
                let count = count(scalar(raw)?)?;
                outside(*least <= count && count <= *most)?;
                put(config, *set, Ok((Shown::plain(count.to_string(), count), count)))
            }
            Self::Tokens { set } => {
                let tokens = optional(scalar(raw)?, count)?;
                outside(tokens != Some(0))?;
                let shown = tokens.map_or_else(none, |tokens| Shown::plain(tokens.to_string(), tokens));
                put(config, *set, Ok((shown, tokens)))
            }
            Self::Time { least, most, set } => {
                let time = units::duration(scalar(raw)?)?;
                outside(*least <= time && time <= *most)?;
                let shown = units::show_duration(time);
                put(config, *set, Ok((Shown::plain(shown.clone(), shown), time)))
            }
            Self::Share { set } => {
                let share = optional(scalar(raw)?, |text| text.parse::<f64>().map_err(|_| wrong()))?;
                outside(share.is_none_or(|share| share > 0.0 && share <= 1.0))?;
                let shown = share.map_or_else(none, |share| Shown::plain(share.to_string(), share));
                put(config, *set, Ok((shown, share)))
            }
            Self::Truth { set } => {
                let truth: bool = scalar(raw)?.parse().map_err(|_| wrong())?;
                put(config, *set, Ok((Shown::plain(truth.to_string(), truth), truth)))
            }
            Self::Number { least, most, set } => {
                let number = scalar(raw)?.parse::<f64>().map_err(|_| wrong())?;
                outside(*least <= number && number <= *most)?;
                put(config, *set, Ok((Shown::plain(number.to_string(), number), number)))
            }
            Self::Filter { set } => put(config, *set, parse::filter(raw)),
            Self::File { set } => put(config, *set, parse::file(raw)),
            Self::Name { set } => put(config, *set, parse::name(raw)),
            Self::Variable { set } => put(config, *set, parse::checked(raw, parse::is_variable, wrong)),
            Self::Text { most, set } => {
                put(config, *set, parse::checked(raw, |text| parse::is_text(text, *most), wrong))
            }
            Self::Texts { count, each, set } => {
                let (shown, texts) = parse::texts(raw)?;
                let fit = texts.iter().all(|text| parse::is_text(text, *each));
                outside(texts.len() <= *count && fit)?;
                put(config, *set, Ok((shown, texts)))
            }
            Self::Table { set } => put(config, *set, parse::table(raw)),
            Self::Switches { set } => put(config, *set, parse::switches(raw)),
            Self::Patterns { set } => put(config, *set, parse::patterns(raw)),
            Self::Call { set } => put(config, *set, parse::call(raw, wrong)),
            Self::Url { set } => put(config, *set, parse::base_url(raw, wrong)),
        }
    }

    /// Describes the accepted values.
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

    /// Returns true if the file has a map for this kind.
    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Table { .. } | Self::Switches { .. } | Self::Patterns { .. })
    }
}

/// Stores a parsed value and returns it for display.
fn put<T>(config: &mut Config, set: fn(&mut Config, T), parsed: Parsed<T>) -> Result<Shown, String> {
    let (shown, value) = parsed?;
    set(config, value);
    Ok(shown)
}
