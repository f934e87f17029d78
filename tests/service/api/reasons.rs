//! Every reason of `ErrorReason` is given by some call, with its code and its data.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use contextstore_proto::v1::tool_outputs_client::ToolOutputsClient;
use futures_util::stream;
use tonic::transport::Channel;

use test_support::refusal::cannot_start;
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::metric;
use test_support::trace::Sabotage;
use test_support::wire::{
    Api, Appending, Why, Work, all, api, channel, exchange, framed, holder, narrow, refused, say, start,
    start_as, why,
};

/// How a reason is come by, with the names of the data that has to come with it.
enum How {
    /// By a call.
    Call(Why, &'static [&'static str]),
    /// By the command line: what it says, and what has to be in it.
    Said(String, Vec<String>),
    /// By no call of this version, and why not.
    Never,
}

/// Provokes a reason. A new reason does not compile without a way to it.
async fn provoke(reason: ErrorReason) -> How {
    use ErrorReason as R;
    match reason {
        R::Unspecified => How::Never,
        R::InvalidField => {
            calm(async |api, _| refused(api.get_task(Work::nobody("17").get()).await), &["field"]).await
        }
        R::TaskNotFound => {
            let gone = Work::nobody("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10");
            calm(async |api, _| refused(api.get_task(gone.get()).await), &["task_uuid"]).await
        }
        R::TaskExists => {
            let again = async |api: &mut Api, work: &Work| {
                api.pause_task(pause(work)).await.unwrap();
                let task_uuid = work.uuid.clone();
                refused(
                    api.start_task(pb::StartTaskRequest {
                        task_uuid,
                        holder: holder("a"),
                        ..Default::default()
                    })
                    .await,
                )
            };
            calm(again, &["task_uuid"]).await
        }
        R::MessageNotFound => {
            let get = async |api: &mut Api, work: &Work| {
                refused(api.get_message(pb::GetMessageRequest { task_uuid: work.uuid.clone(), seq: 9 }).await)
            };
            calm(get, &["task_uuid", "seq", "last_seq"]).await
        }
        R::WrongStatus => {
            let late = async |api: &mut Api, work: &Work| {
                api.pause_task(pause(work)).await.unwrap();
                refused(api.append_message(work.say("late")).await)
            };
            calm(late, &["task_uuid", "status"]).await
        }
        R::LeaseHeld => {
            let nobody = async |api: &mut Api, work: &Work| {
                refused(api.append_message(Work { lease: 0, ..work.clone() }.say("me too")).await)
            };
            calm(nobody, &["task_uuid", "instance_id", "process_id", "hostname", "lease_generation"]).await
        }
        R::StaleLease => {
            let stale = async |api: &mut Api, work: &Work| {
                refused(api.append_message(Work { lease: 7, ..work.clone() }.say("old")).await)
            };
            calm(stale, &["task_uuid", "given", "lease_generation"]).await
        }
        R::RequestIdReused => {
            let twice = async |api: &mut Api, work: &Work| {
                let named = |text| work.say(text).named("r");
                api.append_message(named("a")).await.unwrap();
                refused(api.append_message(named("b")).await)
            };
            calm(twice, &["request_id"]).await
        }
        R::StaleView => {
            let stale = async |api: &mut Api, work: &Work| {
                refused(
                    api.stream_current(pb::StreamCurrentRequest { generation: Some(3), ..work.current() })
                        .await,
                )
            };
            calm(stale, &["task_uuid", "given", "generation"]).await
        }
        R::RewriteInFlight => rewrite_in_flight().await,
        R::OutputNotFound => {
            let server = TestServer::start().await;
            let (mut outputs, work) = outputs(&server).await;
            let ref_id = format!("out-{}", "0".repeat(32));
            let asked = pb::StatToolOutputRequest { task_uuid: work.uuid.clone(), ref_id };
            How::Call(refused(outputs.stat_tool_output(asked).await), &["task_uuid", "ref_id"])
        }
        R::OutputDamaged => damaged_output().await,
        R::OutputMalformed => {
            let server = TestServer::start().await;
            let (mut outputs, _) = outputs(&server).await;
            let data = pb::put_tool_output_request::Part::Data("lost".into());
            let headless = [pb::PutToolOutputRequest { part: Some(data) }];
            How::Call(refused(outputs.put_tool_output(stream::iter(headless)).await), &["problem"])
        }
        R::NothingToUndo => {
            let undo = async |api: &mut Api, work: &Work| {
                let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
                let request = pb::UndoCompactionRequest { task_uuid, lease_generation, ..Default::default() };
                refused(api.undo_compaction(request).await)
            };
            calm(undo, &["task_uuid"]).await
        }
        R::LimitUnknown => {
            let compact = async |api: &mut Api, work: &Work| {
                let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
                let strategy = pb::CompressionStrategy::Compact.into();
                refused(
                    api.compress(pb::CompressRequest {
                        task_uuid,
                        lease_generation,
                        strategy,
                        ..Default::default()
                    })
                    .await,
                )
            };
            calm(compact, &["task_uuid"]).await
        }
        R::CompactionNotFound => {
            let commit =
                async |api: &mut Api, work: &Work| refused(api.commit_compaction(bring(work, "x")).await);
            calm(commit, &["task_uuid"]).await
        }
        R::SummaryRefused => {
            let commit = async |api: &mut Api, work: &Work| {
                for at in 0..20 {
                    api.append_message(work.say(&format!("message {at} of some length"))).await.unwrap();
                }
                let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
                let begin = pb::BeginCompactionRequest { task_uuid, lease_generation, ..Default::default() };
                let mut told = api.begin_compaction(begin).await.unwrap().into_inner();
                let first = told.message().await.unwrap().unwrap().event.unwrap();
                let pb::begin_compaction_response::Event::Begun(begun) = first else {
                    panic!("the first response tells the token");
                };
                refused(api.commit_compaction(bring(work, &begun.token)).await)
            };
            calm(commit, &["problem"]).await
        }
        R::NothingToSummarize => {
            let begin = async |api: &mut Api, work: &Work| {
                let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
                let request =
                    pb::BeginCompactionRequest { task_uuid, lease_generation, ..Default::default() };
                refused(api.begin_compaction(request).await)
            };
            calm(begin, &["task_uuid", "cause"]).await
        }
        R::NotInView => {
            let pin = async |api: &mut Api, work: &Work| {
                for at in 0..20 {
                    api.append_message(work.say(&format!("message {at} of some length"))).await.unwrap();
                }
                let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
                let compress = pb::CompressRequest {
                    task_uuid: task_uuid.clone(),
                    lease_generation,
                    ..Default::default()
                };
                all(api.compress(compress).await).await.unwrap();
                let pin = pb::PinMessageRequest { task_uuid, lease_generation, seq: 3, ..Default::default() };
                refused(api.pin_message(pin).await)
            };
            calm(pin, &["task_uuid", "seq"]).await
        }
        R::NothingToInherit => {
            let look = async |api: &mut Api, work: &Work| {
                let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
                let request = pb::CompleteTaskRequest { task_uuid, lease_generation, ..Default::default() };
                api.complete_task(request).await.unwrap();
                let task_uuid = work.uuid.clone();
                let request = pb::GetInheritanceContextRequest { task_uuid, ..Default::default() };
                refused(api.get_inheritance_context(request).await)
            };
            calm(look, &["task_uuid"]).await
        }
        R::Quarantined => quarantined().await,
        R::NewerFormat => newer_format().await,
        R::WriteFailed => {
            failing(
                "fdatasync:error=EIO",
                "messages.jsonl",
                async |api, work| refused(api.append_message(work.say("lost")).await),
                &["task_uuid"],
            )
            .await
        }
        R::DiskFull => {
            failing(
                "pwrite64:error=ENOSPC",
                "messages.jsonl",
                async |api, work| refused(api.append_message(work.say("no room")).await),
                &[],
            )
            .await
        }
        R::ReadOnly => read_only().await,
        R::Locked => {
            let server = TestServer::start().await;
            let said = cannot_start(&server.data_dir(), &["--listen", "tcp:127.0.0.1:0"]);
            How::Said(said, vec![server.pid().to_string(), server.data_dir().display().to_string()])
        }
        R::BadDataDir => {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("thesis.txt"), "mine").unwrap();
            How::Said(cannot_start(dir.path(), &[]), vec![dir.path().display().to_string()])
        }
        R::Damaged => damaged().await,
        R::Catalog => catalog().await,
        R::Io => {
            failing(
                "pread64,preadv2:error=EIO",
                "current.jsonl",
                async |api, work| refused(all(api.stream_current(work.current()).await).await),
                &["action"],
            )
            .await
        }
        R::Unauthenticated => {
            let server = TestServer::start().await;
            let address = server.tcp_address().replace("tcp:", "http://");
            let endpoint = tonic::transport::Endpoint::from_shared(address).unwrap();
            let mut api = Api::new(endpoint.connect().await.unwrap());
            How::Call(refused(api.get_server_info(pb::GetServerInfoRequest {}).await), &[])
        }
        R::Forbidden => forbidden().await,
        R::TooLarge => {
            let large = async |api: &mut Api, work: &Work| {
                refused(api.append_message(work.say(&"x".repeat(18 << 20))).await)
            };
            calm(large, &["size", "limit"]).await
        }
        R::Malformed => {
            let server = TestServer::start().await;
            let path = "/contextstore.v1.ContextStore/GetTask";
            // A number where there is to be text.
            let answer =
                exchange(&channel(&server.socket()).await, path, &[], vec![framed(&[8, 1])]).await.unwrap();
            let why = why(&answer.status);
            assert_eq!(why.fields, ["task_uuid"]);
            How::Call(why, &["field"])
        }
        R::Overloaded => {
            let server = TestServer::start_configured(&[("limits.read_streams", "1")]).await;
            let mut api = api(&server).await;
            let work = start(&mut api).await;
            let _reading = api.watch_task(work.watch("")).await.unwrap();
            How::Call(refused(api.stream_current(work.current()).await), &["what", "limit"])
        }
        R::QuotaExceeded => {
            let server = TestServer::start_configured(&[("limits.task_bytes", "2KiB")]).await;
            let mut api = api(&server).await;
            let work = start(&mut api).await;
            let why = refused(api.append_message(work.say(&"x".repeat(2000))).await);
            How::Call(why, &["quota", "used", "limit"])
        }
        R::Stopping => {
            let mut server = TestServer::start().await;
            let mut api = api(&server).await;
            let work = start(&mut api).await;
            let mut watching = api.watch_task(work.watch("")).await.unwrap().into_inner();
            assert!(server.terminate().await.success());
            How::Call(why(&watching.message().await.unwrap_err()), &[])
        }
        R::Stalled => stalled().await,
        R::RequestTooLarge => {
            let large = async |api: &mut Api, work: &Work| {
                say(api, work, &"x".repeat(1000)).await;
                let asked = pb::RenderContextRequest { max_bytes: 1000, ..work.request("ollama") };
                refused(api.render_context(asked).await)
            };
            calm(large, &["size", "limit"]).await
        }
        R::ProviderNotConfigured => {
            let nobody =
                async |api: &mut Api, work: &Work| refused(api.chat(ask(work, "anthropic")).await.map(drop));
            calm(nobody, &["provider"]).await
        }
        R::ProviderRefused => {
            let refusal = r#"{"error":{"message":"no such model","type":"invalid_request_error"}}"#;
            let length = refusal.len();
            let answer = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\n\r\n{refusal}");
            How::Call(provided(Some(answer)).await, &["provider", "status", "type", "message"])
        }
        R::ProviderFailed => How::Call(provided(None).await, &["provider"]),
        R::PlanNotFound => {
            let get = async |api: &mut Api, work: &Work| {
                refused(api.get_latest_plan(pb::GetLatestPlanRequest { task_uuid: work.uuid.clone() }).await)
            };
            calm(get, &["task_uuid"]).await
        }
        R::SummaryNotFound => {
            let get = async |api: &mut Api, work: &Work| {
                refused(
                    api.get_latest_summary(pb::GetLatestSummaryRequest { task_uuid: work.uuid.clone() })
                        .await,
                )
            };
            calm(get, &["task_uuid"]).await
        }
        // It is for mistakes of the server's own, of which none is known.
        R::Internal => How::Never,
    }
}

