//! Tests of the forms in which tools, documents and people write secrets, and of texts that only resemble them.

use super::*;

fn masked(text: &str) -> String {
    Masker::standard().text(text, &mut MaskCounts::default()).into_owned()
}

fn masked_json(json: &str, fields: Fields) -> Option<String> {
    Masker::standard().json(json, fields, &mut MaskCounts::default())
}

/// Returns letters and digits that look random, the same every time.
fn random(len: usize) -> String {
    let mut random = fastrand::Rng::with_seed(len as u64);
    (0..len).map(|_| random.alphanumeric()).collect()
}

#[test]
fn json_inside_a_string_has_no_message_fields() {
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
fn the_name_of_a_value_decides_before_its_shape() {
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
fn fields_for_data_are_opaque_only_with_data() {
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

#[test]
fn long_values_are_masked_to_their_end() {
    for len in [300, 600, 2_900, 5_000, 40_000] {
        let secret = random(len);
        for (before, behind) in
            [("password=", "\nx"), ("https://me:", "@host/a"), ("api_key: ", " x"), ("DB_PASSWORD=", "")]
        {
            let masked = masked(&format!("{before}{secret}{behind}"));
            assert!(masked.starts_with(&format!("{before}[")), "{before} {len}: {masked}");
            assert!(!masked.contains(&secret[len - 12..]), "{before} {len}: {masked}");
            // In a URL so long that its host was out of the window, the rest is masked too.
            let ends = masked.ends_with(behind) || (len > 3_000 && masked.ends_with("]/a"));
            assert!(ends, "{before} {len}: {masked}");
        }
        let quoted = masked(&format!("password = \"{secret}\", x"));
        assert_eq!(quoted, "password = \"[PASSWORD]\", x", "{len}");
    }
}

#[test]
fn forms_printed_by_tools_are_masked() {
    let r = random;
    let slashed = format!("{}\\/{}\\/{}", r(10), r(14), r(14));
    for (text, expected) in [
        (
            format!("X-Amz-Security-Token=IQoJ{}%2F{}%3D%3D&X-Amz-Date=1", r(90), r(200)),
            "X-Amz-Security-Token=[AWS_SESSION_TOKEN]&X-Amz-Date=1",
        ),
        (format!("?sv=1\\u0026sig={}%3D\\u0026x", r(44)), "?sv=1\\u0026sig=[AZURE_KEY]\\u0026x"),
        ("\"postgres:\\/\\/app:s3cret@db\\/x\"".to_owned(), "\"postgres:\\/\\/app:[URL_PASSWORD]@db\\/x\""),
        (format!("\"SecretAccessKey\":\"{slashed}\""), "\"SecretAccessKey\":\"[AWS_SECRET_KEY]\""),
        (
            format!("AWS Secret Access Key [None]: {}", r(40)),
            "AWS Secret Access Key [None]: [AWS_SECRET_KEY]",
        ),
        (
            format!("AWS Secret Access Key [****************WXYZ]: {}", r(40)),
            "AWS Secret Access Key [****************WXYZ]: [AWS_SECRET_KEY]",
        ),
        (format!("SG.{}.{}", r(22), r(43)), "[SERVICE_TOKEN]"),
        (format!("xapp-1-A{}-{}-{}", "0B1C2D3E4F", "1234567890123", r(64)), "[SLACK_TOKEN]"),
    ] {
        assert_eq!(masked(&text), expected, "{text}");
        assert_eq!(masked(expected), expected);
    }
}

#[test]
fn everyday_notation_of_secrets_is_masked() {
    let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b9f86d081884c7d659a2feaa0";
    let drawn = random(30);
    for (text, expected) in [
        ("**Password:** Xk29!vb", "**Password:** [PASSWORD]"),
        ("**password**: Xk29!vb", "**password**: [PASSWORD]"),
        ("- Password: `Xk29!vb`", "- Password: `[PASSWORD]`"),
        ("<password>Xk29!vb</password>", "<password>[PASSWORD]</password>"),
        ("<password>Tr0ub4dor&amp;3xQ9</password>", "<password>[PASSWORD]</password>"),
        ("db_pass=Xk29!vb", "db_pass=[PASSWORD]"),
        ("mysql -uroot -pXk29!vb shop", "mysql -uroot -p[PASSWORD] shop"),
        ("mysqldump -u root -p'Xk29 vb!' shop", "mysqldump -u root -p'[PASSWORD]' shop"),
        ("\"auth\": \"bWU6aHVudGVyMg==\"", "\"auth\": \"[SECRET]\""),
        ("//registry.example/:_auth=bWU6aHVudGVyMg==", "//registry.example/:_auth=[SECRET]"),
        ("DEPLOY_TOKEN=DRAWN", "DEPLOY_TOKEN=[SECRET]"),
        ("ENCRYPTION_KEY=HEX", "ENCRYPTION_KEY=[SECRET]"),
        (
            "    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQo5",
            "    client-key-data: [SECRET]",
        ),
        ("bot 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawQ is up", "bot [SERVICE_TOKEN] is up"),
        ("X-API-KEY: DRAWN", "X-API-KEY: [SECRET]"),
        ("X-Auth-Token: DRAWN", "X-Auth-Token: [SECRET]"),
        ("\"AccessToken\":\"DRAWN\"", "\"AccessToken\":\"[SECRET]\""),
        ("SECRET_KEY=HEX", "SECRET_KEY=[SECRET]"),
        ("  secret_key_base: HEX", "  secret_key_base: [SECRET]"),
        ("SECRET_KEY = 'django-insecure-8f$k2!Qz&x(w9'", "SECRET_KEY = 'django-insecure-8f$k2!Qz&x(w9'"),
        ("SECRET_KEY = 'django-insecure-8f$k2!Qz&xw9Lm#'", "SECRET_KEY = '[SECRET]'"),
        ("password = \"correct horse battery staple\"", "password = \"[PASSWORD]\""),
        ("password=pässwörd1 x", "password=[PASSWORD] x"),
        ("\"password\": \"пароль99\"", "\"password\": \"[PASSWORD]\""),
        ("password=hunter22です", "password=[PASSWORD]です"),
        ("DB_PASSWORD=correcthorsebattery", "DB_PASSWORD=[PASSWORD]"),
        ("mysql --password Xk29!vb -h db", "mysql --password [PASSWORD] -h db"),
        ("curl -s -u admin:Xk29!vb https://x", "curl -s -u admin:[PASSWORD] https://x"),
        ("curl --user 'admin:Xk29 vb' https://x", "curl --user 'admin:[PASSWORD]' https://x"),
        ("machine h login me password Xk29!vb", "machine h login me password [PASSWORD]"),
        ("machine h\n  login me\n  password Xk29!vb\n", "machine h\n  login me\n  password [PASSWORD]\n"),
        ("client_secret=aB3dE5fG7hJ9/kL1/mN2pQ4/rS6tU8/vW0xY/zA1", "client_secret=[SECRET]"),
    ] {
        let text = text.replace("DRAWN", &drawn).replace("HEX", hex);
        assert_eq!(masked(&text), expected, "{text}");
    }
}

#[test]
fn everyday_notation_without_secrets_is_kept() {
    for text in [
        "/etc/passwd:1:root:x:0:0:root:/root:/bin/bash",
        "passwd:12:daemon:x:2:2:daemon:/sbin:/sbin/nologin",
        "/etc/passwd:root:x:0:0:root",
        "deployment-ricplt-xapp-onboarder-f564f96dd-tn6kg",
        "SG.Framework.Extensions.DependencyInjection.Abstractions.Testing.Common2.Core",
        "the password: field is required",
        "password: string",
        "password: String,",
        "if password == other {",
        "\"password\": \"Please enter your password again\"",
        "\"password\": \"must have at least eight characters\"",
        "<password>string</password>",
        "<label for=\"password\">Password</label>",
        "--password <password>  the password",
        "--password string   Password for the registry",
        "use --password and --user 2 times",
        "docker login --password-stdin",
        "sort -u a:b | curl https://x",
        "docker run -u 1000:1000 image",
        "curl -u $USER:$PASSWORD https://x",
        "curl -u \"$USER:${PASSWORD}\" https://x",
        "login with a password 2 times",
        "**Password:** required",
        "ALLOW_EMPTY_PASSWORD=yes",
        "PASSWORD=$OTHER",
        "\"secret\": \"arn:aws:secretsmanager:us-east-1:123456789012:secret:MySecret-AbCdEf\"",
        "secret: projects/my-App-1/secrets/Key2/versions/3",
        "password: ${{ secrets.DB_PASSWORD }}",
        "password=`pass show db`",
        "std::vector<password>x1</y>",
        "\"password\": \"パスワード（8文字以上）\"",
        "\"password\": \"Пароль\"",
        "password = \"Passwörter\"",
        "password: パスワード123",
        "curl --user-agent=Foo:bar https://x",
        "curl -u username:password https://x",
        "find mysql -print0 -path x1",
        "mysql -P 3306 -p < dump.sql",
        "\"auth\": \"bearer\"",
        "\"auth\": \"c2hvcnQ=\"",
        "next_page_token=CAUQAA3xYzAb12CdEfGhIjKlMn",
        "MAX_TOKEN=4096",
        "12:AABBCCDDEEFF",
        "low_pass=1200",
        "render_pass = \"shadow\"",
        "opt_pass=loop-unroll-3",
        "docker://alpine:3.18@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:ProdDatabaseLogin2-a1b2C3",
        "FIRST_PASS=completed_all",
        "SECOND_PASS=optimisation",
        "f(PASSWORD=identifier, x)",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn an_indented_key_without_an_end_is_masked_to_its_last_line() {
    let lines: Vec<String> = (0..5).map(|line| format!("    {}", random(64 + line % 2))).collect();
    let text = format!(
        "key: |\n    -----BEGIN RSA PRIVATE KEY-----\n{}\n    Ab1c2d==\n\nnext: of another kind\n",
        lines.join("\n")
    );
    assert_eq!(masked(&text), "key: |\n    [PRIVATE_KEY]\n\nnext: of another kind\n");
}

/// Secrets that span several strings of JSON: everything that masking as plain text removes, masking as JSON removes
/// too.
#[test]
fn json_keeps_nothing_that_plain_text_masking_removes() {
    let pem: Vec<String> = (0..5).map(|line| random(64 - line)).collect();
    let lines: Vec<&str> = ["-----BEGIN PRIVATE KEY-----"]
        .into_iter()
        .chain(pem.iter().map(String::as_str))
        .chain(["-----END PRIVATE KEY-----"])
        .collect();
    let whole = pem.join("\n");
    let long = random(1600);
    let part = |line: &&str| serde_json::json!({"type": "text", "text": line});
    for (json, secrets) in [
        (serde_json::json!(lines), &pem[..]),
        (
            serde_json::json!({"cell": {"source": lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>()}}),
            &pem,
        ),
        (serde_json::json!(lines.iter().map(part).collect::<Vec<_>>()), &pem),
        (serde_json::json!([lines[0], whole, lines[6]]), &pem),
        (serde_json::json!([lines[0], long, lines[6]]), std::slice::from_ref(&long)),
        (serde_json::json!({"key": serde_json::json!(lines).to_string()}), &pem),
        (serde_json::json!(["mysql", "--password", "Xk29!vbQ7", "-h", "db"]), &["Xk29!vbQ7".to_owned()]),
        (serde_json::json!([["Authorization", "Bearer abcdefgh12345678"]]), &["abcdefgh12345678".to_owned()]),
        (
            serde_json::json!({"headers": ["Authorization", "Basic abcdefgh12345678"]}),
            &["abcdefgh12345678".to_owned()],
        ),
    ] {
        let text = json.to_string();
        let (mut in_json, mut in_text) = (MaskCounts::default(), MaskCounts::default());
        let masked =
            Masker::standard().json(&text, Fields::Any, &mut in_json).unwrap_or_else(|| text.clone());
        serde_json::from_str::<serde_json::Value>(&masked).unwrap();
        let plain = Masker::standard().text(&text, &mut in_text).into_owned();
        for secret in secrets {
            assert!(!plain.contains(secret.as_str()), "as text: {plain}");
            assert!(!masked.contains(secret.as_str()), "as JSON: {masked}");
        }
        assert!(!in_json.is_empty());
    }
    // Masked text does not change when it is masked again.
    let masked = masked_json(&serde_json::json!(lines).to_string(), Fields::Any).unwrap();
    assert_eq!(masked_json(&masked, Fields::Any), None, "{masked}");
}

#[test]
fn a_token_may_follow_any_terminal_escape() {
    let token = format!("ghp_{}", random(36));
    for code in [
        "\x1b[32m",
        "\x1b[01;31m\x1b[K",
        "\x1b(B",
        "\x1b[38:5:196m",
        "\\x1b[31m",
        "\\033[1;32m",
        "\\e[31m",
        "^[[31m",
        "\\u001b[0m",
    ] {
        assert_eq!(masked(&format!("x{code}{token}")), format!("x{code}[GITHUB_TOKEN]"), "{code:?}");
    }
    let word = format!("task[31m{token}");
    assert_eq!(masked(&word), word);
}
