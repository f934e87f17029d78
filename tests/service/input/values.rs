//! The fields of a message, down to the last, and the values that could be trouble for each.

use std::fmt;

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

/// The way to a field.
pub(crate) struct Path(pub(crate) Vec<FieldDescriptor>);

impl Path {
    /// As it is named in errors.
    pub(crate) fn name(&self) -> String {
        self.0.iter().map(FieldDescriptor::name).collect::<Vec<_>>().join(".")
    }

    fn last(&self) -> &FieldDescriptor {
        self.0.last().unwrap()
    }
}

/// What is put into a field.
pub(crate) struct Case {
    name: String,
    kind: What,
    /// With its key, as it stands in a message.
    pub(crate) bytes: Vec<u8>,
}

/// What is the matter with a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Its bytes are none of a field of this kind.
    Malformed,
    /// With it the request is larger than any may be.
    TooLarge,
    /// It is a value of its kind, but no field takes it.
    Refused,
    /// It is for the field to say.
    Value,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Case {
    pub(crate) fn may_be_malformed(&self) -> bool {
        self.kind == What::Malformed
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.kind == What::TooLarge
    }

    /// Why it cannot be fine, if it cannot.
    pub(crate) fn must_be_refused(&self, path: &Path) -> Option<&'static str> {
        let name = path.name();
        match self.kind {
            What::Malformed => Some("and is no field of its kind"),
            What::TooLarge => Some("and is larger than anything may be"),
            What::Refused => Some("and is no value of the field"),
            What::Value if name == "resume_token" && self.name == "an unknown word" => {
                Some("and is no token")
            }
            What::Value if IDS.contains(&name.as_str()) && self.name.contains("..") => Some("and is no id"),
            What::Value => None,
        }
    }
}

/// Fields that name something on disk, or could.
const IDS: [&str; 4] = ["task_uuid", "page_token", "header.task_uuid", "ref_id"];

/// Every field of a message with those within it.
pub(crate) fn paths(message: &MessageDescriptor) -> Vec<Path> {
    let mut paths = Vec::new();
    for field in message.fields() {
        paths.push(Path(vec![field.clone()]));
        if let Kind::Message(inner) = field.kind() {
            for below in self::paths(&inner) {
                paths.push(Path([vec![field.clone()], below.0].concat()));
            }
        }
    }
    paths
}

fn key(field: &FieldDescriptor, wire: WireType) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(field.number(), wire, &mut bytes);
    bytes
}

fn varint(field: &FieldDescriptor, value: u64) -> Vec<u8> {
    let mut bytes = key(field, WireType::Varint);
    encode_varint(value, &mut bytes);
    bytes
}

fn block(field: &FieldDescriptor, value: &[u8]) -> Vec<u8> {
    let mut bytes = key(field, WireType::LengthDelimited);
    encode_varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    bytes
}

fn fixed64(field: &FieldDescriptor, value: [u8; 8]) -> Vec<u8> {
    [key(field, WireType::SixtyFourBit), value.to_vec()].concat()
}

fn fixed32(field: &FieldDescriptor) -> Vec<u8> {
    [key(field, WireType::ThirtyTwoBit), vec![1, 2, 3, 4]].concat()
}

/// Everything that is tried with a field.
pub(crate) fn cases(path: &Path) -> Vec<Case> {
    let field = path.last();
    let mut cases = Vec::new();
    let mut add = |name: &str, kind, bytes| cases.push(Case { name: name.to_owned(), kind, bytes });
    // Of every kind but the field's own.
    let kind = field.kind();
    let is_block = matches!(kind, Kind::String | Kind::Bytes | Kind::Message(_));
    if is_block {
        add("a number on the wire", What::Malformed, varint(field, 1));
        add(
            "a length beyond the end",
            What::Malformed,
            [key(field, WireType::LengthDelimited), vec![100, 1]].concat(),
        );
        add(
            "a length of 2^64",
            What::Malformed,
            [key(field, WireType::LengthDelimited), vec![0xff; 9], vec![1]].concat(),
        );
    } else if !matches!(kind, Kind::Double) {
        if !field.is_list() {
            // A block of numbers is how a list of them looks.
            add("text on the wire", What::Malformed, block(field, b"text"));
        }
        add(
            "a number of eleven bytes",
            What::Malformed,
            [key(field, WireType::Varint), vec![0xff; 10], vec![1]].concat(),
        );
        add("a number that is cut off", What::Malformed, [key(field, WireType::Varint), vec![0x80]].concat());
    }
    if !matches!(kind, Kind::Double) {
        add("eight bytes on the wire", What::Malformed, fixed64(field, [1; 8]));
    }
    add("four bytes on the wire", What::Malformed, fixed32(field));
    add("a group on the wire", What::Malformed, key(field, WireType::StartGroup));
    add("an end of a group", What::Malformed, key(field, WireType::EndGroup));
    match kind {
        Kind::String | Kind::Bytes => texts(path, &mut cases),
        Kind::Message(_) => {
            for (name, kind, value) in [
                ("nothing", What::Value, &b""[..]),
                ("garbage", What::Malformed, &[0xff; 40]),
                ("zeros", What::Malformed, &[0; 40]),
            ] {
                cases.push(Case { name: name.to_owned(), kind, bytes: block(field, value) });
            }
        }
        Kind::Double => {
            for (name, kind, value) in [
                ("not a number", What::Refused, f64::NAN),
                ("infinity", What::Refused, f64::INFINITY),
                ("minus infinity", What::Refused, f64::NEG_INFINITY),
                ("a negative number", What::Refused, -0.5),
                ("minus zero", What::Refused, -0.0),
                ("a huge number", What::Refused, 1e308),
                ("the smallest number", What::Value, f64::MIN_POSITIVE),
                ("one", What::Value, 1.0),
            ] {
                let bytes = fixed64(field, value.to_le_bytes());
                cases.push(Case { name: name.to_owned(), kind, bytes });
            }
        }
        _ => {
            for value in [0, 1, 2, 1 << 31, 1 << 32, (1 << 53) - 1, 1 << 53, 1 << 63, u64::MAX - 1, u64::MAX]
            {
                let bytes = varint(field, value);
                let kind = if is_legal(&kind, value) { What::Value } else { What::Refused };
                cases.push(Case { name: value.to_string(), kind, bytes });
            }
        }
    }
    cases
}

