//! How long the lists of a request may be. They are counted on the wire: an element that is empty there takes two
//! bytes, and hundreds once it is decoded.

/// A list of a request: where it is, as numbers of fields, its name, and how many elements it may have in all.
type List = (&'static [u32], &'static str, usize);

/// Calls of all messages of a request.
const CALLS: usize = 16_384;
/// Words of a filter.
const WORDS: usize = 1024;
/// New messages of a request.
const MESSAGES: usize = 1024;

/// Directives of each kind.
const DIRECTIVES: usize = 64;
/// Tools whose outputs are never trimmed.
const TOOLS: usize = 64;
/// Messages that a summary leaves as they are.
const KEPT: usize = 256;

/// Lists of numbers: they may stand in one block.
const NUMBERS: &[&str] = &["keep_seqs", "filter.statuses", "kinds"];

/// The lists of a request, by its name.
pub(crate) fn of(request: &str) -> &'static [List] {
    match request {
        "AppendMessageRequest" => &[(&[2, 1, 5], "message.fields.tool_calls", CALLS)],
        "AppendMessagesRequest" | "ChatRequest" => {
            &[(&[2], "messages", MESSAGES), (&[2, 1, 5], "messages.fields.tool_calls", CALLS)]
        }
        "StartTaskRequest" => &[
            (&[4, 6, 16], "config.compression.summary_directives", DIRECTIVES),
            (&[4, 6, 18], "config.compression.retain_directives", DIRECTIVES),
            (&[4, 10, 6], "config.outputs.protected_tools", TOOLS),
        ],
        "UpdateTaskRequest" => &[
            (&[2, 6, 16], "config.compression.summary_directives", DIRECTIVES),
            (&[2, 6, 18], "config.compression.retain_directives", DIRECTIVES),
            (&[2, 10, 6], "config.outputs.protected_tools", TOOLS),
        ],
        "CompressRequest" | "BeginCompactionRequest" => &[
            (&[3, 16], "overrides.summary_directives", DIRECTIVES),
            (&[3, 18], "overrides.retain_directives", DIRECTIVES),
        ],
        "CommitCompactionRequest" => &[(&[5], "keep_seqs", KEPT)],
        "ListTasksRequest" => &[(&[1, 1], "filter.statuses", WORDS)],
        "StreamMessagesRequest" => &[(&[6], "kinds", WORDS)],
        _ => &[],
    }
}

/// The first list that is too long.
pub(crate) fn too_long(request: &str, bytes: &[u8]) -> Option<&'static List> {
    of(request).iter().find(|(path, name, most)| count(bytes, path, *most, NUMBERS.contains(name)) > *most)
}

/// Elements of a list, but not many more than `most`. Where the bytes are no message, the rest is not counted: it is not
/// decoded either.
fn count(mut bytes: &[u8], path: &[u32], most: usize, numbers: bool) -> usize {
    let Some((field, below)) = path.split_first() else {
        // Each number of a block ends with the first byte that says so.
        return if numbers { bytes.iter().filter(|byte| **byte < 0x80).count() } else { 1 };
    };
    let mut found = 0;
    while found <= most {
        let Some(key) = varint(&mut bytes) else { break };
        let value = match key & 7 {
            0 => varint(&mut bytes).map(|_| &[][..]),
            1 => take(&mut bytes, 8),
            2 => varint(&mut bytes).and_then(|len| take(&mut bytes, usize::try_from(len).ok()?)),
            3 => skip_group(&mut bytes).map(|()| &[][..]),
            5 => take(&mut bytes, 4),
            _ => None,
        };
        let Some(value) = value else { break };
        if key >> 3 == u64::from(*field) {
            found += match key & 7 {
                2 => count(value, below, most - found, numbers),
                0 if numbers && below.is_empty() => 1,
                _ => 0,
            };
        }
    }
    found
}

