//! Others are told what happens to tasks: programs that are run and addresses that are posted to, when they work, fail,
//! hang, and when the server stops.

mod listener;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use contextstore_proto::v1 as pb;
use serde_json::{Value, json};
use tempfile::TempDir;

use listener::{Answer, Listener};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire;
use test_support::wire::{Api, Work, api, say};

/// A server with hooks, and a directory for what they write.
struct World {
    server: TestServer,
    api: Api,
    out: TempDir,
}

impl World {
    /// `OUT` in the configuration is the directory.
    async fn new(yaml: &str) -> Self {
        let (own, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = own.path().join("config.yaml");
        fs::write(&file, yaml.replace("OUT", out.path().to_str().unwrap())).unwrap();
        let server = TestServer::start_in(own, &["--config", file.to_str().unwrap()]).await;
        let api = api(&server).await;
        Self { server, api, out }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.out.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    async fn start(&mut self) -> Work {
        let request = pb::StartTaskRequest {
            key: Some(pb::TaskKey {
                task_source: "github".to_owned(),
                owner: "me".to_owned(),
                repo: "tools".to_owned(),
                task_type: "issue".to_owned(),
                task_id: "17".to_owned(),
            }),
            user: "o'neil\"; touch evil; $(touch evil) `touch evil`".to_owned(),
            holder: wire::holder("a"),
            ..Default::default()
        };
        let started = self.api.start_task(request).await.unwrap().into_inner();
        Work { uuid: started.task.unwrap().uuid, lease: started.lease_generation }
    }

    async fn pause(&mut self, work: &Work) {
        let (task_uuid, lease_generation) = (work.uuid.clone(), work.lease);
        let pause = pb::PauseTaskRequest { task_uuid, lease_generation, ..Default::default() };
        self.api.pause_task(pause).await.unwrap();
    }

    async fn complete(&mut self, work: &Work, summary: &str) {
        let complete = pb::CompleteTaskRequest {
            task_uuid: work.uuid.clone(),
            final_summary: summary.to_owned(),
            lease_generation: work.lease,
            ..Default::default()
        };
        self.api.complete_task(complete).await.unwrap();
    }

    /// The events in a file, when there are so many.
    async fn events(&self, name: &str, count: usize) -> Vec<Value> {
        eventually(DEADLINE, async || {
            let text = self.read(name);
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            (text.ends_with('\n') && lines.len() >= count).then_some(lines)
        })
        .await
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
    }

    async fn log_has(&self, words: &str) {
        eventually(DEADLINE, async || self.server.log().contains(words).then_some(())).await;
    }
}

/// A hook that adds the event to a file.
const NOTE: &str = r#"[/bin/sh, "-c", "cat >> OUT/told; echo >> OUT/told"]"#;

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

async fn gone(pid: &str) {
    let pid = pid.trim().to_owned();
    assert!(!pid.is_empty());
    eventually(DEADLINE, async || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Whoever nobody waits for is a zombie until somebody does.
        (state.is_empty() || state.contains(") Z ")).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_told_everything_that_happens_to_a_task_in_order() {
    let events = ["started", "resumed", "paused", "completed", "failed"];
    let hooks: String = events.iter().map(|event| format!("  {event}: {{command: {NOTE}}}\n")).collect();
    let mut world = World::new(&format!("hooks:\n{hooks}")).await;
    let mut work = world.start().await;
    say(&mut world.api, &work, "hello").await;
    world.pause(&work).await;
    let resume = pb::ResumeTaskRequest {
        task_uuid: work.uuid.clone(),
        holder: wire::holder("a"),
        ..Default::default()
    };
    work.lease = world.api.resume_task(resume).await.unwrap().into_inner().lease_generation;
    // Taking the same task up again is no start.
    let again = pb::StartTaskRequest {
        task_uuid: work.uuid.clone(),
        holder: wire::holder("a"),
        ..Default::default()
    };
    work.lease = world.api.start_task(again).await.unwrap().into_inner().lease_generation;
    world.complete(&work, &format!("done: {}", "é".repeat(20_000))).await;
    let told = world.events("told", 4).await;
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "paused", "resumed", "completed"]);
    let statuses: Vec<_> = told.iter().map(|event| event["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["running", "paused", "running", "completed"]);
    let key = json!({"task_source":"github","owner":"me","repo":"tools","task_type":"issue","task_id":"17"});
    for event in &told {
        assert_eq!((&event["task_uuid"], &event["key"]), (&json!(work.uuid), &key));
        assert!(event["time"].as_str().unwrap().ends_with('Z') && event["view_generation"] == 0, "{event}");
        assert_eq!(event["user"], "o'neil\"; touch evil; $(touch evil) `touch evil`");
    }
    let last = told.last().unwrap();
    let summary = last["final_summary"].as_str().unwrap();
    assert!(
        summary.starts_with("done: é") && (16_380..=16_384).contains(&summary.len()),
        "{}",
        summary.len()
    );
    assert_eq!(last["truncated"], json!(["final_summary"]));
    assert_eq!(told[0].get("final_summary"), None);

    let failing = world.start().await;
    let fail = pb::FailTaskRequest {
        task_uuid: failing.uuid.clone(),
        error_message: "broken".to_owned(),
        lease_generation: failing.lease,
        ..Default::default()
    };
    world.api.fail_task(fail).await.unwrap();
    let told = world.events("told", 6).await;
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["error_message"]), (&json!("failed"), &json!("broken")));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_go_to_the_program_as_they_are() {
    let yaml = r#"
hooks:
  started:
    command:
      - /bin/sh
      - -c
      - cd OUT; cat > told; printf '%s\n' "$@" > arguments
      - hook
      - $(touch evil)
      - "; touch evil"
      - "a  b *"
"#;
    let mut world = World::new(yaml).await;
    world.start().await;
    let arguments =
        eventually(DEADLINE, async || Some(world.read("arguments")).filter(|text| text.lines().count() == 3));
    assert_eq!(arguments.await, "$(touch evil)\n; touch evil\na  b *\n");
    assert!(!exists(&world.path("evil")));
    assert!(world.read("told").contains("$(touch evil)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_is_run_again_and_what_comes_later_waits() {
    let yaml = format!(
        r#"
hooks:
  started:
    command:
      - /bin/sh
      - -c
      - |
        if [ -e OUT/once ]; then cat >> OUT/told; echo >> OUT/told; else touch OUT/once; echo no luck >&2; exit 3; fi
  paused: {{command: {NOTE}}}
  completed: {{command: [/nonexistent/program]}}
  retries: 1
"#
    );
    let mut world = World::new(&yaml).await;
    let work = world.start().await;
    world.pause(&work).await;
    let told = world.events("told", 2).await;
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "paused"]);
    world.log_has("it ended with exit status: 3: no luck").await;
    let other = world.start().await;
    world.complete(&other, "").await;
    world.log_has("it cannot be run: No such file or directory").await;
    world.log_has("a hook failed and is given up").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_hangs_is_killed_with_what_it_started_and_holds_nobody_up() {
    let yaml = r#"
hooks:
  started:
    command: [/bin/sh, "-c", "sleep 1000 & echo $! > OUT/child; echo $$ > OUT/own; wait"]
  timeout: 3s
  retries: 0
"#;
    let mut world = World::new(yaml).await;
    // A program that reads nothing does not hold up who writes to it either.
    let work = world.start().await;
    assert_eq!(say(&mut world.api, &work, "not held up").await, 1);
    world.log_has("it was killed after 3s").await;
    gone(&world.read("own")).await;
    gone(&world.read("child")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_posted_to_until_it_takes_the_event() {
    let listener =
        Listener::start([Answer::Status(503), Answer::Close, Answer::Status(429), Answer::Status(204)]).await;
    let yaml = format!(
        "hooks:\n  started: {{url: 'http://{}/hook?token=secret'}}\n  retries: 5\n",
        listener.address()
    );
    let mut world = World::new(&yaml).await;
    let work = world.start().await;
    let requests =
        eventually(DEADLINE, async || Some(listener.requests()).filter(|all| all.len() == 4)).await;
    for request in &requests {
        assert!(request.head.starts_with("POST /hook?token=secret HTTP/1.1\r\n"), "{}", request.head);
        assert!(request.head.to_lowercase().contains("content-type: application/json"), "{}", request.head);
        let event: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!((&event["event"], &event["task_uuid"]), (&json!("started"), &json!(work.uuid)));
    }
    world.log_has("it answered 503 Service Unavailable").await;
    assert!(!world.server.log().contains("secret"), "{}", world.server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_refuses_or_does_not_answer_is_given_up() {
    let refusing = Listener::start([Answer::Status(400)]).await;
    let silent = Listener::start([Answer::Never, Answer::Never]).await;
    let yaml = format!(
        "hooks:\n  started: {{url: 'http://{}/'}}\n  paused: {{url: 'http://{}/'}}\n  timeout: 2s\n  retries: 1\n",
        refusing.address(),
        silent.address()
    );
    let mut world = World::new(&yaml).await;
    let work = world.start().await;
    world.pause(&work).await;
    world.log_has("it answered 400 Bad Request").await;
    world.log_has("it did not answer within 2s").await;
    eventually(DEADLINE, async || {
        (world.server.log().matches("a hook failed and is given up").count() == 2).then_some(())
    })
    .await;
    // What is refused is not sent again.
    assert_eq!((refusing.requests().len(), silent.requests().len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
    let yaml = r#"
admin_listen: 127.0.0.1:0
server: {drain: 0s}
hooks:
  started: {command: [/bin/sleep, "1000"]}
  timeout: 1h
  queue: 2
"#;
    let mut world = World::new(yaml).await;
    for _ in 0..5 {
        world.start().await;
    }
    eventually(DEADLINE, async || {
        (world.server.log().matches("an event for the hooks was dropped").count() == 3).then_some(())
    })
    .await;
    let log = world.server.log();
    let address = log.lines().find_map(|line| {
        line.contains("metrics and health over HTTP")
            .then(|| line.rsplit_once("address=")?.1.split(' ').next())?
    });
    let mut stream = TcpStream::connect(address.unwrap().trim()).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    assert!(
        metrics.contains(r#"contextstore_hooks_total{event="started",outcome="dropped"} 3"#),
        "{metrics}"
    );
    assert!(metrics.contains("contextstore_hooks_waiting 2"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_lets_hooks_end_for_a_while() {
    let yaml = r#"
server: {drain: 20s}
hooks:
  started: {command: [/bin/sh, "-c", "touch OUT/begun; sleep 1; cat > OUT/told; echo >> OUT/told"]}
"#;
    let mut world = World::new(yaml).await;
    world.start().await;
    eventually(DEADLINE, async || exists(&world.path("begun")).then_some(())).await;
    drop(api(&world.server).await);
    assert!(world.server.terminate().await.success());
    assert_eq!(world.events("told", 1).await.len(), 1);

    let yaml = r#"
server: {drain: 300ms}
hooks:
  started: {command: [/bin/sh, "-c", "echo $$ > OUT/own; exec sleep 1000"]}
  timeout: 1h
"#;
    let mut world = World::new(yaml).await;
    world.start().await;
    let own = eventually(DEADLINE, async || Some(world.read("own")).filter(|pid| pid.ends_with('\n'))).await;
    assert!(world.server.terminate().await.success());
    gone(&own).await;
    assert!(world.server.log().contains("an event for the hooks was dropped"), "{}", world.server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_told_of_a_compression() {
    let mut world = World::new(&format!("hooks: {{compressed: {{command: {NOTE}}}}}\n")).await;
    let work = world.start().await;
    for at in 0..20 {
        say(&mut world.api, &work, &format!("message {at} with a few words")).await;
    }
    let request = pb::CompressRequest {
        task_uuid: work.uuid.clone(),
        strategy: pb::CompressionStrategy::Window.into(),
        window: Some(pb::WindowConfig { messages: Some(3), tokens: None }),
        lease_generation: work.lease,
        ..Default::default()
    };
    let mut answer = world.api.compress(request).await.unwrap().into_inner();
    while answer.message().await.unwrap().is_some() {}
    let told = world.events("told", 1).await;
    let done = &told[0]["compression"];
    assert_eq!((&told[0]["event"], &done["strategy"]), (&json!("compressed"), &json!("window")));
    assert_eq!((&done["automatic"], &done["messages_before"]), (&json!(false), &json!(20)));
    assert!(
        done["tokens_after"].as_u64() < done["tokens_before"].as_u64() && told[0]["view_generation"] == 1
    );
}
