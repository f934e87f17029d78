//! RenderContext: the view as the body of a request to a provider, rendered as it is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use futures_util::Stream;
use tokio::task::block_in_place;

use super::read::CHUNK_BYTES;
use super::serving::Serving;
use super::status::Refusal;
use super::{convert, enums};
use crate::context::Settings;
use crate::infra::metrics;
use crate::llm::answer_tokens;
use crate::model::{StoreError, TaskId};
use crate::render::{RenderOptions, Rendering, measure};
use crate::store::{Store, ViewLines, ViewSnapshot};
use contextstore_app::send;

/// Begins to render what a request asks for. A body that is too large is refused here, before anything is sent.
pub(super) async fn pieces(serving: &Serving, asked: &pb::RenderContextRequest) -> Result<Pieces, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let provider = enums::required("provider", asked.provider)?;
    let options_for = |view: &ViewSnapshot| {
        let model = if asked.model.is_empty() { &view.config.model } else { &asked.model };
        let max_bytes = match asked.max_bytes {
            // The server's own limit is for what is left out of views, not for what may be asked for.
            0 => Settings::of(&view.config).compression.max_request_bytes.unwrap_or(0),
            given => given,
        };
        RenderOptions::new(provider, model, &asked.params_json, &asked.tools_json, max_bytes)
    };
    let begin = |store: &Store| {
        let view = store.view_snapshot(id)?;
        let options = options_for(&view)?;
        if options.max_bytes().is_some() {
            measure(options.clone(), view.lines())?;
        }
        Ok(Rendering::new(options, view.lines()))
    };
    // What is wrong with them is told when the request is made.
    let tools = convert::tools(&asked.tools_json).ok().flatten();
    let note = |store: &Store| {
        let config = store.view_snapshot(id)?.config;
        let model = if asked.model.is_empty() { &config.model } else { &asked.model };
        store.note_asked(id, provider, model).map(drop)
    };
    serving.engine.with(note).await?;
    Box::pin(serving.engine.fit(id, tools.as_ref(), answer_tokens(&asked.params_json))).await?;
    let rendering = serving
        .engine
        .with(|store| {
            // A view that grew too large just now is not waited for by anybody else.
            send::prepare(store, id)?;
            match begin(store) {
                Err(StoreError::RequestTooLarge { .. }) if asked.max_bytes == 0 => {
                    send::make_room(store, id, &options_for(&store.view_snapshot(id)?)?)?;
                    begin(store)
                }
                begun => begun,
            }
        })
        .await?;
    Ok(Pieces { rendering: Some(rendering), ready: Bytes::new() })
}

/// A body, piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    /// None when it is complete.
    rendering: Option<Rendering<ViewLines>>,
    /// What was rendered and not handed out yet: a message can be larger than a piece.
    ready: Bytes,
}

impl Pieces {
    fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while self.ready.is_empty() {
            let Some(rendering) = &mut self.rendering else { return Ok(None) };
            let mut made = Vec::new();
            let more = block_in_place(|| rendering.next(&mut made))?;
            self.ready = made.into();
            if !more {
                self.rendering = None;
            }
        }
        Ok(Some(self.ready.split_to(self.ready.len().min(CHUNK_BYTES))))
    }
}

impl Stream for Pieces {
    type Item = Result<pb::RenderContextResponse, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = self.next();
        if piece.is_err() {
            self.rendering = None;
        }
        let answer = piece.map_err(Refusal::from).transpose();
        Poll::Ready(answer.map(|piece| {
            piece.map(|data| {
                metrics::bytes_streamed("RenderContext", data.len());
                pb::RenderContextResponse { data }
            })
        }))
    }
}
