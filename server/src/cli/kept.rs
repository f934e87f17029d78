//! Tool outputs for reading commands, from a running server or from a data directory. Both return the same.

use chrono::SecondsFormat;
use contextstore_client::{Grep as Search, Outputs, ReadOutput, v1};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::Failure;
use super::reader::Reader;
use crate::model::{InvalidField, StoreError, TaskId};
use crate::outputs::{BadPattern, Found, Grep, GrepOptions, Lines, Matches, MediaKind, OutputName, Raw};
use crate::store::{Output, Store};

/// Bytes per read.
const CHUNK: usize = 128 << 10;
/// Outputs per request.
const PAGE: usize = 100;
/// Longest line, in characters.
const LINE: usize = 2000;

type TakeBytes<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), Failure>;
type Take<'a, T> = &'a mut dyn FnMut(T) -> Result<(), Failure>;

/// The source of tool outputs.
pub(super) enum Kept<'a> {
    Server(&'a Runtime, &'a contextstore_client::Client),
    Directory(&'a Store),
}

/// The metadata of an output.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) byte_size: u64,
    pub(super) line_count: u64,
    pub(super) media_type: String,
    pub(super) blake3: String,
    pub(super) tool_name: String,
    pub(super) tool_call_id: String,
    pub(super) create_time: String,
    pub(super) bytes_on_disk: u64,
    pub(super) compressed: bool,
}

impl From<v1::ToolOutput> for Listed {
    fn from(output: v1::ToolOutput) -> Self {
        let named = output.r#ref.unwrap_or_default();
        let time = output.create_time.unwrap_or_default();
        let time = chrono::DateTime::from_timestamp(time.seconds, u32::try_from(time.nanos).unwrap_or(0));
        Self {
            id: named.id,
            byte_size: named.byte_size,
            line_count: named.line_count,
            media_type: named.media_type,
            blake3: named.blake3,
            tool_name: output.tool_name,
            tool_call_id: output.tool_call_id,
            create_time: time.map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default(),
            bytes_on_disk: output.bytes_on_disk,
            compressed: output.compressed,
        }
    }
}

impl From<&Output> for Listed {
    fn from(output: &Output) -> Self {
        let head = &output.meta.head;
        Self {
            id: output.name.to_string(),
            byte_size: head.byte_size,
            line_count: head.line_count,
            media_type: head.media_type.clone(),
            blake3: head.blake3.clone(),
            tool_name: head.tool_name.clone(),
            tool_call_id: head.tool_call_id.clone(),
            create_time: head.created_at.to_rfc3339_opts(SecondsFormat::Secs, true),
            bytes_on_disk: output.bytes_on_disk(),
            compressed: output.content.is_packed(),
        }
    }
}

impl<'a> Kept<'a> {
    pub(super) fn of(reader: &'a Reader) -> Self {
        match reader {
            Reader::Server { runtime, client } => Self::Server(runtime, client),
            Reader::Directory(store) => Self::Directory(store),
        }
    }

    pub(super) fn stat(&self, id: TaskId, output: OutputName) -> Result<Listed, Failure> {
        match self {
            Self::Server(runtime, client) => {
                Ok(runtime.block_on(outputs(client, id).stat(&output.to_string()))?.into())
            }
            Self::Directory(store) => Ok((&store.output(id, output)?).into()),
        }
    }

    pub(super) fn list(&self, id: TaskId, take: Take<'_, Listed>) -> Result<(), Failure> {
        match self {
            Self::Server(runtime, client) => {
                let mut token = String::new();
                loop {
                    let page = runtime.block_on(outputs(client, id).list(0, &token))?;
                    page.outputs.into_iter().try_for_each(|output| take(output.into()))?;
                    token = page.next_page_token;
                    if token.is_empty() {
                        return Ok(());
                    }
                }
            }
            Self::Directory(store) => {
                let mut after = None;
                loop {
                    let page = store.outputs_after(id, after, PAGE)?;
                    let Some(last) = page.last() else { return Ok(()) };
                    after = Some(*last);
                    for output in page {
                        take((&store.output(id, output)?).into())?;
                    }
                }
            }
        }
    }

