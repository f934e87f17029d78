//! A view in memory, made as the store makes it, and bodies that are rendered from it.

use contextstore_base::model::{Json, NewMessage, StoreError};
use contextstore_policy::render::{Provider, RenderOptions, Rendering, ViewLine, ViewSource};
use contextstore_store::log::{ShownMessage, ViewState};

/// The two files of a view.
#[derive(Default, Clone)]
pub(crate) struct View {
    state: ViewState,
    seq: u64,
    lines: Vec<u8>,
    extra: Vec<u8>,
}

impl View {
    /// The view of messages as AppendMessage gets them.
    pub(crate) fn of(messages: &[String]) -> Self {
        let mut view = Self::default();
        for message in messages {
            view.append(message);
        }
        view
    }

    pub(crate) fn append(&mut self, message: &str) {
        let message = NewMessage::from_json(message).unwrap_or_else(|error| panic!("{error}: {message}"));
        self.seq += 1;
        let json = |value: &Option<Json>| value.as_ref().map(|value| value.as_str().to_owned());
        let (content, tool_name) = (json(&message.content), json(&message.tool_name));
        let (tool_calls, tool_call_id) = (json(&message.tool_calls), json(&message.tool_call_id));
        let (name, extra) = (json(&message.name), json(&message.extra));
        let shown = ShownMessage {
            seq: self.seq,
            role: message.role,
            tokens: 0,
            content: content.as_deref(),
            tool_name: tool_name.as_deref(),
            tool_calls: tool_calls.as_deref(),
            tool_call_id: tool_call_id.as_deref(),
            name: name.as_deref(),
            extra: extra.as_deref(),
            trimmed: false,
        };
        self.state.push(&shown, &mut self.lines, &mut self.extra);
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        std::str::from_utf8(&self.lines).unwrap().split_terminator('\n')
    }

    /// How many calls wait for a result.
    pub(crate) fn open_calls(&self) -> usize {
        self.state.open_calls.len()
    }

    pub(crate) fn render(&self, options: RenderOptions) -> Vec<u8> {
        let mut rendering = Rendering::new(options, self.source());
        let mut body = Vec::new();
        while rendering.next(&mut body).unwrap() {}
        assert_eq!(rendering.written(), body.len() as u64);
        body
    }

    pub(crate) fn source(&self) -> Lines {
        let split = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let lines = std::str::from_utf8(bytes).unwrap().split_terminator('\n');
            lines.map(|line| line.as_bytes().to_vec()).collect()
        };
        let mut extras = split(&self.extra).into_iter().peekable();
        let mut found = Vec::new();
        for (at, line) in split(&self.lines).into_iter().enumerate() {
            let own = format!("{{\"line\":{},", at + 1);
            found.push((line, extras.next_if(|extra| extra.starts_with(own.as_bytes()))));
        }
        assert!(extras.next().is_none(), "a line beside the view speaks of no line");
        Lines { lines: found, next: 0 }
    }
}

/// The lines of a view.
pub(crate) struct Lines {
    lines: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    next: usize,
}

impl ViewSource for Lines {
    fn next(&mut self) -> Result<Option<ViewLine<'_>>, StoreError> {
        let Some((line, extra)) = self.lines.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(ViewLine { line, extra: extra.as_deref() }))
    }
}

pub(crate) fn options(provider: Provider, params: &str, tools: &str) -> RenderOptions {
    RenderOptions::new(provider, "claude-opus-5", params, tools, 0).unwrap()
}
