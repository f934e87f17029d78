//! Putting and reading: any bytes, in any pieces, once.

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use contextstore_proto::v1::put_tool_output_request::Part;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::tool_outputs::{
    answering, bytes_of, grep, header, keep, lines_of, outputs, put, read, reading, searching, send,
};
use test_support::wire::{Work, all, api, reason, refused, start, task};

fn names(server: &TestServer, work: &Work) -> Vec<String> {
    let dir = server.running(&work.uuid).join("outputs");
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_is_read_back_byte_by_byte_and_line_by_line() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let text: String = (1..=30_000).map(|n| format!("line {n} é日🦀\r\n")).collect();
    for (bytes, lines, media_type) in [
        (text.as_bytes(), 30_000, "text/plain"),
        (b"", 0, "text/plain"),
        (b"one", 1, "text/plain"),
        (b"one\ntwo", 2, "text/plain"),
        (b"\n\n", 2, "text/plain"),
        (b"a\0b\xff\n", 1, "application/octet-stream"),
        (b"\xff\xfe", 1, "application/octet-stream"),
    ] {
        let answer = put(&mut outputs, header(&work), bytes).await.unwrap();
        let told = answer.r#ref.unwrap();
        assert_eq!(told.blake3, blake3::hash(bytes).to_hex().to_string());
        assert_eq!(told.id, format!("out-{}", &told.blake3[..32]));
        assert_eq!((told.byte_size, told.line_count), (bytes.len() as u64, lines), "{bytes:.20?}");
        assert_eq!(told.media_type, media_type);
        assert_eq!(bytes_of(&mut outputs, &work, &told.id).await.unwrap(), bytes);
        let stat = pb::StatToolOutputRequest { task_uuid: work.uuid.clone(), ref_id: told.id.clone() };
        let known = outputs.stat_tool_output(stat).await.unwrap().into_inner().output.unwrap();
        assert_eq!(known.r#ref.unwrap(), told);
        assert!(known.bytes_on_disk >= bytes.len() as u64 && known.create_time.is_some());
    }
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    for (offset, limit) in [(0, 3), (1, 1), (9_999, 2), (29_999, 5), (30_000, 1), (1 << 40, 1)] {
        let expected: String = (offset + 1..=(offset + limit).min(30_000))
            .map(|n| format!("{n:>6}\tline {n} é日🦀\n"))
            .collect();
        assert_eq!(lines_of(&mut outputs, &work, &id, (offset, limit)).await, expected);
    }
    assert_eq!(lines_of(&mut outputs, &work, &id, (0, 0)).await.lines().count(), 30_000);
    // A range of bytes, and lines that are cut.
    let part = pb::ReadToolOutputRequest { raw: true, offset: 5, limit: 4, ..reading(&work, &id) };
    assert_eq!(read(&mut outputs, part).await.unwrap(), &text.as_bytes()[5..9]);
    let short = pb::ReadToolOutputRequest { limit: 1, max_line_length: 4, ..reading(&work, &id) };
    assert_eq!(String::from_utf8(read(&mut outputs, short).await.unwrap()).unwrap(), "     1\tlin…\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_say_which_line_begins_where() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    // A line that is longer than a chunk has chunks in which no line begins.
    let text = format!("short\n{}\nlast\n", "x".repeat(1 << 20));
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    let chunks = all(outputs.read_tool_output(reading(&work, &id)).await).await.unwrap();
    assert!(chunks.len() > 4 && chunks[0].position == 1);
    assert!(chunks.iter().any(|chunk| chunk.position == 0));
    assert_eq!(chunks.last().unwrap().position, 3);
    let raw = pb::ReadToolOutputRequest { raw: true, ..reading(&work, &id) };
    let mut at = 0;
    for chunk in all(outputs.read_tool_output(raw).await).await.unwrap() {
        assert_eq!(chunk.position, at);
        at += chunk.data.len() as u64;
    }
    assert_eq!(at, text.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_keeps_records_and_appends_and_a_retry_changes_nothing() {
    let mut server = TestServer::start().await;
    let (mut api, mut outs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#;
    api.append_message(work.json(call)).await.unwrap();
    let text: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    let asked = pb::PutToolOutputHeader { request_id: "r1".to_owned(), ..answering(&work, "c1") };
    let first = put(&mut outs, asked.clone(), text.as_bytes()).await.unwrap();
    assert!(first.truncated && !first.duplicate);
    assert!(first.view.len() <= 50 << 10, "{}", first.view.len());
    assert_eq!((first.seq, first.tool_seq), (2, 1));
    assert!(first.tokens > 100 && first.pressure.is_some());
    let id = first.r#ref.clone().unwrap().id;
    assert!(
        first.view.ends_with(']') && first.view.contains(&format!("tool_output_cache {{\"ref_id\":\"{id}\""))
    );

    let files = test_support::wire::files(&server.running(&work.uuid));
    let logs = |files: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
        let of = |name: &str| files.iter().find(|(path, _)| path.ends_with(name)).unwrap().1.clone();
        (of("messages.jsonl"), of("tools.jsonl"))
    };
    let (messages, tools) = logs(&files);
    let last = String::from_utf8(messages.clone()).unwrap().lines().last().unwrap().to_owned();
    assert!(last.contains(&format!("\"output_ref\":\"{id}\"")) && last.contains("\"tool_call_id\":\"c1\""));
    assert!(String::from_utf8(tools.clone()).unwrap().contains(&format!("\"output_ref\":\"{id}\"")));

    // The same again, also after a crash and when the task has ended.
    for round in 0..3 {
        let again = put(&mut outs, asked.clone(), text.as_bytes()).await.unwrap();
        assert!(again.duplicate, "round {round}");
        assert_eq!((again.seq, again.tool_seq, again.tokens), (first.seq, first.tool_seq, first.tokens));
        assert_eq!((&again.view, &again.r#ref), (&first.view, &first.r#ref));
        let folder = if round == 2 { "completed" } else { "running" };
        let files = test_support::wire::files(&server.data_dir().join(folder).join(&work.uuid));
        let ours = |name: &str| files.iter().find(|(path, _)| path.ends_with(name)).unwrap().1.clone();
        assert!(ours("messages.jsonl").starts_with(&messages) && ours("tools.jsonl") == tools);
        if round == 0 {
            server.kill();
            server.restart().await;
        } else if round == 1 {
            let mut api = test_support::wire::api(&server).await;
            let end = pb::CompleteTaskRequest {
                task_uuid: work.uuid.clone(),
                lease_generation: work.lease,
                ..Default::default()
            };
            api.complete_task(end).await.unwrap();
        }
        outs = outputs(&server).await;
    }
    // Other content under the same id is another call.
    let other = put(&mut outs, asked, b"something else").await;
    assert_eq!(reason(other), ErrorReason::RequestIdReused);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_content_is_stored_once() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let id = keep(&mut outputs, &work, b"same").await;
    let first = pb::PutToolOutputHeader { media_type: "text/x-log".to_owned(), ..header(&work) };
    let whole = pb::PutToolOutputHeader { content: Some(Bytes::from_static(b"same")), ..first };
    let again = send(&mut outputs, vec![Part::Header(whole)]).await.unwrap().r#ref.unwrap();
    // What it is, is what was said first.
    assert_eq!((again.id.clone(), again.media_type.as_str()), (id.clone(), "text/plain"));
    assert_eq!(names(&server, &work), [id.clone(), format!("{id}.meta")]);
    let before = task(&mut api, &work).await.statistics.unwrap().bytes_on_disk;
    keep(&mut outputs, &work, &[b'x'; 100_000]).await;
    let after = task(&mut api, &work).await.statistics.unwrap().bytes_on_disk;
    assert!(after >= before + 100_000, "{before} {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_out_of_order_are_refused_and_leave_nothing() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let (head, data) = (|| Part::Header(header(&work)), || Part::Data(Bytes::from_static(b"data")));
    let whole = pb::PutToolOutputHeader { content: Some(Bytes::from_static(b"all")), ..header(&work) };
    for parts in [
        vec![],
        vec![data()],
        vec![head(), head()],
        vec![head(), data(), head()],
        vec![Part::Header(whole), data()],
    ] {
        assert_eq!(reason(send(&mut outputs, parts).await), ErrorReason::OutputMalformed);
    }
    eventually(DEADLINE, || async { names(&server, &work).is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_needs_a_task_a_lease_and_fields_that_are_right() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let nobody = Work::nobody("00000000-0000-7000-8000-000000000000");
    assert_eq!(reason(put(&mut outputs, header(&nobody), b"").await), ErrorReason::TaskNotFound);
    let stale = pb::PutToolOutputHeader { lease_generation: 9, ..header(&work) };
    assert_eq!(reason(put(&mut outputs, stale, b"").await), ErrorReason::StaleLease);
    let without = pb::PutToolOutputHeader { lease_generation: 0, ..header(&work) };
    assert_eq!(reason(put(&mut outputs, without, b"").await), ErrorReason::LeaseHeld);
    for (field, bad) in [
        ("tool_name", pb::PutToolOutputHeader { append: true, ..header(&work) }),
        (
            "tool_call_id",
            pb::PutToolOutputHeader { append: true, tool_name: "t".to_owned(), ..header(&work) },
        ),
        ("media_type", pb::PutToolOutputHeader { media_type: "no type".to_owned(), ..header(&work) }),
        ("max_message_bytes", pb::PutToolOutputHeader { max_message_bytes: 5, ..header(&work) }),
        ("tail_bytes", pb::PutToolOutputHeader { tail_bytes: Some(1 << 40), ..header(&work) }),
    ] {
        let why = refused(put(&mut outputs, bad, b"").await);
        assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec![format!("header.{field}")]));
    }
    for id in ["", "out-1", "../../token", "out-0123456789ABCDEF0123456789abcdef"] {
        let why = refused(read(&mut outputs, reading(&work, id)).await);
        assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec!["ref_id".to_owned()]));
    }
    let missing = format!("out-{}", "0".repeat(32));
    assert_eq!(reason(read(&mut outputs, reading(&work, &missing)).await), ErrorReason::OutputNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_is_cut_off_leaves_nothing() {
    let mut server = TestServer::start().await;
    let (mut api, mut outs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    for kill in [false, true] {
        let (sender, parts) = tokio::sync::mpsc::channel(4);
        let stream = tokio_stream::wrappers::ReceiverStream::new(parts);
        let mut connection = outputs(&server).await;
        let call = tokio::spawn(async move { connection.put_tool_output(stream).await });
        let part = |part| pb::PutToolOutputRequest { part: Some(part) };
        sender.send(part(Part::Header(header(&work)))).await.unwrap();
        sender.send(part(Part::Data(vec![b'x'; 1 << 20].into()))).await.unwrap();
        eventually(DEADLINE, || async { (names(&server, &work).len() == 2).then_some(()) }).await;
        if kill {
            server.kill();
            assert_eq!(names(&server, &work).len(), 2);
            server.restart().await;
            outs = outputs(&server).await;
            // Whoever uses the task next finds nothing of it.
            let list = pb::ListToolOutputsRequest { task_uuid: work.uuid.clone(), ..Default::default() };
            assert!(outs.list_tool_outputs(list).await.unwrap().into_inner().outputs.is_empty());
        } else {
            call.abort();
        }
        eventually(DEADLINE, || async { names(&server, &work).is_empty().then_some(()) }).await;
    }
    keep(&mut outs, &work, b"still here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_and_changes_nothing() {
    let keys = [("limits.task_bytes", "1MiB"), ("durability", "process")];
    let server = TestServer::start_configured(&keys).await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    keep(&mut outputs, &work, &vec![b'a'; 600 << 10]).await;
    let before = names(&server, &work);
    let why = refused(put(&mut outputs, answering(&work, "c"), &vec![b'b'; 600 << 10]).await);
    assert_eq!(why.reason, ErrorReason::QuotaExceeded);
    assert_eq!(why.data["quota"], "limits.task_bytes");
    eventually(DEADLINE, || async { (names(&server, &work) == before).then_some(()) }).await;
    assert_eq!(task(&mut api, &work).await.statistics.unwrap().total_messages, 0);
    keep(&mut outputs, &work, &vec![b'c'; 300 << 10]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_output_is_told_and_a_lost_index_is_made_again() {
    let mut server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let text: String = (1..=50_000).map(|n| format!("line {n}\n")).collect();
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    let dir = server.running(&work.uuid).join("outputs");
    std::fs::remove_file(dir.join(format!("{id}.meta"))).unwrap();
    assert_eq!(lines_of(&mut outputs, &work, &id, (44_443, 1)).await, " 44444\tline 44444\n");
    keep(&mut outputs, &work, text.as_bytes()).await;
    // One bit, wherever it is: every read that comes near it fails, and others do not.
    let mut bytes = text.clone().into_bytes();
    for damage in [0, 65_535, 65_536, 100_000, bytes.len() - 1] {
        bytes[damage] ^= 1;
        std::fs::write(dir.join(&id), &bytes).unwrap();
        assert_eq!(reason(bytes_of(&mut outputs, &work, &id).await), ErrorReason::OutputDamaged);
        let line = text[..damage].matches('\n').count() as u64;
        let near = pb::ReadToolOutputRequest { offset: line, limit: 1, ..reading(&work, &id) };
        assert_eq!(reason(read(&mut outputs, near).await), ErrorReason::OutputDamaged, "byte {damage}");
        let found = grep(&mut outputs, searching(&work, &id, "never there")).await;
        assert_eq!(reason(found), ErrorReason::OutputDamaged, "byte {damage}");
        let far = if damage < 200_000 { 40_000 } else { 3 };
        let whole = format!("{:>6}\tline {}\n", far + 1, far + 1);
        assert_eq!(lines_of(&mut outputs, &work, &id, (far, 1)).await, whole, "byte {damage}");
        bytes[damage] ^= 1;
    }
    // A checksum that is wrong itself is made again by a repair, and nothing is lost.
    std::fs::write(dir.join(&id), &bytes).unwrap();
    let meta = dir.join(format!("{id}.meta"));
    let mut index = std::fs::read(&meta).unwrap();
    let last = index.len() - 2;
    index[last] = if index[last] == b'0' { b'1' } else { b'0' };
    std::fs::write(&meta, index).unwrap();
    assert_eq!(reason(bytes_of(&mut outputs, &work, &id).await), ErrorReason::OutputDamaged);
    server.terminate().await;
    let repair = std::process::Command::new(test_support::program("contextstore"))
        .args(["doctor", "--repair", "--data-dir"])
        .arg(server.data_dir())
        .output()
        .unwrap();
    assert!(repair.status.success(), "{repair:?}");
    server.restart().await;
    let mut outputs = test_support::tool_outputs::outputs(&server).await;
    assert_eq!(bytes_of(&mut outputs, &work, &id).await.unwrap(), bytes);
    // Some bytes less: everybody is.
    std::fs::write(dir.join(&id), &bytes[..1000]).unwrap();
    let why = refused(read(&mut outputs, reading(&work, &id)).await);
    assert_eq!((why.reason, &why.data["ref_id"]), (ErrorReason::OutputDamaged, &id));
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_listed_page_by_page_in_the_order_of_their_refs() {
    let server = TestServer::start_configured(&[("durability", "process")]).await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let mut ids = Vec::new();
    for n in 0..25 {
        ids.push(keep(&mut outputs, &work, format!("output {n}").as_bytes()).await);
    }
    ids.sort();
    for page_size in [1, 7, 25, 26, 0] {
        let (mut found, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = pb::ListToolOutputsRequest { task_uuid: work.uuid.clone(), page_size, page_token };
            let page = outputs.list_tool_outputs(request).await.unwrap().into_inner();
            found.extend(page.outputs.into_iter().map(|output| output.r#ref.unwrap().id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(found, ids, "by {page_size}");
    }
}

/// Bytes that a disk has spoilt are replaced by the same ones that come again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_again_mends_what_is_damaged() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let bytes = b"a line of the log\n".repeat(3000);
    let id = keep(&mut outputs, &work, &bytes).await;
    let path = server.running(&work.uuid).join("outputs").join(&id);
    for damage in [bytes[..100].to_vec(), [&bytes[..5000], b"X", &bytes[5001..]].concat()] {
        std::fs::write(&path, damage).unwrap();
        let answer = put(&mut outputs, answering(&work, "c"), &bytes).await.unwrap();
        assert_eq!(answer.r#ref.unwrap().id, id);
        assert_eq!(bytes_of(&mut outputs, &work, &id).await.unwrap(), bytes);
    }
}
