//! Tests of the rules on everyday texts, and of masking in pieces.

use super::*;

fn masker() -> Masker {
    Masker::new(&RuleSet::default()).unwrap()
}

fn everything() -> Masker {
    Masker::new(&RuleSet { rules: Rule::ALL.to_vec(), ..RuleSet::default() }).unwrap()
}

fn masked(text: &str) -> String {
    masker().text(text, &mut MaskCounts::default()).into_owned()
}

/// Returns letters and digits that look random, the same every time.
fn random(len: usize) -> String {
    let mut random = fastrand::Rng::with_seed(len as u64);
    (0..len).map(|_| random.alphanumeric()).collect()
}

fn key_block() -> String {
    let lines: Vec<String> = (0..12).map(|line| random(64 + line % 2)).collect();
    format!("-----BEGIN RSA PRIVATE KEY-----\n{}\nAbc=\n-----END RSA PRIVATE KEY-----", lines.join("\n"))
}

#[test]
fn tokens_are_replaced_by_their_labels() {
    let r = random;
    for (text, expected) in [
        (format!("ghp_{}", r(36)), "[GITHUB_TOKEN]"),
        (format!("x=ghp_{}, y", r(36)), "x=[GITHUB_TOKEN], y"),
        (format!("github_pat_{}_{}", r(22), r(59)), "[GITHUB_TOKEN]"),
        (format!("gho_{}", r(36)), "[GITHUB_OAUTH_TOKEN]"),
        (format!("glpat-{}.", r(20)), "[GITLAB_TOKEN]."),
        (format!("sk-{}T3BlbkFJ{}", r(20), r(20)), "[OPENAI_KEY]"),
        (format!("sk-proj-{}_{}-{}", r(40), r(30), r(60)), "[OPENAI_KEY]"),
        (format!("sk-ant-api03-{}-{}AA", r(60), r(32)), "[ANTHROPIC_KEY]"),
        ("AKIAIOSFODNN7EXAMPLE".to_owned(), "[AWS_ACCESS_KEY]"),
        (format!("aws_secret_access_key = {}", r(40)), "aws_secret_access_key = [AWS_SECRET_KEY]"),
        (format!("\"SecretAccessKey\": \"{}\",", r(40)), "\"SecretAccessKey\": \"[AWS_SECRET_KEY]\","),
        (format!("AIza{}", r(35)), "[GOOGLE_KEY]"),
        (format!("abc8Q~{}", r(34)), "[AZURE_KEY]"),
        (format!("AccountKey={}==;x", r(86)), "AccountKey=[AZURE_KEY];x"),
        (format!("eyJ{}.eyJ{}.{}", r(20), r(40), r(43)), "[JWT]"),
        (format!("\\nghp_{}\\n", r(36)), "\\n[GITHUB_TOKEN]\\n"),
        (format!("a%3Dghp_{}%26", r(36)), "a%3D[GITHUB_TOKEN]%26"),
        (format!("\x1b[31mghp_{}\x1b[0m", r(36)), "\x1b[31m[GITHUB_TOKEN]\x1b[0m"),
        (format!("Authorization: Bearer {}", r(24)), "Authorization: Bearer [AUTHORIZATION]"),
        (format!("client_secret={}7aB", r(24)), "client_secret=[SECRET]"),
        ("postgres://app:s3cr3t@db:5432/x".to_owned(), "postgres://app:[URL_PASSWORD]@db:5432/x"),
        (
            format!("https://ghp_{}:x-oauth-basic@github.com/a", r(36)),
            "https://[GITHUB_TOKEN]:[URL_PASSWORD]@github.com/a",
        ),
        (format!("https://x:ghp_{}@github.com/a", r(36)), "https://x:[GITHUB_TOKEN]@github.com/a"),
        ("password=hunter2".to_owned(), "password=[PASSWORD]"),
        ("DB_PASSWORD=\"Tr0ub4dor&3\"".to_owned(), "DB_PASSWORD=\"[PASSWORD]\""),
        ("{\"password\": \"hunter2\"}".to_owned(), "{\"password\": \"[PASSWORD]\"}"),
        ("{\\\"password\\\": \\\"hunter2\\\"}".to_owned(), "{\\\"password\\\": \\\"[PASSWORD]\\\"}"),
        ("Server=x;Uid=sa;Pwd=Pa55word;".to_owned(), "Server=x;Uid=sa;Pwd=[PASSWORD];"),
    ] {
        assert_eq!(masked(&text), expected, "{text}");
        assert_eq!(masked(expected), expected, "what is masked stays as it is");
    }
}