/// An empty summary for a compaction.
fn bring(work: &Work, token: &str) -> pb::CommitCompactionRequest {
    let (task_uuid, lease_generation, token) = (work.uuid.clone(), work.lease, token.to_owned());
    pb::CommitCompactionRequest { task_uuid, lease_generation, token, ..Default::default() }
}

fn pause(work: &Work) -> pb::PauseTaskRequest {
    pb::PauseTaskRequest { task_uuid: work.uuid.clone(), lease_generation: work.lease, ..Default::default() }
}

/// On a server that nothing is the matter with, with a task.
async fn calm(act: impl AsyncFnOnce(&mut Api, &Work) -> Why, data: &'static [&'static str]) -> How {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    How::Call(act(&mut api, &work).await, data)
}

/// Calls about outputs, and a task to have some.
async fn outputs(server: &TestServer) -> (ToolOutputsClient<Channel>, Work) {
    let work = start(&mut api(server).await).await;
    (ToolOutputsClient::new(channel(&server.socket()).await), work)
}

/// An output whose file was cut short behind the server's back.
async fn damaged_output() -> How {
    let server = TestServer::start().await;
    let (mut outputs, work) = outputs(&server).await;
    let header = pb::PutToolOutputHeader {
        task_uuid: work.uuid.clone(),
        content: Some("one\ntwo\n".into()),
        lease_generation: work.lease,
        ..Default::default()
    };
    let part = Some(pb::put_tool_output_request::Part::Header(header));
    let put = outputs.put_tool_output(stream::iter([pb::PutToolOutputRequest { part }])).await;
    let ref_id = put.unwrap().into_inner().r#ref.unwrap().id;
    fs::write(server.running(&work.uuid).join("outputs").join(&ref_id), "o").unwrap();
    let asked = pb::ReadToolOutputRequest { task_uuid: work.uuid, ref_id, ..Default::default() };
    let why = match outputs.read_tool_output(asked).await {
        Ok(answer) => why(&answer.into_inner().message().await.unwrap_err()),
        Err(status) => why(&status),
    };
    How::Call(why, &["task_uuid", "ref_id", "problem"])
}