/// Whether an enum has a number; other fields judge their numbers themselves. Decoders take the lower 32 bits of an enum.
fn is_legal(kind: &Kind, value: u64) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "as decoders do")]
    let number = value as u32 as i32;
    kind.as_enum().is_none_or(|known| known.get_value(number).is_some())
}

fn texts(path: &Path, cases: &mut Vec<Case>) {
    let field = path.last();
    let mut add = |name: &str, kind, value: &[u8]| {
        cases.push(Case { name: name.to_owned(), kind, bytes: block(field, value) });
    };
    // Bytes may be any.
    let no_text = if field.kind() == Kind::Bytes { What::Value } else { What::Malformed };
    add("nothing", What::Value, b"");
    add("an unknown word", What::Value, b"xyzzy");
    add("\"..\"", What::Value, b"..");
    add("\"../../etc/passwd\"", What::Value, b"../../etc/passwd");
    add("a path from the root", What::Value, b"/etc/passwd");
    add("a zero", What::Value, b"a\0b");
    add("control characters", What::Value, b"\x01\x1b[2J\x7f\r\n");
    add("text from right to left", What::Value, "\u{202e}abc\u{2066}".as_bytes());
    add("a number", What::Value, b"-1");
    add("a UUID that nobody has", What::Value, uuid::Uuid::now_v7().to_string().as_bytes());
    add("a UUID of zeros", What::Value, b"00000000-0000-0000-0000-000000000000");
    add("a UUID in braces", What::Value, b"{018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f1}");
    add("bytes that are no text", no_text, b"\xff\xfe");
    add("half of a character", no_text, "é".as_bytes().split_at(1).0);
    add("a surrogate in bytes", no_text, b"\xed\xa0\x80");
    add("10 KiB", What::Value, &[b'x'; 10 << 10]);
    add("1 MiB", What::Value, &vec![b'x'; 1 << 20]);
    add("more than is allowed", What::TooLarge, &vec![b'x'; (1 << 20) + (65 << 10)]);
    if field.name().ends_with("_json") {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
        let objects =
            |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)).into_bytes();
        for depth in [100, 120, 124, 125, 126, 127] {
            add(&format!("{depth} arrays"), What::Value, &nested(depth));
            add(&format!("{depth} objects"), What::Value, &objects(depth));
        }
        for depth in [128, 1000, 100_000] {
            add(&format!("{depth} arrays"), What::Refused, &nested(depth));
            add(&format!("{depth} objects"), What::Refused, &objects(depth));
        }
        let long = format!("{{\"{}\":1,\"{0}\":2}}", "k".repeat(500_000));
        for (name, value) in [
            ("a key twice", r#"{"role":"user","a":1,"a":1}"#),
            ("a key twice, once escaped", r#"{"role":"user","a":1,"\u0061":1}"#),
            ("a long key twice", &long),
            ("half an object", r#"{"role":"#),
            ("two values", "{} {}"),
            ("a comma at the end", "[1,]"),
            ("not JSON", "NaN"),
            ("a number beyond all", "[1e999]"),
            ("an unknown escape", r#"["\x41"]"#),
            ("a control character in text", "[\"\n\"]"),
            ("a byte order mark", "\u{feff}{}"),
        ] {
            add(name, What::Refused, value.as_bytes());
        }
        for (name, value) in [
            ("a lone surrogate", r#"{"role":"user","content":"\ud800"}"#),
            ("the wrong half first", r#"{"role":"user","content":"\udc00\ud800"}"#),
            ("an empty object", "{}"),
            ("an empty array", "[]"),
            ("null", "null"),
            ("text", "\"x\""),
            ("a large number", r#"{"role":"user","n":123456789012345678901234567890}"#),
            ("an unknown role", r#"{"role":"xyzzy"}"#),
            ("a long role", &format!(r#"{{"role":"{}"}}"#, "x".repeat(60_000))),
            ("content of the wrong kind", r#"{"role":"user","content":7}"#),
        ] {
            add(name, What::Value, value.as_bytes());
        }
    }
}

/// Fields of all kinds that are in no message.
pub(crate) fn unknown_fields() -> Vec<Vec<u8>> {
    let key = |number, wire| {
        let mut bytes = Vec::new();
        encode_key(number, wire, &mut bytes);
        bytes
    };
    vec![
        [key(1000, WireType::Varint), vec![1]].concat(),
        [key(1000, WireType::SixtyFourBit), vec![1; 8]].concat(),
        [key(1000, WireType::ThirtyTwoBit), vec![1; 4]].concat(),
        [key(1000, WireType::LengthDelimited), vec![3, 0xff, 0xff, 0xff]].concat(),
        [key(1000, WireType::StartGroup), key(7, WireType::Varint), vec![1], key(1000, WireType::EndGroup)]
            .concat(),
        [key((1 << 29) - 1, WireType::Varint), vec![1]].concat(),
    ]
}