    pub(super) fn lines(
        &self,
        id: TaskId,
        output: OutputName,
        read: ReadOutput,
        take: TakeBytes<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Server(runtime, client) => {
                let chunks = outputs(client, id).read(&output.to_string(), read);
                take_all(runtime, chunks, take)
            }
            Self::Directory(store) => {
                let bad = |error| store.bad_output(id, output, error);
                let Output { content, meta, .. } = store.output(id, output)?;
                let mut lines = Lines::new(content, &meta, read.offset, read.limit, 0).map_err(bad)?;
                loop {
                    let mut chunk = Vec::new();
                    let more = lines.step(&mut chunk, CHUNK).map_err(bad)?.more;
                    take(&chunk)?;
                    if !more {
                        return Ok(());
                    }
                }
            }
        }
    }

    pub(super) fn bytes(
        &self,
        id: TaskId,
        output: OutputName,
        offset: u64,
        limit: u64,
        take: TakeBytes<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Server(runtime, client) => {
                let chunks = outputs(client, id).read_raw(&output.to_string(), offset, limit);
                take_all(runtime, chunks, take)
            }
            Self::Directory(store) => {
                let bad = |error| store.bad_output(id, output, error);
                let Output { content, meta, .. } = store.output(id, output)?;
                let mut raw = Raw::new(content, &meta, offset, limit).map_err(bad)?;
                loop {
                    let mut chunk = Vec::new();
                    let more = raw.step(&mut chunk, CHUNK).map_err(bad)?.more;
                    take(&chunk)?;
                    if !more {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Passes on matching lines and returns their number.
    pub(super) fn grep(
        &self,
        id: TaskId,
        search: Search,
        take: Take<'_, v1::GrepLine>,
    ) -> Result<u64, Failure> {
        match self {
            Self::Server(runtime, client) => {
                let mut batches = outputs(client, id).grep(search);
                let mut matches = 0;
                while let Some(batch) = runtime.block_on(batches.try_next())? {
                    matches = batch.matches.unwrap_or(matches);
                    batch.lines.into_iter().try_for_each(&mut *take)?;
                }
                Ok(matches)
            }
            Self::Directory(store) => grep_in(store, id, &search, take),
        }
    }
}

fn outputs(client: &contextstore_client::Client, id: TaskId) -> Outputs {
    client.task(id.to_string()).outputs()
}

fn take_all(
    runtime: &Runtime,
    mut chunks: contextstore_client::Items<bytes::Bytes>,
    take: TakeBytes<'_>,
) -> Result<(), Failure> {
    while let Some(chunk) = runtime.block_on(chunks.try_next())? {
        take(&chunk)?;
    }
    Ok(())
}

fn grep_in(store: &Store, id: TaskId, search: &Search, take: Take<'_, v1::GrepLine>) -> Result<u64, Failure> {
    let grep = Grep::new(GrepOptions {
        pattern: search.pattern.clone(),
        ignore_case: search.ignore_case,
        fixed: search.fixed,
        before: search.before as usize,
        after: search.after as usize,
        max_line_length: LINE,
    });
    let bad = |BadPattern(problem)| InvalidField::new("pattern", format!("cannot be used: {problem}"));
    let grep = grep.map_err(bad).map_err(StoreError::from)?;
    let named = OutputName::parse(&search.ref_id);
    let mut page: Vec<OutputName> = named.into_iter().collect();
    let (mut after, mut matches) = (None, 0);
    loop {
        if named.is_none() {
            let next = store.outputs_after(id, after, PAGE)?;
            after = next.last().copied();
            page = next.into_iter().map(OutputName::from).collect();
        }
        if page.is_empty() {
            return Ok(matches);
        }
        for output in page.drain(..) {
            let Output { content, meta, .. } = store.output(id, output)?;
            if search.ref_id.is_empty() && MediaKind::of(&meta.head.media_type) != MediaKind::Text {
                continue;
            }
            let left = search.max_matches.saturating_sub(matches);
            let mut lines = Printed { of: output.to_string(), take: &mut *take, failed: None };
            // There is no time-out; the user can interrupt the command.
            let searched = grep.search(content, left, &mut lines, &mut std::time::Duration::MAX.clone());
            if let Some(failed) = lines.failed {
                return Err(failed);
            }
            let searched = searched.map_err(|error| store.bad_output(id, output, error))?;
            matches += searched.matches;
            if searched.limited {
                return Ok(matches);
            }
        }
    }
}

struct Printed<'a> {
    of: String,
    take: Take<'a, v1::GrepLine>,
    failed: Option<Failure>,
}

impl Matches for Printed<'_> {
    fn take(&mut self, found: Found) -> bool {
        let line = v1::GrepLine {
            ref_id: self.of.clone(),
            line_number: found.line_number,
            text: found.text,
            is_match: found.is_match,
            gap_before: found.gap_before,
        };
        self.failed = (self.take)(line).err();
        self.failed.is_none()
    }

    fn waits(&self) -> bool {
        self.failed.is_none()
    }
}
