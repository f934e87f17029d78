//! JSON that is as deep as it may be is kept, and read again by everybody who reads it.

use contextstore_proto::v1 as pb;

use test_support::server::TestServer;
use test_support::wire::{Api, Appending, Work, all, api, say, start, task, view};

/// Everything that reads what was written.
async fn is_read(api: &mut Api, work: &Work, messages: u64) {
    let found = task(api, work).await;
    assert_eq!((found.last_seq, found.health().name()), (messages, "ok"));
    let lines = view(api, work.current()).await;
    for line in lines.lines() {
        // The depth that readers in other languages take is more; what counts is that it is whole.
        assert!(line.starts_with("{\"role\":") && line.ends_with('}'));
    }
    all(api.stream_messages(work.messages()).await).await.unwrap();
    for seq in 1..=messages {
        api.get_message(pb::GetMessageRequest { task_uuid: work.uuid.clone(), seq }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deep_survives_a_restart() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let mut works = Vec::new();
    for depth in 110..128 {
        let work = start(&mut client).await;
        let mut messages = say(&mut client, &work, "begin").await;
        let deep = nested(depth);
        let bodies = [
            format!(r#"{{"role":"user","content":[{{"type":"text","text":{deep}}}]}}"#),
            format!(r#"{{"role":"user","content":"","extra":{deep}}}"#),
            format!(r#"{{"role":"assistant","content":null,"refusal":{deep}}}"#),
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"f","arguments":""}},"x":{deep}}}]}}"#
            ),
        ];
        for body in bodies {
            for pinned in [false, true] {
                let request = work.json(&*body).named(format!("r{depth}-{pinned}-{}", body.len()));
                let request = if pinned { request.pinned() } else { request };
                messages += u64::from(client.append_message(request).await.is_ok());
            }
        }
        let fields = pb::Message {
            role: pb::Role::User.into(),
            content_json: format!(r#"[{{"type":"x","x":{deep}}}]"#),
            ..Default::default()
        };
        let request = work.fields(fields);
        messages += u64::from(client.append_message(request).await.is_ok());
        let tool = pb::RecordToolCallRequest {
            task_uuid: work.uuid.clone(),
            tool_name: "ls".to_owned(),
            arguments_json: deep.clone(),
            result_json: deep.clone(),
            request_id: "r".to_owned(),
            lease_generation: 1,
            ..Default::default()
        };
        let tools = u64::from(client.record_tool_call(tool).await.is_ok());
        let plan = pb::AppendPlanRequest {
            task_uuid: work.uuid.clone(),
            plan_content_json: deep.clone(),
            request_id: "r".to_owned(),
            lease_generation: 1,
            ..Default::default()
        };
        let plans = u64::from(client.append_plan(plan).await.is_ok());
        let config = pb::TaskConfig { extra_json: format!("{{\"a\":{deep}}}"), ..Default::default() };
        let update = pb::UpdateTaskRequest {
            task_uuid: work.uuid.clone(),
            config: Some(config),
            lease_generation: 1,
            ..Default::default()
        };
        let _ = client.update_task(update).await;
        if messages > 0 {
            client.rewind_task(work.rewind(messages)).await.unwrap();
        }
        works.push((work, messages, tools, plans, depth));
    }
    assert!(works[0].1 > 5 && works[0].2 == 1 && works[0].3 == 1, "what is not deep is refused");
    for round in 0..3 {
        for (work, messages, tools, plans, depth) in &works {
            is_read(&mut client, work, *messages + round).await;
            let statistics = task(&mut client, work).await.statistics.unwrap();
            assert_eq!((statistics.total_tool_calls, statistics.total_plans), (*tools, *plans), "{depth}");
            if *plans > 0 {
                let latest = pb::GetLatestPlanRequest { task_uuid: work.uuid.clone() };
                let plan = client.get_latest_plan(latest).await.unwrap().into_inner();
                assert!(plan.plan_content_json.starts_with("[[["), "{depth}");
            }
            let mut watched = client.watch_task(work.watch("v1.0.0.0")).await.unwrap().into_inner();
            for _ in 0..*messages {
                watched.message().await.unwrap().unwrap();
            }
            assert_eq!(say(&mut client, work, "on").await, messages + round + 1, "{depth}");
        }
        if round == 0 {
            server.kill();
        }
        server.restart().await;
        client = api(&server).await;
    }
    server.terminate().await;
    let (code, said, errors) =
        TestServer::run(&["doctor", "--data-dir", server.data_dir().to_str().unwrap()], &[]);
    assert_eq!(code, 0, "{said}{errors}");
}