/// While calls on a file of the task fail.
async fn failing(
    inject: &str,
    file: &str,
    act: impl AsyncFnOnce(&mut Api, &Work) -> Why,
    data: &'static [&'static str],
) -> How {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "before").await;
    let file = server.running(&work.uuid).join(file);
    let sabotage = Sabotage::begin(server.pid(), inject, Some(&file));
    let why = act(&mut api, &work).await;
    drop(sabotage);
    if inject.ends_with("=EIO") {
        // Whoever runs the server finds the place and the cause in its log.
        let (log, place) = (server.log(), format!("running/{}", work.uuid));
        let told = |line: &str| line.contains(&place) && line.contains("Input/output error (os error 5)");
        assert!(log.lines().any(told), "{place}: {log}");
    }
    // Once that is over it goes on, and nothing of the call was kept.
    assert_eq!(say(&mut api, &work, "after").await, 2);
    How::Call(why, data)
}

async fn rewrite_in_flight() -> How {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for _ in 0..3 {
        say(&mut api, &work, "hello").await;
    }
    let next = server.running(&work.uuid).join("current.jsonl.next");
    let sabotage = Sabotage::begin(server.pid(), "pwrite64:delay_enter=2000000", Some(&next));
    let first = tokio::spawn({
        let (mut api, work) = (api.clone(), work.clone());
        async move { api.rewind_task(work.rewind(1)).await }
    });
    eventually(DEADLINE, || async { next.exists().then_some(()) }).await;
    let why = refused(api.rewind_task(work.rewind(2)).await);
    drop(sabotage);
    assert_eq!(first.await.unwrap().unwrap().into_inner().generation, 1);
    How::Call(why, &["task_uuid"])
}

