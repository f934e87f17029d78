//! A large output takes no more memory than a small one, and a line far behind no more reads than one at the start.
//!
//! `make test-long` takes 2 GB instead of 64 MB.

use std::fs;
use std::time::Instant;

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::put_tool_output_request::Part;

use test_support::server::TestServer;
use test_support::tool_outputs::{Outputs, answering, grep, header, lines_of, outputs, searching};
use test_support::wire::{Work, api, start};

const MIB: u64 = 1 << 20;
/// What a large output may take.
const GROWTH: u64 = 32 * MIB;
/// What reading a few lines may read, wherever they are.
const LOOK: u64 = MIB;
/// Lines that are sent at once.
const LINES: u64 = 8192;
/// Bytes of a line.
const LINE: u64 = 16;

fn size() -> u64 {
    test_support::sized(48 * MIB, 2 << 30)
}

/// The most memory that a server has had since it was last asked.
fn peak(server: &TestServer) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
    peak
}

/// Bytes that a server has read, from files and sockets.
fn read_by(server: &TestServer) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", server.pid())).unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Puts lines of one length, or one line of all.
async fn put_large(
    outputs: &mut Outputs,
    header: pb::PutToolOutputHeader,
    bytes: u64,
    ends: bool,
) -> pb::PutToolOutputResponse {
    let pieces = (0..bytes / (LINES * LINE)).map(move |piece| {
        let end = if ends { '\n' } else { ' ' };
        let line = |n: u64| format!("line {:>10}{end}", piece * LINES + n + 1);
        Bytes::from((0..LINES).map(line).collect::<String>())
    });
    let parts = [Part::Header(header)].into_iter().chain(pieces.map(Part::Data));
    let requests = parts.map(|part| pb::PutToolOutputRequest { part: Some(part) });
    outputs.put_tool_output(tokio_stream::iter(requests)).await.unwrap().into_inner()
}

async fn last_line(outputs: &mut Outputs, work: &Work, told: &pb::ToolOutputRef) {
    let lines = told.line_count;
    let found = lines_of(outputs, work, &told.id, (lines - 1, 5)).await;
    assert_eq!(found, format!("{lines:>6}\tline {lines:>10}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_takes_no_memory_and_its_last_line_no_time() {
    let server = TestServer::start_configured(&[("outputs.tail_bytes", "4KiB")]).await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    // What the first calls take is taken once.
    put_large(&mut outputs, answering(&work, "c0"), MIB, true).await;
    peak(&server);
    let idle = server.rss();

    let began = Instant::now();
    let answer = put_large(&mut outputs, answering(&work, "c1"), size(), true).await;
    let (told, took) = (answer.r#ref.unwrap(), began.elapsed());
    assert_eq!((told.byte_size, told.line_count), (size(), size() / LINE));
    assert!(answer.truncated && answer.view.len() <= 50 << 10);
    let growth = peak(&server).saturating_sub(idle);
    println!("put {} MiB in {took:.1?}: {} KiB more", size() / MIB, growth >> 10);
    assert!(growth <= GROWTH, "putting took {growth} bytes");

    let before = read_by(&server);
    last_line(&mut outputs, &work, &told).await;
    let read = read_by(&server) - before;
    println!("line {} was found by reading {read} bytes", told.line_count);
    assert!(read < LOOK, "{read}");
    let growth = peak(&server).saturating_sub(idle);
    assert!(growth <= GROWTH, "reading took {growth} bytes");

    let began = Instant::now();
    let pattern = format!("^line +{}$", told.line_count);
    let (lines, matches, _) = grep(&mut outputs, searching(&work, &told.id, &pattern)).await.unwrap();
    assert_eq!((matches, lines[0].line_number), (1, told.line_count));
    let growth = peak(&server).saturating_sub(idle);
    println!("searched in {:.1?}: {} KiB more", began.elapsed(), growth >> 10);
    assert!(growth <= GROWTH, "searching took {growth} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_of_many_megabytes_takes_no_memory_either() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    put_large(&mut outputs, header(&work), MIB, false).await;
    peak(&server);
    let idle = server.rss();
    let bytes = size() / 4;
    let told = put_large(&mut outputs, answering(&work, "c1"), bytes, false).await.r#ref.unwrap();
    assert_eq!((told.byte_size, told.line_count), (bytes, 1));
    let pattern = format!("line +{} ", bytes / LINE - 5);
    let (lines, matches, _) = grep(&mut outputs, searching(&work, &told.id, &pattern)).await.unwrap();
    assert_eq!((matches, lines[0].line_number), (1, 1));
    assert!(lines[0].text.chars().count() <= 2000);
    let cut = pb::ReadToolOutputRequest {
        max_line_length: 100,
        ..test_support::tool_outputs::reading(&work, &told.id)
    };
    assert_eq!(
        test_support::tool_outputs::read(&mut outputs, cut).await.unwrap().len(),
        7 + 99 + '…'.len_utf8() + 1
    );
    let growth = peak(&server).saturating_sub(idle);
    println!("one line of {} MiB: {} KiB more", bytes / MIB, growth >> 10);
    assert!(growth <= GROWTH, "it took {growth} bytes");
}
