//! Chat completions: the part that OpenAI and compatible servers share. Each dialect writes contents and calls in its
//! own way.

use std::fmt;
use std::marker::PhantomData;

use super::groups::IdRule;
use super::message::{MessageCall, ViewMessage};
use super::text::{push_json, push_quoted};
use super::{BodyWriter, CONTINUE, Provider, RenderOptions, push_constants, tools};
use crate::model::Role;

/// A dialect of chat completions.
pub(super) trait Dialect: Send + fmt::Debug {
    /// The provider.
    const PROVIDER: Provider;
    /// Most calls of one message; `None` means no limit.
    const MOST_CALLS: Option<usize>;

    /// Returns the role under which the provider knows a role.
    fn role(role: Role) -> Role;
    /// Writes the content of a message, and the fields beside it that depend on it.
    fn push_content(message: &ViewMessage<'_>, out: &mut Vec<u8>);
    /// Writes a call.
    fn push_call(call: &MessageCall<'_>, out: &mut Vec<u8>);
}

/// Writes `{"model":…,"tools":[…],"messages":[…]}`.
#[derive(Debug)]
pub(super) struct ChatWriter<D> {
    /// The role of the last message.
    last: Option<Role>,
    dialect: PhantomData<D>,
}

impl<D> Default for ChatWriter<D> {
    fn default() -> Self {
        Self { last: None, dialect: PhantomData }
    }
}

impl<D: Dialect> BodyWriter for ChatWriter<D> {
    fn ids(&self) -> IdRule {
        IdRule { max: 40, plain: false, once: false }
    }

    fn most_calls(&self) -> Option<usize> {
        D::MOST_CALLS
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        tools::push(out, options.tools(), D::PROVIDER);
        out.extend_from_slice(b"\"messages\":[");
    }

    fn push(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        if self.last.replace(message.role).is_some() {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(D::role(message.role).as_str().as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        D::push_content(message, out);
        if let Some(name) = message.name.as_ref().filter(|_| message.role != Role::Tool) {
            out.extend_from_slice(b",\"name\":");
            push_quoted(out, name);
        }
        if let Some(call) = &message.answers {
            out.extend_from_slice(b",\"tool_call_id\":");
            push_quoted(out, &call.id);
        }
        if !message.calls.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":[");
            for (index, call) in message.calls.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                D::push_call(call, out);
            }
            out.push(b']');
        }
        out.push(b'}');
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if matches!(self.last, None | Some(Role::Assistant)) {
            self.push(&ViewMessage::text(Role::User, CONTINUE), out);
        }
        out.extend_from_slice(b"]}");
    }
}

/// Writes a text part.
pub(super) fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    push_json(out, text);
    out.push(b'}');
}

/// Writes an image part from its bytes.
pub(super) fn push_image(media_type: &str, base64: &str, detail: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:");
    out.extend_from_slice(media_type.as_bytes());
    out.extend_from_slice(b";base64,");
    out.extend_from_slice(base64.as_bytes());
    out.push(b'"');
    push_detail(detail, out);
    out.extend_from_slice(b"}}");
}

/// Writes the detail level of an image.
pub(super) fn push_detail(detail: Option<&str>, out: &mut Vec<u8>) {
    if let Some(detail) = detail {
        out.extend_from_slice(b",\"detail\":");
        push_json(out, detail);
    }
}
