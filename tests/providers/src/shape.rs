//! Objects and their fields: which must be there, which may, of which type. The words are the provider's.

use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Any,
    Bool,
    Int,
    Num,
    Str,
    Object,
    Array,
    StrOrArray,
    StrOrObject,
    /// One of these strings.
    Word(&'static [&'static str]),
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Bool => value.is_boolean(),
            Self::Int => value.is_i64() || value.is_u64(),
            Self::Num => value.is_number(),
            Self::Str | Self::Word(_) => value.is_string(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::StrOrArray => value.is_string() || value.is_array(),
            Self::StrOrObject => value.is_string() || value.is_object(),
        }
    }
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    name: &'static str,
    kind: Kind,
    required: bool,
    null: bool,
}

impl Field {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

/// A field that must be there.
pub(crate) const fn must(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true, null: false }
}

/// A field that may be left out, but may not be null.
pub(crate) const fn may(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false, null: false }
}

/// A field that may be left out or null.
pub(crate) const fn null(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false, null: true }
}

/// A field that must be there.and may be null.
pub(crate) const fn must_null(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true, null: true }
}

/// How a provider speaks of what is wrong at a path.
pub(crate) trait Voice {
    /// The path of a field.
    fn key(&self, at: &str, key: &str) -> String {
        if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
    }
    fn unknown(&self, at: &str, key: &str) -> Refusal;
    fn missing(&self, at: &str, key: &str) -> Refusal;
    fn wrong(&self, path: &str, kind: Kind, got: &Value) -> Refusal;
    fn word(&self, path: &str, allowed: &[&str], got: &str) -> Refusal;
}

/// The object at a path, if it has the fields that it must have and no others.
pub(crate) fn object<'a>(
    voice: &dyn Voice,
    at: &str,
    value: &'a Value,
    fields: &[Field],
) -> Result<&'a Map<String, Value>, Refusal> {
    let object = value.as_object().ok_or_else(|| voice.wrong(at, Kind::Object, value))?;
    for field in fields {
        let Some(got) = object.get(field.name) else {
            if field.required {
                return Err(voice.missing(at, field.name));
            }
            continue;
        };
        check_kind(voice, &voice.key(at, field.name), got, *field)?;
    }
    match object.keys().find(|key| fields.iter().all(|field| field.name != *key)) {
        Some(key) => Err(voice.unknown(at, key)),
        None => Ok(object),
    }
}

fn check_kind(voice: &dyn Voice, path: &str, got: &Value, field: Field) -> Result<(), Refusal> {
    if got.is_null() && field.null {
        return Ok(());
    }
    if !field.kind.fits(got) {
        return Err(voice.wrong(path, field.kind, got));
    }
    if let (Kind::Word(allowed), Some(word)) = (field.kind, got.as_str())
        && !allowed.contains(&word)
    {
        return Err(voice.word(path, allowed, word));
    }
    Ok(())
}

/// The string in a field, or nothing where there is none.
pub(crate) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of an array in a field, or none.
pub(crate) fn list<'a>(object: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a name has only letters, digits, `_` and `-`, and from 1 to `max` of them.
pub(crate) fn is_name(name: &str, max: usize) -> bool {
    (1..=max).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
