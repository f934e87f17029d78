//! Models: a turn of one, and the body of a request to one. Streams that have no place to go on from.

use bytes::Bytes;
use contextstore_proto::v1;
use contextstore_proto::v1::Provider;
use futures_util::stream::TryStreamExt;

use crate::client::call;
use crate::stream::{Items, Streamed};
use crate::{ChatEvent, Client, Error, NewMessage, Task};

/// How a model is asked. The default asks it to go on.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    /// Messages to append first.
    pub messages: Vec<NewMessage>,
    /// The provider to ask. Unspecified: what the task or the server is configured to ask.
    pub provider: Provider,
    /// The model. Empty: what the task or the server says.
    pub model: String,
    /// Parameters, in the provider's own words: a JSON object whose fields become fields of the body. Empty: none.
    pub params_json: String,
    /// Tools that the model may call: an array in the form of OpenAI's chat completions, whoever is asked. Empty:
    /// none.
    pub tools_json: String,
}

/// How the body of a request is made.
#[derive(Debug, Clone, Default)]
pub struct RenderRequest {
    /// The provider that the body is for; it must be specified.
    pub provider: Provider,
    /// The model. Empty: the task's.
    pub model: String,
    /// Parameters, as in [`Chat::params_json`].
    pub params_json: String,
    /// Tools, as in [`Chat::tools_json`].
    pub tools_json: String,
    /// A larger body is refused with [`ErrorReason::RequestTooLarge`](crate::ErrorReason::RequestTooLarge); 0: the
    /// task's own limit, if it has one.
    pub max_bytes: u64,
}

impl Task {
    /// How full the context is, as every append answers it, and how that is counted; with tools that are to be sent,
    /// as in [`Chat::tools_json`]. Takes the same time however long the context is.
    pub async fn context_usage(
        &self,
        tools_json: impl Into<String>,
    ) -> Result<v1::GetContextUsageResponse, Error> {
        let request =
            v1::GetContextUsageRequest { task_uuid: self.uuid().to_owned(), tools_json: tools_json.into() };
        call!(self.settled().await?, get_context_usage, request)
    }

    /// A turn of a model: appends the messages, sends the context, gives the answer as it arrives, appends it.
    ///
    /// [`ChatEvent::Started`] comes first and [`ChatEvent::Done`] last. Dropping the stream before that cancels the
    /// call, and what arrived stays in the log as interrupted. The call is repeated, under the same request id, while
    /// the server cannot be reached and nothing has come; never after that. To ask for the same turn again, use
    /// [`Task::with_request_id`]: what was answered is told again.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// use contextstore_client::{Chat, ChatEvent, NewMessage};
    ///
    /// let ask = Chat { messages: vec![NewMessage::user("Hello")], ..Default::default() };
    /// let mut answer = task.chat(ask);
    /// while let Some(event) = answer.try_next().await? {
    ///     if let ChatEvent::Text(text) = event {
    ///         print!("{text}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn chat(&self, ask: Chat) -> Items<ChatEvent> {
        let Chat { messages, provider, model, params_json, tools_json } = ask;
        let request = v1::ChatRequest {
            task_uuid: self.uuid().to_owned(),
            messages: messages.into_iter().map(NewMessage::of_a_call).collect(),
            provider: provider.into(),
            model,
            params_json,
            tools_json,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        self.behind(chat(self.client().clone(), request))
    }

    /// What the model sees as the body of a request to a provider, chunk by chunk, for an HTTP client of one's own. It
    /// is valid whatever happened to the task. A connection that breaks after the first chunk ends it: ask again.
    pub fn request(&self, render: RenderRequest) -> Items<Bytes> {
        let RenderRequest { provider, model, params_json, tools_json, max_bytes } = render;
        let task_uuid = self.uuid().to_owned();
        let wanted = v1::RenderContextRequest {
            task_uuid,
            provider: provider.into(),
            model,
            params_json,
            tools_json,
            max_bytes,
        };
        self.behind(request(self.client().clone(), wanted))
    }
}

fn chat(client: Client, request: v1::ChatRequest) -> Items<ChatEvent> {
    // A model may think for any time; the server watches over it.
    let streamed = Streamed::new(client, request, None, |mut raw, request| {
        Box::pin(async move { raw.chat(request).await })
    });
    // An event that only a newer client knows has none.
    Items::new(streamed.items().try_filter_map(async |response| Ok(response.event)))
}

fn request(client: Client, request: v1::RenderContextRequest) -> Items<Bytes> {
    let silence = client.settings().timeout;
    let streamed = Streamed::new(client, request, Some(silence), |mut raw, request| {
        Box::pin(async move { raw.render_context(request).await })
    });
    Items::new(streamed.items().map_ok(|part| part.data))
}