/// A byte of the first message in a log is not what it was.
fn damage(log: &Path) {
    let mut bytes = fs::read(log).unwrap();
    let at = bytes.windows(5).position(|part| part == b"hello").unwrap();
    bytes[at] ^= 1;
    fs::write(log, bytes).unwrap();
}

async fn quarantined() -> How {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let (work, other) = (start(&mut client).await, start(&mut client).await);
    for _ in 0..3 {
        say(&mut client, &work, "hello").await;
    }
    server.kill();
    damage(&server.running(&work.uuid).join("messages.jsonl"));
    server.restart().await;
    let mut client = api(&server).await;
    let why = refused(client.append_message(work.say("more")).await);
    // It can be read as far as it goes, and the rest is served.
    let found = test_support::wire::task(&mut client, &work).await;
    assert_eq!(
        (found.health().name(), found.directory),
        ("quarantined", format!("quarantine/{}", work.uuid))
    );
    all(client.stream_messages(work.messages()).await).await.unwrap();
    assert_eq!(say(&mut client, &other, "fine").await, 1);
    How::Call(why, &["task_uuid", "finding"])
}

async fn damaged() -> How {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    for _ in 0..3 {
        say(&mut api, &work, "hello").await;
    }
    // Under the hands of a server that has it open.
    damage(&server.running(&work.uuid).join("messages.jsonl"));
    How::Call(refused(all(api.stream_messages(work.messages()).await).await), &["path", "offset", "problem"])
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

async fn newer_format() -> How {
    let root = tempfile::tempdir().unwrap();
    let golden = test_support::repository().join("tests/data/format-v1-unknown-event");
    let data = root.path().join("data");
    // A directory that is not empty is only taken if it is a data directory.
    copy(&golden, &data);
    let uuid = fs::read_dir(data.join("running")).unwrap().next().unwrap().unwrap().file_name();
    let server = TestServer::start_in(root, &[]).await;
    let mut api = api(&server).await;
    let work = Work { uuid: uuid.into_string().unwrap(), lease: 0 };
    assert_eq!(test_support::wire::task(&mut api, &work).await.health().name(), "newer_format");
    assert!(!test_support::wire::view(&mut api, work.current()).await.is_empty());
    How::Call(refused(api.append_message(work.say("more")).await), &["task_uuid", "found"])
}

async fn read_only() -> How {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let works = [start(&mut api).await, start(&mut api).await, start(&mut api).await];
    // One bad file can be bad luck; two are a bad disk.
    let sabotage = Sabotage::begin(server.pid(), "fdatasync:error=EIO", None);
    for work in &works[..2] {
        assert_eq!(refused(api.append_message(work.say("lost")).await).reason, ErrorReason::WriteFailed);
    }
    drop(sabotage);
    let why = refused(api.append_message(works[2].say("more")).await);
    let info = api.get_server_info(pb::GetServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.read_only_reason, why.data["cause"]);
    for work in &works {
        assert_eq!(test_support::wire::task(&mut api, work).await.last_seq, 0);
    }
    How::Call(why, &["cause"])
}

async fn catalog() -> How {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let catalog = rusqlite::Connection::open(server.data_dir().join("tasks.db")).unwrap();
    catalog.execute("ALTER TABLE tasks RENAME TO stolen", []).unwrap();
    let why = refused(api.list_tasks(pb::ListTasksRequest::default()).await);
    // Tasks are not affected.
    assert_eq!(say(&mut api, &work, "on").await, 1);
    How::Call(why, &["problem"])
}

/// Asks a provider for a model.
fn ask(work: &Work, provider: &str) -> pb::ChatRequest {
    pb::ChatRequest {
        task_uuid: work.uuid.clone(),
        provider: pb::Provider::from_name(provider).unwrap_or_default().into(),
        model: "m".to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    }
}

/// Asks a provider that has one answer for everything; without one, nobody is there.
async fn provided(answer: Option<String>) -> Why {
    // Until it listens, nobody is there, and nobody else can be.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let mut held = Some(socket);
    if let Some(answer) = answer {
        let listener = held.take().unwrap().listen(1).unwrap().into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            // The body ends with the object that it is.
            while !request.ends_with(b"}") {
                let mut piece = [0; 4096];
                let read = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..read]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
    }
    let settings = [("llm.providers.ollama.base_url", url.as_str()), ("llm.retries", "0")];
    let server = TestServer::start_configured(&settings).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "hello").await;
    refused(all(api.chat(ask(&work, "ollama")).await).await)
}

