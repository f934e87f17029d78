//! A request of each method that is fine, so that what is wrong with a case is the one field that is not.

use contextstore_proto::v1::ErrorReason;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, Value};
use serde_json::json;

use super::values::{Case, Path};
use test_support::wire::Work;

/// All methods of both services.
pub(crate) fn methods() -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(contextstore_proto::FILE_DESCRIPTOR_SET).unwrap();
    pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// The ref of an output that no task has.
const NO_OUTPUT: &str = "out-00000000000000000000000000000000";

/// Methods that find nothing in a task that has only messages, and say so.
pub(crate) const EMPTY_HANDED: [(&str, ErrorReason); 9] = [
    ("ReadToolOutput", ErrorReason::OutputNotFound),
    ("StatToolOutput", ErrorReason::OutputNotFound),
    ("GrepToolOutput", ErrorReason::OutputNotFound),
    ("GetLatestPlan", ErrorReason::PlanNotFound),
    ("GetLatestSummary", ErrorReason::SummaryNotFound),
    ("CommitCompaction", ErrorReason::CompactionNotFound),
    ("AbortCompaction", ErrorReason::CompactionNotFound),
    ("UndoCompaction", ErrorReason::NothingToUndo),
    ("GetInheritanceContext", ErrorReason::WrongStatus),
];

/// What a method asks for, beside the task and its lease.
pub(crate) struct Base {
    request: serde_json::Value,
    /// Whether the task has to be paused.
    pub(crate) paused: bool,
    /// Whether the task is another one when the call has succeeded.
    pub(crate) ends: bool,
}

pub(crate) fn base(method: &str) -> Base {
    let holder = json!({"instanceId": "a", "processId": 7, "hostname": "here"});
    let request = match method {
        "StartTask" | "ResumeTask" | "ForkTask" => json!({"holder": holder}),
        "UpdateTask" => json!({"config": {}}),
        "AppendMessage" => json!({"message": {"fields": {"role": "ROLE_USER"}}}),
        "AppendMessages" => json!({"messages": [{"fields": {"role": "ROLE_USER"}}]}),
        "GetMessage" | "PinMessage" | "UnpinMessage" | "RewindTask" => json!({"seq": "1"}),
        "RenderContext" => json!({"provider": "PROVIDER_OPENAI", "model": "m"}),
        // Nobody is there; what is let in is not waited for.
        "Chat" => json!({"provider": "PROVIDER_OLLAMA", "model": "m"}),
        "RecordToolCall" => json!({"toolName": "ls"}),
        // Of two messages one is all there is to summarise.
        "BeginCompaction" => json!({"overrides": {"keepRecentMessages": 1, "minMessages": 1}}),
        // It is the whole output, of no bytes.
        "PutToolOutput" => json!({"header": {"content": "", "toolName": "ls", "toolCallId": "c"}}),
        "ReadToolOutput" | "StatToolOutput" => json!({"refId": NO_OUTPUT}),
        "GrepToolOutput" => json!({"pattern": "x"}),
        "AppendPlan" => json!({"planContentJson": "1"}),
        // They need nothing.
        _ => json!({}),
    };
    // A chat or a compression that nobody listens to any more takes a moment to end.
    let ends = [
        "PauseTask",
        "ResumeTask",
        "CompleteTask",
        "FailTask",
        "DeleteTask",
        "Chat",
        "Compress",
        "BeginCompaction",
    ]
    .contains(&method);
    Base { request, paused: method == "ResumeTask", ends }
}

/// Reasons that a value of a field may be refused with, beside being no value at all.
pub(crate) fn documented(field: &str) -> &'static [ErrorReason] {
    use ErrorReason as R;
    match field {
        "task_uuid" | "header.task_uuid" => &[R::TaskNotFound],
        "ref_id" => &[R::OutputNotFound],
        // Without a header there is none, and with data there are some before it.
        "header" | "data" | "part" => &[R::OutputMalformed],
        "lease_generation" | "header.lease_generation" => &[R::StaleLease, R::LeaseHeld, R::TaskNotFound],
        "seq" | "as_of_seq" | "at_seq" => &[R::MessageNotFound],
        "generation" => &[R::StaleView],
        "max_bytes" => &[R::RequestTooLarge],
        "strategy" | "overrides.strategy" | "config.compression.strategy" => &[R::LimitUnknown],
        "overrides" | "overrides.keep_recent_messages" | "overrides.min_messages" | "target_tokens" => {
            &[R::NothingToSummarize]
        }
        "inherit_from" => &[R::TaskNotFound, R::WrongStatus, R::NothingToInherit],
        "token" => &[R::CompactionNotFound],
        "provider" | "model" => &[R::ProviderNotConfigured],
        _ => &[],
    }
}

