//! Chat: parses the question, and sends the events of the answer.

use contextstore_app::chat::{self, ChatCall, ChatEvent, FinalAnswer};
use contextstore_proto::v1 as pb;
use futures_util::Stream;
use futures_util::stream::unfold;
use pb::chat_response::Event;
use prost::Message as _;

use super::serving::Serving;
use super::status::Refusal;
use super::{answer, append, convert, enums};
use crate::llm::{ToolCallDelta, Usage};
use crate::model::TaskId;

/// Begins a chat: everything that can be refused before a provider is asked is refused here.
pub(super) async fn begin(
    serving: &Serving,
    request: pb::ChatRequest,
) -> Result<impl Stream<Item = Result<pb::ChatResponse, Refusal>> + Send + use<>, Refusal> {
    let events = chat::begin(&serving.engine, question(serving, request)?).await?;
    Ok(unfold(events, |mut events| async {
        let item = events.recv().await?;
        let item = item.map(|event| pb::ChatResponse { event: Some(wire(event)) });
        Some((item.map_err(Refusal::from), events))
    }))
}

fn question(serving: &Serving, mut request: pb::ChatRequest) -> Result<ChatCall, Refusal> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    let named = enums::some("provider", request.provider)?;
    let (size, limit) = (request.encoded_len(), serving.limits.message_bytes);
    if request.messages.len() > 1 && size > limit {
        let (size, limit) = (size as u64, limit as u64);
        return Err(Refusal::TooLarge { size, limit });
    }
    let messages = std::mem::take(&mut request.messages);
    let appends = append::whole(size > append::INLINE_BYTES, || convert::chat_messages(messages, &caller))?;
    let pb::ChatRequest { model, params_json, tools_json, .. } = request;
    Ok(ChatCall { id, caller, provider: named, model, params_json, tools_json, appends })
}

fn wire(event: ChatEvent) -> Event {
    match event {
        ChatEvent::Started { seqs, provider, model } => {
            Event::Started(pb::ChatStarted { seqs, provider: enums::number(provider), model })
        }
        ChatEvent::Text(text) => Event::Text(text),
        ChatEvent::Reasoning(text) => Event::Reasoning(text),
        ChatEvent::ToolCall(ToolCallDelta { index, id, name, arguments, .. }) => {
            Event::ToolCall(pb::ChatToolCall { index, id, name, arguments })
        }
        ChatEvent::Usage(Usage { input, output, cache_creation, cache_read }) => {
            Event::Usage(pb::ChatUsage {
                input_tokens: input,
                output_tokens: output,
                cache_creation_tokens: cache_creation,
                cache_read_tokens: cache_read,
            })
        }
        ChatEvent::Done(FinalAnswer { seq, message_json, finish_reason, pressure, duplicate }) => {
            let pressure = Some(answer::pressure(&pressure));
            Event::Done(pb::ChatDone { seq, message_json, finish_reason, pressure, duplicate })
        }
    }
}