#[test]
fn a_private_key_is_masked_from_its_first_line_to_its_last() {
    let key = key_block();
    assert_eq!(masked(&format!("a\n{key}\nb")), "a\n[PRIVATE_KEY]\nb");
    assert_eq!(masked(&format!("{}\nb", key.replace('\n', "\\n"))), "[PRIVATE_KEY]\nb");
    let numbered: String = key.lines().enumerate().map(|(n, line)| format!("{n:6}\t{line}\n")).collect();
    assert_eq!(masked(&numbered), "     0\t[PRIVATE_KEY]\n");
    let cut = key.lines().take(4).collect::<Vec<_>>().join("\n");
    assert_eq!(masked(&format!("{cut}\nand then the file ends.")), "[PRIVATE_KEY]\nand then the file ends.");
    let prose = "A file with -----BEGIN PRIVATE KEY----- in it is a key, and one with\n-----BEGIN CERTIFICATE-----\nis not.";
    assert_eq!(masked(prose), prose);
}

#[test]
fn text_that_resembles_secrets_is_kept() {
    for text in [
        "the task-force is risk-based, and sk-learn is scikit-learn; desk-side-equipment-inventory-list-2024",
        "sk-learn-contrib-imbalanced-learning-package-name",
        "password = os.environ[\"DB_PASSWORD\"]",
        "password = get_password()",
        "password: str = Field(...)",
        "password=args.password,",
        "password=$DB_PASSWORD",
        "password=${DB_PASSWORD}",
        "password: ********",
        "DB_PASSWORD=\nNEXT=1",
        "Password: must be at least 8 characters long",
        "if password == other.password {",
        "\"password\": {\"type\": \"string\"}",
        "<input type=\"password\" name=\"password\" autocomplete=\"current-password\">",
        "secretName: my-tls-certificate-2024-production",
        "api_key = os.getenv(\"OPENAI_API_KEY_2\")",
        "https://example.com/a:b@c",
        "git@github.com:owner/repo.git",
        "postgres://user:${PASSWORD}@host/db",
        "me@example.com, 123-45-6789, +81 90 1234 5678",
        "integrity sha512-oRdC0ZTsX2tBFbVmLwEtfFYUnUIZWUqIjcqqJVqzEZLKSQq8BXbl0BHCtwZUIV5gFqZWz0xkRZJnxQ8QmvHxZA==",
        "ghp_your_token_goes_here_and_there_1234567",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn personal_data_is_masked_on_request() {
    let mask = |text: &str| everything().text(text, &mut MaskCounts::default()).into_owned();
    for (text, expected) in [
        ("write to <jane.doe+x@mail.example.co.jp>.", "write to <[EMAIL]>."),
        ("ssn 123-45-6789, not 000-12-3456", "ssn [SSN], not 000-12-3456"),
        ("call +81 90-1234-5678 or (555) 123-4567.", "call [PHONE] or [PHONE]."),
        ("03-1234-5678 and 2024-11-16", "[PHONE] and 2024-11-16"),
        ("my number 1234 5678 9018, not 1234 5678 9012", "my number [MY_NUMBER], not 1234 5678 9012"),
        ("git@host", "git@host"),
        ("version 1.234.567.8901", "version 1.234.567.8901"),
    ] {
        assert_eq!(mask(text), expected, "{text}");
    }
}

#[test]
fn masked_secrets_are_counted_by_rule() {
    let text = format!("ghp_{} ghp_{} password=hunter2", random(36), random(37));
    let mut found = MaskCounts::default();
    masker().text(&text, &mut found);
    assert_eq!(found.iter().collect::<Vec<_>>(), [("github_token", 2), ("password", 1)]);
    let mut none = MaskCounts::default();
    assert!(matches!(masker().text("nothing here", &mut none), Cow::Borrowed(_)));
    assert!(none.is_empty());
    assert!(matches!(Masker::off().text(&text, &mut none), Cow::Borrowed(_)));
}

/// Returns a random text of everything that rules match, with long runs that exceed a window.
fn jumble(random: &mut fastrand::Rng) -> String {
    let run = |random: &mut fastrand::Rng, len: usize| -> String {
        (0..len).map(|_| random.alphanumeric()).collect()
    };
    let mut text = String::new();
    for _ in 0..random.usize(1..30) {
        let len = if random.u8(..) < 20 { random.usize(3_000..30_000) } else { random.usize(0..90) };
        let piece = match random.u8(..32) {
            0 => format!("ghp_{}", run(random, len)),
            1 => format!("eyJ{}.eyJ{}.{}", run(random, len), run(random, len), run(random, len)),
            2 => "-----BEGIN PRIVATE KEY-----\n".to_owned(),
            3 => "\n-----END PRIVATE KEY-----\n".to_owned(),
            4 => format!("{}\n", run(random, len)),
            5 => "password=".to_owned(),
            6 => format!("\"api_key\": \"{}\"", run(random, len)),
            7 => format!("https://u:{}@host/", run(random, len)),
            8 => " ".repeat(len),
            9 => "日本語 ".repeat(len / 8),
            10 => format!("sk-proj-{}-{}", run(random, len), run(random, len)),
            11 => format!("{}8Q~{}", run(random, 3), run(random, 33)),
            12 => format!("{}JQQJ99{}", run(random, 52), run(random, 26)),
            13 => "\\n".to_owned(),
            14 => format!("me.{}@example.com", run(random, len % 60)),
            15 => format!("AccountKey={}==", run(random, len)),
            16 => "://".to_owned(),
            17 => "-----BEGIN ".to_owned(),
            18 => format!("id-{};", random.u32(..)),
            19 => "\n".to_owned(),
            20 => "_".to_owned(),
            21 => "ghs_A1b2c3d4e5f-".repeat(len / 8),
            22 => "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n".repeat(len / 40),
            23 => "-----BEGIN PRIVATE KEY-----END ".to_owned(),
            24 => "-eyJhbGciOiJIUzI1.eyJ".repeat(len / 16),
            25 => format!("PASSWORD=ä{}", run(random, len)),
            26 => format!("password: \"{}\"", run(random, len)),
            27 => "    Ab1c==\n".repeat(len / 16),
            28 => format!("Private-Lines: 1{}", run(random, 3)),
            29 => "curl -u me:".to_owned(),
            30 => format!("<password>{}</password>", run(random, len)),
            _ => "the quick brown fox. ".repeat(len / 16),
        };
        text.push_str(&piece);
    }
    text
}

#[test]
fn pieces_give_the_same_result_as_the_whole() {
    let custom = |name: &str, pattern: &str| CustomRule {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        label: format!("[{}]", name.to_uppercase()),
    };
    let rules = RuleSet {
        rules: Rule::ALL.to_vec(),
        custom: vec![
            custom("ids", r"\bid-[0-9]{3,}"),
            custom("fox", "brown f.x"),
            custom("all", "^日本語.{9,}"),
        ],
        allow: vec!["/sk-proj-[a-m].*/".to_owned()],
    };
    let with_custom = Masker::new(&rules).unwrap();
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..300, |seed| seed..seed + 1);
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let text = jumble(&mut random);
        for masker in [&everything(), &with_custom] {
            let mut expected_found = MaskCounts::default();
            let expected = masker.text(&text, &mut expected_found);
            let (mut stream, mut out) = (masker.stream(), Vec::new());
            let most = [1, 7, 100, 5_000, 70_000][random.usize(..5)];
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=most).min(rest.len()));
                stream.push(piece, &mut out);
                assert!(stream.held.len() <= 24 * 1024 + most, "seed {seed}: held {}", stream.held.len());
                rest = after;
            }
            let found = stream.finish(&mut out);
            assert_eq!(found, expected_found, "seed {seed}");
            assert!(out == expected.as_bytes(), "seed {seed}");
        }
    }
}

