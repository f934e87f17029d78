//! What the tests of the rules share: a good body, bent at one place, and what is said about it.

use contextstore_providers::{Provider, Rules, check_bytes};
use serde_json::Value;

/// A body with one value put in (or, for nothing, taken out) at a pointer.
pub(crate) fn bent(body: &Value, at: &str, value: Option<Value>) -> Value {
    let mut body = body.clone();
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {at}"));
    match (parent, value) {
        (Value::Object(object), Some(value)) => drop(object.insert(key.to_owned(), value)),
        (Value::Object(object), None) => {
            drop(object.remove(key).unwrap_or_else(|| panic!("nothing at {at}")))
        }
        (Value::Array(list), Some(value)) if key == "-" => list.push(value),
        (Value::Array(list), Some(value)) => list[key.parse::<usize>().unwrap()] = value,
        (Value::Array(list), None) => drop(list.remove(key.parse().unwrap())),
        (other, _) => panic!("{other} has no {key}"),
    }
    body
}

/// What a provider says to a body, or nothing if it takes it.
pub(crate) fn says(provider: Provider, body: &Value) -> Option<String> {
    says_by(provider, body, &Rules::of(provider))
}

/// The same by other rules.
pub(crate) fn says_by(provider: Provider, body: &Value, rules: &Rules) -> Option<String> {
    check_bytes(provider, body.to_string().as_bytes(), rules).err().map(|refusal| refusal.message)
}

/// Each value at its pointer is refused with these words.
pub(crate) fn refuses(provider: Provider, body: &Value, table: &[(&str, Option<Value>, &str)]) {
    assert_eq!(says(provider, body), None);
    let mut wrong = Vec::new();
    for (at, value, words) in table {
        let said = says(provider, &bent(body, at, value.clone()));
        if said.as_deref().is_none_or(|said| said != *words) {
            let value = value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
            let value: String = value.chars().take(200).collect();
            wrong.push(format!("{value} at {at}\n  must be answered: {words}\n  but was: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
