//! Forms in which tools, documents and people write secrets, and what only looks like them.

use super::*;

fn masked(text: &str) -> String {
    Masker::standard().text(text, &mut Found::default()).into_owned()
}

fn masked_json(json: &str, fields: Fields) -> Option<String> {
    Masker::standard().json(json, fields, &mut Found::default())
}

/// Letters and digits that look drawn by chance, the same every time.
fn random(len: usize) -> String {
    let mut random = fastrand::Rng::with_seed(len as u64);
    (0..len).map(|_| random.alphanumeric()).collect()
}

#[test]
fn what_is_written_inside_a_text_is_no_field_of_a_message() {
    let token = format!("ghp_{}", random(36));
    for (json, expected) in [
        (
            format!(
                r#"[{{"type":"text","text":"{{\"aws_access_key_id\":\"AKIAIOSFODNN7ABCDEFG\",\"data\":\"{token}\",\"name\":\"{token}\"}}"}}]"#
            ),
            r#"[{"type":"text","text":"{\"aws_access_key_id\":\"[AWS_ACCESS_KEY]\",\"data\":\"[GITHUB_TOKEN]\",\"name\":\"[GITHUB_TOKEN]\"}"}]"#.to_owned(),
        ),
        (
            r#"[{"type":"x","access_key_id":"AKIAIOSFODNN7ABCDEFG"}]"#.to_owned(),
            r#"[{"type":"x","access_key_id":"[AWS_ACCESS_KEY]"}]"#.to_owned(),
        ),
    ] {
        assert_eq!(masked_json(&json, Fields::Message), Some(expected));
    }
}

#[test]
fn a_name_counts_before_what_a_value_looks_like() {
    for len in [120, 600, 2_000, 9_000] {
        let json = format!(r#"{{"Credentials":{{"SessionToken":"{}=="}}}}"#, random(len));
        let expected = r#"{"Credentials":{"SessionToken":"[AWS_SESSION_TOKEN]"}}"#;
        assert_eq!(masked_json(&json, Fields::Any).as_deref(), Some(expected), "{len}");
    }
    let expected = Some(r#"{"password":"[PASSWORD]","count":12345678901,"a_password":1234}"#.to_owned());
    let number = r#"{"password":12345678901,"count":12345678901,"a_password":1234}"#;
    assert_eq!(masked_json(number, Fields::Any), expected);
}

#[test]
fn data_is_opaque_only_where_it_is_data() {
    let token = format!("ghp_{}", random(36));
    for json in [
        format!(r#"[{{"type":"text","text":"data: see {token}"}}]"#),
        format!(r#"[{{"type":"text","text":"data:a;base64,QUJD and {token}"}}]"#),
        format!(
            r#"[{{"type":"document","source":{{"type":"text","media_type":"text/plain","data":"it is {token}."}}}}]"#
        ),
        format!(
            r#"[{{"type":"document","source":{{"type":"text","media_type":"text/plain","data":"{token}"}}}}]"#
        ),
        format!(r#"[{{"type":"x","data":"stdout: {token}"}}]"#),
        format!(r#"[{{"type":"x","data":"{token}"}}]"#),
    ] {
        let expected = json.replace(&token, "[GITHUB_TOKEN]");
        assert_eq!(masked_json(&json, Fields::Message), Some(expected), "{json}");
    }
    let base64 = format!("{}/AKIAIOSFODNN7ABCDEFG/+==", random(90));
    for json in [
        format!(
            r#"[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{base64}"}}}}]"#
        ),
        format!(r#"[{{"type":"redacted_thinking","data":"{base64}"}}]"#),
        format!(r#"[{{"type":"file","file":{{"file_data":"data:application/pdf;base64,{base64}"}}}}]"#),
        format!(r#"[{{"type":"x","data":"{}_{token}"}}]"#, random(600)),
    ] {
        assert_eq!(masked_json(&json, Fields::Message), None, "{json}");
    }
}