/// A match that begins before its mark must not be released before the mark is seen.
#[test]
fn text_that_a_rule_may_look_back_at_is_not_released() {
    let mark = format!("{}JQQJ99{} ", random(52), random(26));
    let text = mark.repeat(2000);
    for piece in [1, 999, 4096, 20_000] {
        let (mut stream, mut out) = (masker().stream(), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            stream.push(piece, &mut out);
        }
        stream.finish(&mut out);
        assert!(out == "[AZURE_KEY] ".repeat(2000).as_bytes(), "in pieces of {piece}");
    }
}

#[test]
fn secrets_longer_than_the_window_are_masked_to_their_end() {
    let run = random(40_000);
    for (text, expected) in [
        (format!("a ghp_{run} b"), "a [GITHUB_TOKEN] b"),
        (format!("eyJ{}.eyJ{run}.{run}, b", random(30)), "[JWT], b"),
        (format!("aws_session_token={run}\n"), "aws_session_token=[AWS_SESSION_TOKEN]\n"),
    ] {
        assert_eq!(masked(&text), expected);
    }
}

#[test]
fn a_secret_of_megabytes_takes_bounded_memory() {
    let mut stream = masker().stream();
    let (mut out, line) = (Vec::new(), random(64));
    stream.push(b"x -----BEGIN PGP PRIVATE KEY BLOCK-----\n\n", &mut out);
    for _ in 0..40_000 {
        stream.push(line.as_bytes(), &mut out);
        stream.push(b"\n", &mut out);
        assert!(stream.held.len() < 32 * 1024);
    }
    stream.push(b"-----END PGP PRIVATE KEY BLOCK-----\nafter", &mut out);
    let found = stream.finish(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "x [PRIVATE_KEY]\nafter");
    assert_eq!(found.iter().collect::<Vec<_>>(), [("private_key", 1)]);
}

