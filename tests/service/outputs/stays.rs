//! Refs stay: through pause, completion, fork, compaction, undo, rewind, and the death of the server.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;

use test_support::server::TestServer;
use test_support::tool_outputs::{Outputs, answering, bytes_of, collect, keep, lines_of, outputs, put};
use test_support::wire::{Api, Work, api, holder, reason, say, start};

fn text(n: usize) -> String {
    (1..=3000).map(|line| format!("output {n} line {line}\n")).collect()
}

/// Appends a call and the output that answers it; answers its ref.
async fn call(api: &mut Api, outputs: &mut Outputs, work: &Work, n: usize) -> String {
    let call = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{n}","type":"function","function":{{"name":"bash","arguments":"{{}}"}}}}]}}"#
    );
    api.append_message(work.json(call)).await.unwrap();
    let answer = put(outputs, answering(work, &format!("c{n}")), text(n).as_bytes()).await.unwrap();
    answer.r#ref.unwrap().id
}

async fn all_there(outputs: &mut Outputs, work: &Work, ids: &[String]) {
    assert_eq!(collect(outputs, work).await.removed, 0);
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(bytes_of(outputs, work, id).await.unwrap(), text(n).as_bytes(), "{id}");
        assert!(lines_of(outputs, work, id, (2999, 1)).await.ends_with(&format!("output {n} line 3000\n")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refs_stay_whatever_becomes_of_the_view_and_the_task() {
    let mut server = TestServer::start_with(&[]).await;
    let (mut api, mut outs) = (api(&server).await, outputs(&server).await);
    let mut work = start(&mut api).await;
    say(&mut api, &work, "Look at everything.").await;
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(call(&mut api, &mut outs, &work, n).await);
    }
    say(&mut api, &work, "And now?").await;
    all_there(&mut outs, &work, &ids).await;

    // A compaction that leaves next to nothing of the view, and back.
    let overrides = pb::CompressionConfig {
        strategy: pb::CompressionStrategy::Window.into(),
        ..pb::CompressionConfig::default()
    };
    let compress = pb::CompressRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        overrides: Some(overrides),
        target_tokens: Some(500),
        ..pb::CompressRequest::default()
    };
    let events = test_support::wire::all(api.compress(compress).await).await.unwrap();
    assert!(!events.is_empty());
    all_there(&mut outs, &work, &ids).await;
    let undo = pb::UndoCompactionRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        ..pb::UndoCompactionRequest::default()
    };
    let _ = api.undo_compaction(undo).await;
    all_there(&mut outs, &work, &ids).await;
    api.rewind_task(work.rewind(1)).await.unwrap();
    all_there(&mut outs, &work, &ids).await;

    // A fork has them all, also those behind its last message, and each goes its own way.
    let fork = pb::ForkTaskRequest {
        task_uuid: work.uuid.clone(),
        at_seq: 5,
        holder: holder("b"),
        ..Default::default()
    };
    let forked = api.fork_task(fork).await.unwrap().into_inner();
    let branch = Work { uuid: forked.task.unwrap().uuid, lease: forked.lease_generation };
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(bytes_of(&mut outs, &branch, id).await.unwrap(), text(n).as_bytes());
    }
    // What its own log does not name is dead there, and only there.
    let collected = collect(&mut outs, &branch).await;
    assert_eq!((collected.removed, collected.kept), (4, 2));
    all_there(&mut outs, &work, &ids).await;
    all_there(&mut outs, &branch, &ids[..2]).await;

    // The server dies.
    server.kill();
    server.restart().await;
    (api, outs) = (test_support::wire::api(&server).await, outputs(&server).await);
    all_there(&mut outs, &work, &ids).await;

    // Pause, resume, the end.
    let pause = pb::PauseTaskRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        ..Default::default()
    };
    api.pause_task(pause).await.unwrap();
    all_there(&mut outs, &work, &ids).await;
    let idle = Work { lease: 0, ..work.clone() };
    let late = put(&mut outs, test_support::tool_outputs::header(&idle), b"late").await;
    assert_eq!(reason(late), ErrorReason::WrongStatus);
    let resume =
        pb::ResumeTaskRequest { task_uuid: work.uuid.clone(), holder: holder("a"), ..Default::default() };
    work.lease = api.resume_task(resume).await.unwrap().into_inner().lease_generation;
    let more = keep(&mut outs, &work, b"more").await;
    let end = pb::CompleteTaskRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        ..Default::default()
    };
    api.complete_task(end).await.unwrap();
    assert_eq!(bytes_of(&mut outs, &work, &more).await.unwrap(), b"more");
    assert_eq!(collect(&mut outs, &work).await.removed, 1);
    all_there(&mut outs, &work, &ids).await;

    // And nothing of it once the task is removed.
    let delete = pb::DeleteTaskRequest { task_uuid: work.uuid.clone(), ..Default::default() };
    api.delete_task(delete).await.unwrap();
    assert_eq!(reason(bytes_of(&mut outs, &work, &ids[0]).await), ErrorReason::TaskNotFound);
    all_there(&mut outs, &branch, &ids[..2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_what_is_wrong_with_outputs_and_mends_what_can_be() {
    let mut server = TestServer::start().await;
    let (mut api, mut outs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let ids = [0, 1, 2].map(|n| format!("out-{}", &blake3::hash(text(n).as_bytes()).to_hex().as_str()[..32]));
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(call(&mut api, &mut outs, &work, n).await, *id);
    }
    server.terminate().await;
    let data = server.data_dir();
    let doctor = |more: &[&str]| {
        TestServer::run(&[&["doctor", "--data-dir", data.to_str().unwrap()], more].concat(), &[])
    };
    let (_, said, _) = doctor(&[]);
    assert!(!said.contains("outputs/"), "{said}");
    // A lost index and what a crash has left are mended, a damaged output and a lost one are told.
    let dir = server.running(&work.uuid).join("outputs");
    std::fs::remove_file(dir.join(format!("{}.meta", ids[0]))).unwrap();
    std::fs::write(dir.join("put-1"), b"left").unwrap();
    let mut bytes = text(1).into_bytes();
    bytes[100] ^= 1;
    std::fs::write(dir.join(&ids[1]), &bytes).unwrap();
    std::fs::remove_file(dir.join(&ids[2])).unwrap();
    let (code, said, _) = doctor(&[]);
    assert_ne!(code, 0);
    for words in ["is missing, or is not what the output gives", "was left by a crash", "not what was put"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("is named by a log, and is not there"), "{said}");
    let (_, said, _) = doctor(&["--repair"]);
    assert!(dir.join(format!("{}.meta", ids[0])).exists() && !dir.join("put-1").exists(), "{said}");
    let (code, said, _) = doctor(&[]);
    assert_ne!(code, 0);
    assert!(!said.contains("is missing, or is not") && said.contains("not what was put"), "{said}");
    server.restart().await;
    let mut outs = outputs(&server).await;
    assert_eq!(bytes_of(&mut outs, &work, &ids[0]).await.unwrap(), text(0).as_bytes());
    assert_eq!(reason(bytes_of(&mut outs, &work, &ids[1]).await), ErrorReason::OutputDamaged);
}
