//! Messages to append.

use contextstore_proto::v1;
use contextstore_proto::v1::Role;
use contextstore_proto::v1::new_message::Body;

use crate::client::named;

/// A message to append: an OpenAI chat message as JSON, or by its fields.
///
/// ```
/// use contextstore_client::{NewMessage, v1};
///
/// NewMessage::user("It crashes.");
/// NewMessage::json(r#"{"role":"user","content":[{"type":"text","text":"It crashes."}]}"#).pinned();
/// NewMessage::from(v1::Message { role: v1::Role::Tool.into(), tool_call_id: "c1".into(), ..Default::default() });
/// ```
#[derive(Debug, Clone)]
pub struct NewMessage {
    body: Body,
    pinned: bool,
    output_ref: String,
    request_id: Option<String>,
    /// Of one that could not be appended.
    task_uuid: Option<String>,
}

impl NewMessage {
    /// A whole OpenAI chat message, as an SDK produced it: a JSON object with at least a role.
    pub fn json(message: impl Into<String>) -> Self {
        Self::new(Body::Json(message.into()))
    }

    /// A system prompt.
    pub fn system(content: impl Into<String>) -> Self {
        Self::text(Role::System, content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::text(Role::User, content)
    }

    /// What the model answers.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::text(Role::Assistant, content)
    }

    /// What a tool answers to a call of the model.
    pub fn tool(tool_call_id: impl Into<String>, content: impl Into<String>) -> Self {
        v1::Message {
            role: Role::Tool.into(),
            content: content.into(),
            tool_call_id: tool_call_id.into(),
            ..v1::Message::default()
        }
        .into()
    }

    fn text(role: Role, content: impl Into<String>) -> Self {
        v1::Message { role: role.into(), content: content.into(), ..v1::Message::default() }.into()
    }

    fn new(body: Body) -> Self {
        Self { body, pinned: false, output_ref: String::new(), request_id: None, task_uuid: None }
    }

    /// Pins it: no compaction takes it out of the view.
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Names the full output of a tool, of which the message holds a cut view.
    pub fn output_ref(mut self, output_ref: impl Into<String>) -> Self {
        self.output_ref = output_ref.into();
        self
    }

    /// Names the call, so that it can be sent again and is carried out once. Without one, the client makes one.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = named(Some(request_id.into()));
        self
    }

    /// The name of the call, if it has one: those of [`Error::not_appended`](crate::Error::not_appended) have.
    pub fn id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The task that it was to be appended to, if it is of [`Error::not_appended`](crate::Error::not_appended).
    pub fn task_uuid(&self) -> Option<&str> {
        self.task_uuid.as_deref()
    }

    pub(crate) fn of_task(self, task_uuid: &str) -> Self {
        Self { task_uuid: Some(task_uuid.to_owned()), ..self }
    }

    /// The same with a name.
    pub(crate) fn named_by(self, request_id: impl FnOnce() -> String) -> Self {
        Self { request_id: Some(self.request_id.unwrap_or_else(request_id)), ..self }
    }

    pub(crate) fn single(self, task_uuid: String, lease_generation: u64) -> v1::AppendMessageRequest {
        v1::AppendMessageRequest { task_uuid, message: Some(self.of_a_call()), lease_generation }
    }

    /// One of those that go with a call: without a name of its own it gets one that the server makes of the call's.
    pub(crate) fn of_a_call(self) -> v1::NewMessage {
        v1::NewMessage {
            body: Some(self.body),
            pinned: self.pinned,
            output_ref: self.output_ref,
            request_id: self.request_id.unwrap_or_default(),
        }
    }

    pub(crate) fn one_of_many(
        self,
        task_uuid: String,
        lease_generation: u64,
        request_id: impl FnOnce() -> String,
    ) -> v1::AppendMessagesRequest {
        let message = self.named_by(request_id).of_a_call();
        v1::AppendMessagesRequest { task_uuid, messages: vec![message], lease_generation }
    }
}

impl NewMessage {
    /// What [`NewMessage::one_of_many`] made a request of, with its name.
    pub(crate) fn of_request(mut request: v1::AppendMessagesRequest) -> Self {
        let message = request.messages.pop().unwrap_or_default();
        Self {
            body: message.body.unwrap_or_else(|| Body::Json(String::new())),
            pinned: message.pinned,
            output_ref: message.output_ref,
            request_id: named(Some(message.request_id)),
            task_uuid: None,
        }
    }
}

impl From<v1::Message> for NewMessage {
    fn from(message: v1::Message) -> Self {
        Self::new(Body::Fields(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_a_request_id() {
        let made = |message: NewMessage| message.named_by(|| "made".to_owned()).of_a_call().request_id;
        assert_eq!(made(NewMessage::user("hi")), "made");
        assert_eq!(made(NewMessage::user("hi").request_id("")), "made");
        assert_eq!(made(NewMessage::user("hi").request_id("given")), "given");
    }
}
