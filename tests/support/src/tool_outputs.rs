//! Outputs of tools by the generated client: put, read, searched.

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::put_tool_output_request::Part;
use contextstore_proto::v1::tool_outputs_client::ToolOutputsClient;
use tonic::Status;
use tonic::transport::Channel;

use crate::server::TestServer;
use crate::wire::{Work, all, channel};

/// Calls by their generated names.
pub type Outputs = ToolOutputsClient<Channel>;

/// Calls on a connection of their own.
pub async fn outputs(server: &TestServer) -> Outputs {
    Outputs::new(channel(&server.socket()).await).max_decoding_message_size(usize::MAX)
}

/// An output that is only kept.
pub fn header(work: &Work) -> pb::PutToolOutputHeader {
    pb::PutToolOutputHeader {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        ..pb::PutToolOutputHeader::default()
    }
}

/// An output that answers a call, recorded and appended.
pub fn answering(work: &Work, call: &str) -> pb::PutToolOutputHeader {
    pb::PutToolOutputHeader {
        tool_name: "bash".to_owned(),
        tool_call_id: call.to_owned(),
        append: true,
        record: Some(pb::OutputRecord { arguments_json: r#"{"c":"ls"}"#.to_owned(), ..Default::default() }),
        ..header(work)
    }
}

/// Sends a header and data as they are.
pub async fn send(outputs: &mut Outputs, parts: Vec<Part>) -> Result<pb::PutToolOutputResponse, Status> {
    let requests = parts.into_iter().map(|part| pb::PutToolOutputRequest { part: Some(part) });
    let requests: Vec<_> = requests.collect();
    outputs.put_tool_output(tokio_stream::iter(requests)).await.map(tonic::Response::into_inner)
}

/// Puts an output in pieces.
pub async fn put(
    outputs: &mut Outputs,
    header: pb::PutToolOutputHeader,
    bytes: &[u8],
) -> Result<pb::PutToolOutputResponse, Status> {
    let data = bytes.chunks(200_000).map(|piece| Part::Data(Bytes::copy_from_slice(piece)));
    send(outputs, [Part::Header(header)].into_iter().chain(data).collect()).await
}

/// Puts an output that is only kept; answers its ref.
pub async fn keep(outputs: &mut Outputs, work: &Work, bytes: &[u8]) -> String {
    put(outputs, header(work), bytes).await.unwrap().r#ref.unwrap().id
}

/// What a task has to say of an output.
pub fn reading(work: &Work, id: &str) -> pb::ReadToolOutputRequest {
    pb::ReadToolOutputRequest {
        task_uuid: work.uuid.clone(),
        ref_id: id.to_owned(),
        ..pb::ReadToolOutputRequest::default()
    }
}

/// Reads to the end.
pub async fn read(outputs: &mut Outputs, request: pb::ReadToolOutputRequest) -> Result<Vec<u8>, Status> {
    let chunks = all(outputs.read_tool_output(request).await).await?;
    Ok(chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect())
}

/// The bytes of an output as they are.
pub async fn bytes_of(outputs: &mut Outputs, work: &Work, id: &str) -> Result<Vec<u8>, Status> {
    read(outputs, pb::ReadToolOutputRequest { raw: true, ..reading(work, id) }).await
}

/// Numbered lines of an output.
pub async fn lines_of(outputs: &mut Outputs, work: &Work, id: &str, (offset, limit): (u64, u64)) -> String {
    let request = pb::ReadToolOutputRequest { offset, limit, ..reading(work, id) };
    String::from_utf8(read(outputs, request).await.unwrap()).unwrap()
}

/// What a search asks for.
pub fn searching(work: &Work, id: &str, pattern: &str) -> pb::GrepToolOutputRequest {
    pb::GrepToolOutputRequest {
        task_uuid: work.uuid.clone(),
        ref_id: id.to_owned(),
        pattern: pattern.to_owned(),
        ..pb::GrepToolOutputRequest::default()
    }
}

/// All lines of a search, how many matched, and whether it ended early.
pub async fn grep(
    outputs: &mut Outputs,
    request: pb::GrepToolOutputRequest,
) -> Result<(Vec<pb::GrepLine>, u64, bool), Status> {
    let batches = all(outputs.grep_tool_output(request).await).await?;
    let last = batches.last().unwrap();
    let (matches, limited) = (last.matches.unwrap(), last.limited);
    assert!(batches[..batches.len() - 1].iter().all(|batch| batch.matches.is_none()));
    Ok((batches.into_iter().flat_map(|batch| batch.lines).collect(), matches, limited))
}

/// Collects what nobody names, whatever its age.
pub async fn collect(outputs: &mut Outputs, work: &Work) -> pb::CollectGarbageResponse {
    let request = pb::CollectGarbageRequest {
        task_uuid: work.uuid.clone(),
        dry_run: false,
        min_age: Some(prost_types::Duration::default()),
    };
    outputs.collect_garbage(request).await.unwrap().into_inner()
}