async fn stalled() -> How {
    let keys = [("limits.read_idle", "1s"), ("admin_listen", "127.0.0.1:0")];
    let server = TestServer::start_configured(&keys).await;
    let mut api = narrow(&server).await;
    let work = start(&mut api).await;
    for _ in 0..4 {
        say(&mut api, &work, &"x".repeat(1 << 20)).await;
    }
    let mut reader = api.stream_current(work.current()).await.unwrap().into_inner();
    // A reader that takes nothing for so long is told when it reads again. Its connection is in use meanwhile: one that is not
    // would be cut in the end.
    eventually(DEADLINE, || async {
        test_support::wire::task(&mut api.clone(), &work).await;
        (metric(&server, "contextstore_stalled_readers_total") > 0.0).then_some(())
    })
    .await;
    let ended = loop {
        match reader.message().await {
            Ok(chunk) => assert!(chunk.is_some(), "it came to its end"),
            Err(status) => break status,
        }
    };
    How::Call(why(&ended), &["seconds"])
}

async fn forbidden() -> How {
    if !test_support::nobody::is_possible() {
        return How::Never;
    }
    let server = TestServer::start().await;
    let open: Vec<PathBuf> =
        vec![server.socket(), server.data_dir(), server.data_dir().parent().unwrap().to_owned()];
    for path in open {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let socket = server.socket();
    let answer = test_support::nobody::as_nobody(async move {
        let mut api = Api::new(channel(&socket).await);
        api.get_server_info(pb::GetServerInfoRequest {}).await
    });
    How::Call(refused(answer), &["uid"])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_is_given_with_its_code_and_its_data() {
    let reasons: Vec<ErrorReason> = (0..).map_while(|number| ErrorReason::try_from(number).ok()).collect();
    assert_eq!(reasons.len(), 46);
    let mut never = Vec::new();
    for reason in reasons {
        match Box::pin(provoke(reason)).await {
            How::Call(why, data) => {
                assert_eq!(why.reason, reason, "{why:?}");
                let found: Vec<&str> = why.data.keys().map(String::as_str).collect();
                let expected: BTreeMap<&str, ()> = data.iter().map(|name| (*name, ())).collect();
                assert_eq!(found, expected.into_keys().collect::<Vec<_>>(), "{why:?}");
                assert!(why.data.values().all(|value| !value.is_empty()), "{why:?}");
            }
            How::Said(said, parts) => {
                assert!(said.starts_with("contextstore: ") && said.lines().count() == 1, "{said}");
                for part in parts {
                    assert!(said.contains(&part), "{said:?} does not name {part}");
                }
            }
            How::Never => never.push(reason),
        }
    }
    never.retain(|reason| *reason != ErrorReason::Forbidden || test_support::nobody::is_possible());
    assert_eq!(never, [ErrorReason::Unspecified, ErrorReason::Internal]);
}

/// So that a failing disk is a story of its own: the same call, repeated, succeeds and is made once.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_failed_can_be_repeated_with_the_same_id() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start_as(&mut api, pb::StartTaskRequest::default()).await;
    let log = server.running(&work.uuid).join("messages.jsonl");
    let named = |id: &str| work.say(id).named(id);
    for (inject, reason) in [
        ("fdatasync:error=EIO", ErrorReason::WriteFailed),
        ("pwrite64:error=ENOSPC", ErrorReason::DiskFull),
        ("pwrite64:error=EIO", ErrorReason::Io),
    ] {
        let before = test_support::wire::task(&mut api, &work).await.last_seq;
        let sabotage = Sabotage::begin(server.pid(), inject, Some(&log));
        assert_eq!(refused(api.append_message(named(inject)).await).reason, reason, "{inject}");
        drop(sabotage);
        assert_eq!(test_support::wire::task(&mut api, &work).await.last_seq, before);
        let again = api.append_message(named(inject)).await.unwrap().into_inner();
        assert_eq!((again.seq, again.duplicate), (before + 1, false), "{inject}");
    }
    assert_eq!(fs::read_to_string(&log).unwrap().matches("\"content\"").count(), 3);
}

/// Nothing behind a failure is applied, whatever task it is for.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_sync_ends_a_stream_before_what_is_behind_it() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let (work, other) = (start(&mut api).await, start(&mut api).await);
    say(&mut api, &work, "before").await;
    say(&mut api, &other, "before").await;
    let log = server.running(&work.uuid).join("messages.jsonl");
    let sabotage = Sabotage::begin(server.pid(), "fdatasync:error=EIO", Some(&log));
    let requests = [work.say("one"), other.say("two"), work.say("three"), other.say("four")];
    let requests = requests.map(test_support::wire::piped);
    let ended = all(api.append_messages(tokio_stream::iter(requests)).await).await;
    drop(sabotage);
    assert_eq!(refused(ended).reason, ErrorReason::WriteFailed);
    for work in [&work, &other] {
        assert_eq!(
            test_support::wire::task(&mut api, work).await.last_seq,
            1,
            "something behind the failure was applied"
        );
    }
}
