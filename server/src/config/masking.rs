//! The keys `masking.*`: texts that are masked before they are written.

use super::keys::Key;
use super::kind::Kind;
use super::value::{Raw, text};
use crate::mask::{CustomRule, Masker, PatternError, Rule, RuleSet, allowed_pattern, check_pattern};

/// Settings of masking.
#[derive(Debug, Clone, PartialEq)]
pub struct Masking {
    /// True if masking is on.
    pub enabled: bool,
    /// Built-in rules that are switched on or off individually.
    pub rules: Vec<(Rule, bool)>,
    /// Custom rules.
    pub custom: Vec<CustomRule>,
    /// Texts that are never masked.
    pub allow: Vec<String>,
    /// True if the rules for personal data are on.
    pub personal: bool,
}

const SINCE: &str = "0.1.0";

/// The keys, in the order of the table.
pub(super) const KEYS: [Key; 5] = [
    Key {
        name: "masking.enabled",
        kind: Kind::Truth { set: |c, on| c.masking.enabled = on },
        default: "true",
        since: SINCE,
        about: "Whether secrets are replaced before anything is written (MASKING.md)",
    },
    Key {
        name: "masking.rules",
        kind: Kind::Switches { set: |c, rules| c.masking.rules = rules },
        default: "none",
        since: SINCE,
        about: "Built-in rules by name, each `on` or `off`. In a variable: `NAME=off,…`",
    },
    Key {
        name: "masking.custom",
        kind: Kind::Patterns { set: |c, rules| c.masking.custom = rules },
        default: "none",
        since: SINCE,
        about: "Rules of your own: names with regular expressions. What `acme_key` finds becomes `[ACME_KEY]`. In a variable: \
                `NAME=PATTERN`, one a line",
    },
    Key {
        name: "masking.allow",
        kind: Kind::Texts { count: 256, each: 1024, set: |c, list| c.masking.allow = list },
        default: "",
        since: SINCE,
        about: "What is never masked: texts, or between slashes regular expressions that match the whole of what was found",
    },
    Key {
        name: "masking.personal",
        kind: Kind::Truth { set: |c, on| c.masking.personal = on },
        default: "false",
        since: SINCE,
        about: "Whether what is about people is masked too: the rules `email`, `ssn`, `phone` and `my_number`",
    },
];

impl Masking {
    /// Returns empty settings, which the defaults then fill.
    pub(super) fn blank() -> Self {
        Self { enabled: false, rules: Vec::new(), custom: Vec::new(), allow: Vec::new(), personal: false }
    }

    /// Returns the masker for these settings. It always exists for a loaded configuration.
    pub fn masker(&self) -> Result<Masker, PatternError> {
        if !self.enabled {
            return Ok(Masker::off());
        }
        let is_on = |rule: &Rule| {
            let said = self.rules.iter().find(|(named, _)| named == rule);
            said.map_or(self.personal || !rule.is_personal(), |(_, on)| *on)
        };
        let rules = Rule::ALL.iter().copied().filter(is_on).collect();
        let set = RuleSet { rules, custom: self.custom.clone(), allow: self.allow.clone() };
        // Building a masker takes milliseconds and happens more than once per process.
        if set == RuleSet::default() { Ok(Masker::standard()) } else { Masker::new(&set) }
    }

    /// Returns the key that is wrong, and why.
    pub(super) fn check(&self) -> Option<(&'static str, String)> {
        for entry in &self.allow {
            if let Some(Err(error)) = allowed_pattern(entry).map(check_pattern) {
                return Some(("masking.allow", format!("has {entry:?}, which {error}")));
            }
        }
        let all = Self { enabled: true, ..self.clone() }.masker();
        all.err().map(|error| ("masking.custom", format!("has patterns of which all together {error}")))
    }
}

/// Parses built-in rules, each on or off.
pub(super) fn switches(raw: &Raw) -> Result<Vec<(Rule, bool)>, String> {
    let mut switches: Vec<(Rule, bool)> = Vec::new();
    for (name, value) in pairs(raw, ',')? {
        let Some(rule) = Rule::named(&name) else {
            let names: Vec<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
            return Err(format!("has {name:?}, which is no rule; they are {}", names.join(", ")));
        };
        let on = match value.as_str() {
            "on" | "true" => true,
            "off" | "false" => false,
            _ => return Err(format!("has {name:?}, which must be on or off")),
        };
        if switches.iter().any(|(other, _)| *other == rule) {
            return Err(format!("has {name:?} twice"));
        }
        switches.push((rule, on));
    }
    switches.sort_unstable();
    Ok(switches)
}

/// Parses custom rules.
pub(super) fn patterns(raw: &Raw) -> Result<Vec<CustomRule>, String> {
    const MOST: usize = 64;
    let mut rules: Vec<CustomRule> = Vec::new();
    for (name, pattern) in pairs(raw, '\n')? {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > MOST || !name.chars().all(plain) {
            return Err(format!("has {name:?}: a name has small letters, digits and _, at most {MOST}"));
        }
        if Rule::named(&name).is_some() || rules.iter().any(|rule| rule.name == name) {
            return Err(format!("has {name:?}, which is another rule's name"));
        }
        check_pattern(&pattern).map_err(|error| format!("has {name:?}, whose pattern {error}"))?;
        rules.push(CustomRule { label: format!("[{}]", name.to_uppercase()), name, pattern });
    }
    if rules.len() > MOST {
        return Err(format!("has {} rules; at most {MOST} are allowed", rules.len()));
    }
    Ok(rules)
}

/// Parses names with a value each: `NAME=VALUE`.
fn pairs(raw: &Raw, separator: char) -> Result<Vec<(String, String)>, String> {
    let items: Vec<String> = match raw {
        Raw::List(items) => items.clone(),
        Raw::Text(_) | Raw::Plain(_) | Raw::Path(_) => match text(raw)? {
            "none" => Vec::new(),
            text => text.split(separator).map(|item| item.trim().to_owned()).collect(),
        },
    };
    let pair = |item: &String| {
        let (name, value) =
            item.split_once('=').ok_or_else(|| format!("has {item:?}, which is no NAME=VALUE"))?;
        Ok((name.trim().to_owned(), value.to_owned()))
    };
    items.iter().map(pair).collect()
}