/// A field of a message in a list, as it is called by itself.
pub(crate) fn within_list(field: &str) -> &str {
    ["message.", "messages."].iter().find_map(|list| field.strip_prefix(list)).unwrap_or(field)
}

/// Fields that may be named instead, as the two are looked at together.
pub(crate) fn beside(field: &str) -> &'static [&'static str] {
    match within_list(field) {
        "from_seq" => &["to_seq"],
        "from_id" => &["to_id"],
        "follow" => &["to_seq"],
        "holder" => &["holder.instance_id"],
        "header" => &["header.task_uuid"],
        "data" => &["part"],
        "offset" => &["generation"],
        // As a whole it is known only as the choice that it is one of.
        "inherit_mode" | "inherit_from" => &["inherit"],
        "message" | "messages" => &["body"],
        "fields" => &["fields.role", "body"],
        "json" => &["json.role", "json.content", "fields", "body"],
        _ => &[],
    }
}

impl Base {
    /// The bytes of the request for a task, with one field as a case has it.
    pub(crate) fn encode(
        &self,
        method: &MethodDescriptor,
        work: &Work,
        case: Option<(&Path, &Case)>,
    ) -> Vec<u8> {
        let input = method.input();
        let mut request = self.request.clone();
        let fields = request.as_object_mut().unwrap();
        // A task that is started is a new one, so that no other is taken up by mistake.
        if input.get_field_by_name("task_uuid").is_some() && method.name() != "StartTask" {
            fields.insert("taskUuid".to_owned(), work.uuid.clone().into());
        }
        if input.get_field_by_name("lease_generation").is_some() && method.name() != "StartTask" {
            fields.insert("leaseGeneration".to_owned(), work.lease.to_string().into());
        }
        if let Some(header) = fields.get_mut("header").and_then(serde_json::Value::as_object_mut) {
            header.insert("taskUuid".to_owned(), work.uuid.clone().into());
            header.insert("leaseGeneration".to_owned(), work.lease.to_string().into());
        }
        let message = DynamicMessage::deserialize(input, &request).unwrap();
        match case {
            None => message.encode_to_vec(),
            Some((path, case)) => with(message, &path.0, &case.bytes),
        }
    }
}

/// A message with the bytes of one field, down a path, instead of what it has there.
fn with(mut message: DynamicMessage, path: &[prost_reflect::FieldDescriptor], bytes: &[u8]) -> Vec<u8> {
    let (field, below) = path.split_first().unwrap();
    let raw = if below.is_empty() {
        bytes.to_vec()
    } else {
        let inner = match message.get_field(field).as_ref() {
            Value::Message(inner) => inner.clone(),
            Value::List(_) => element(field),
            other => panic!("{other:?} has no fields"),
        };
        let inner = with(inner, below, bytes);
        let mut raw = Vec::new();
        prost::encoding::encode_key(field.number(), prost::encoding::WireType::LengthDelimited, &mut raw);
        prost::encoding::encode_varint(inner.len() as u64, &mut raw);
        raw.extend(inner);
        raw
    };
    message.clear_field(field);
    let mut all = message.encode_to_vec();
    all.extend(raw);
    all
}

/// One element of a list that is fine.
fn element(field: &prost_reflect::FieldDescriptor) -> DynamicMessage {
    let kind = field.kind();
    let descriptor = kind.as_message().unwrap();
    let fine = match descriptor.name() {
        "ToolCall" => json!({"id": "c", "name": "ls"}),
        "NewMessage" => json!({"fields": {"role": "ROLE_USER"}}),
        other => panic!("what is a fine {other}?"),
    };
    DynamicMessage::deserialize(descriptor.clone(), fine).unwrap()
}