#[test]
fn bytes_that_are_not_text_are_unchanged() {
    let mut random = fastrand::Rng::with_seed(7);
    let bytes: Vec<u8> = (0..100_000).map(|_| random.u8(..)).collect();
    let (mut stream, mut out) = (masker().stream(), Vec::new());
    stream.push(&bytes, &mut out);
    assert!(stream.finish(&mut out).is_empty());
    assert!(out == bytes);
}

#[test]
fn patterns_are_checked() {
    for (pattern, error) in [
        ("(", "Syntax"),
        ("a*", "Empty"),
        ("\\b", "Empty"),
        ("x{1,1000}{1,1000}", "TooLarge"),
        ("(?-u)\\xff", "Syntax"),
    ] {
        let found = check_pattern(pattern).unwrap_err();
        assert!(format!("{found:?}").starts_with(error), "{pattern}: {found:?}");
    }
    assert!(check_pattern(&"a".repeat(2000)).is_err());
    assert_eq!(check_pattern("ACME-[0-9]{6}"), Ok(()));
}

fn masked_json(json: &str, fields: Fields) -> Option<String> {
    masker().json(json, fields, &mut MaskCounts::default())
}

#[test]
fn json_strings_are_masked_in_decoded_form() {
    let token = format!("ghp_{}", random(36));
    let hidden = format!("\\u0067hp\\u005f{}", random(36));
    for (json, expected) in [
        (format!(r#""{token}""#), r#""[GITHUB_TOKEN]""#),
        (format!(r#"{{"a":1.0e5,"b":["x\/","{token}"]}}"#), r#"{"a":1.0e5,"b":["x\/","[GITHUB_TOKEN]"]}"#),
        (format!(r#"["caf\u00e9","{hidden}"]"#), r#"["caf\u00e9","[GITHUB_TOKEN]"]"#),
        (
            r#"{"password":"hunter2","pass":"hunter2"}"#.to_owned(),
            r#"{"password":"[PASSWORD]","pass":"hunter2"}"#,
        ),
        (
            r#"{"Authorization":"Bearer abcdefgh12345678"}"#.to_owned(),
            r#"{"Authorization":"Bearer [AUTHORIZATION]"}"#,
        ),
        // A string that is JSON stays JSON when it is masked.
        (
            format!(r#"{{"arguments":"{{\"c\": \"\\u0067hp_{}\"}}"}}"#, random(36)),
            r#"{"arguments":"{\"c\": \"[GITHUB_TOKEN]\"}"}"#,
        ),
        // Keys are masked too, and stay distinct.
        (
            format!(r#"{{"{token}":1,"{hidden}2":2,"[GITHUB_TOKEN]":3}}"#),
            r#"{"[GITHUB_TOKEN]":1,"[GITHUB_TOKEN]_1":2,"[GITHUB_TOKEN]_2":3}"#,
        ),
    ] {
        assert_eq!(masked_json(&json, Fields::Any).as_deref(), Some(expected), "{json}");
        assert_eq!(masked_json(expected, Fields::Any), None, "{expected}");
    }
    for clean in [r#"{"a":"caf\u00e9 https:\/\/x\/ task-force"}"#, r#""password: \"string\"""#, "null", "[]"]
    {
        assert_eq!(masked_json(clean, Fields::Any), None, "{clean}");
    }
}

#[test]
fn opaque_fields_of_a_message_are_unchanged() {
    let token = format!("ghp_{}", random(36));
    for key in ["id", "call_id", "signature", "encrypted_content", "name"] {
        let json = format!(r#"[{{"type":"x","{key}":"{token}"}}]"#);
        assert_eq!(masked_json(&json, Fields::Message), None, "{json}");
        assert!(masked_json(&json, Fields::Any).is_some(), "{json}");
    }
    // The arguments of a tool call have no opaque fields.
    let input = format!(r#"[{{"type":"tool_use","id":"{token}","input":{{"id":"{token}"}}}}]"#);
    let expected = format!(r#"[{{"type":"tool_use","id":"{token}","input":{{"id":"[GITHUB_TOKEN]"}}}}]"#);
    assert_eq!(masked_json(&input, Fields::Message), Some(expected));
    let image = format!(r#"{{"url":"data:image/png;base64,{}/AKIAIOSFODNN7ABCDEFG="}}"#, random(40));
    assert_eq!(masked_json(&image, Fields::Any), None);
    let base64 = format!(r#"{{"x":"{}/AKIAIOSFODNN7ABCDEFG=="}}"#, random(600));
    assert_eq!(masked_json(&base64, Fields::Any), None);
}