/// Skips the rest of a group, which the decoder skips too, with all groups in it. Whether they end as they began is for the
/// decoder to say.
fn skip_group(bytes: &mut &[u8]) -> Option<()> {
    let mut depth = 1;
    while depth > 0 {
        match varint(bytes)? & 7 {
            0 => drop(varint(bytes)?),
            1 => drop(take(bytes, 8)?),
            2 => {
                let len = varint(bytes)?;
                take(bytes, usize::try_from(len).ok()?)?;
            }
            3 => depth += 1,
            4 => depth -= 1,
            5 => drop(take(bytes, 4)?),
            _ => return None,
        }
    }
    Some(())
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;
    use prost_types::field_descriptor_proto::Type;

    use super::*;
    use crate::v1;

    #[test]
    fn every_list_of_every_request_has_a_limit() {
        let files = prost_types::FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).unwrap();
        let ours = files.file.iter().filter(|file| file.package() == "contextstore.v1");
        let messages: Vec<_> = ours.flat_map(|file| &file.message_type).collect();
        let find = |name: &str| messages.iter().find(|message| message.name() == name).unwrap();
        let mut todo: Vec<(&str, &str, Vec<u32>, String)> = messages
            .iter()
            .filter(|message| message.name().ends_with("Request"))
            .map(|message| (message.name(), message.name(), Vec::new(), String::new()))
            .collect();
        let mut there = BTreeSet::new();
        while let Some((request, inside, path, name)) = todo.pop() {
            for field in &find(inside).field {
                let number = u32::try_from(field.number()).unwrap();
                let path = [&path[..], &[number]].concat();
                let dot = if name.is_empty() { "" } else { "." };
                let name = format!("{name}{dot}{}", field.name());
                if field.label() == prost_types::field_descriptor_proto::Label::Repeated {
                    there.insert((request, path.clone(), name.clone()));
                    let is_block = matches!(field.r#type(), Type::String | Type::Bytes | Type::Message);
                    assert_eq!(NUMBERS.contains(&name.as_str()), !is_block, "{request}: {name}");
                }
                if field.r#type() == Type::Message
                    && let Some(below) = field.type_name().strip_prefix(".contextstore.v1.")
                {
                    todo.push((request, below, path, name));
                }
            }
        }
        let requests: BTreeSet<&str> = messages.iter().map(|message| message.name()).collect();
        let told: BTreeSet<_> = requests
            .iter()
            .flat_map(|request| {
                of(request).iter().map(move |(path, name, _)| (*request, path.to_vec(), (*name).to_owned()))
            })
            .collect();
        assert_eq!(told, there);
    }

    #[test]
    fn elements_are_counted_wherever_they_are() {
        let call = v1::ToolCall::default();
        let new = |calls| {
            let fields = v1::Message { tool_calls: vec![call.clone(); calls], ..Default::default() };
            v1::NewMessage { body: Some(v1::new_message::Body::Fields(fields)), ..Default::default() }
        };
        let request = |messages| v1::AppendMessagesRequest {
            task_uuid: "x".repeat(300),
            lease_generation: u64::MAX,
            messages,
        };
        let name = |bytes: &[u8]| too_long("AppendMessagesRequest", bytes).map(|(_, name, _)| *name);
        let of = |messages| name(&request(messages).encode_to_vec());
        let empty = v1::NewMessage::default();
        let most = [vec![new(CALLS)], vec![empty.clone(); MESSAGES - 1]].concat();
        assert_eq!(of(most), None);
        assert_eq!(of(vec![empty; MESSAGES + 1]), Some("messages"));
        assert_eq!(of(vec![new(CALLS + 1)]), Some("messages.fields.tool_calls"));
        assert_eq!(of(vec![new(CALLS / 2), new(CALLS / 2)]), None);
        assert_eq!(of(vec![new(CALLS / 2), new(CALLS / 2), new(1)]), Some("messages.fields.tool_calls"));
        let kept =
            |keep_seqs| v1::CommitCompactionRequest { keep_seqs, ..Default::default() }.encode_to_vec();
        let name_of_kept =
            |bytes: &[u8]| too_long("CommitCompactionRequest", bytes).map(|(_, name, _)| *name);
        assert_eq!(name_of_kept(&kept(vec![u64::MAX; KEPT])), None);
        assert_eq!(name_of_kept(&kept(vec![1000; KEPT + 1])), Some("keep_seqs"));
        // One by one, as an old encoder has them.
        let alone: Vec<u8> = [5 << 3, 1].repeat(KEPT + 1);
        assert_eq!((name_of_kept(&alone[2..]), name_of_kept(&alone)), (None, Some("keep_seqs")));
        // Groups are skipped, wherever they are.
        let group = [0x9b, 6, 0x93, 6, 0x08, 7, 0x12, 1, 0, 0x94, 6, 0x9c, 6];
        let behind = [&group[..], &alone].concat();
        v1::CommitCompactionRequest::decode(&behind[..]).unwrap();
        assert_eq!(name_of_kept(&behind), Some("keep_seqs"));
        // What is cut off is for the decoder to say.
        let bytes = request(vec![new(2), new(0)]).encode_to_vec();
        assert!((0..bytes.len()).all(|end| name(&bytes[..end]).is_none()));
    }
}
