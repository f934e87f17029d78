//! Whatever is in a request: it is legal and does what it says, or it is refused clearly and changes nothing.
//!
//! The cases come from the descriptors: every field of every request, with every value that could be trouble for
//! a field of its kind. So a new field is tried without anybody thinking of it.

mod bases;
mod depth;
mod frames;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use prost_reflect::MethodDescriptor;
use tonic::Status;
use tonic::transport::Channel;

use bases::{Base, base, methods};
use test_support::server::TestServer;
use test_support::wire;
use test_support::wire::{Api, Work, api, channel, files, framed, raw, say, start, task, why};
use values::{Case, Path, cases, paths};

/// A server, somebody who calls it, and the task that the calls are about.
struct World {
    server: TestServer,
    channel: Channel,
    api: Api,
    work: Work,
}

/// What must not change: the files of the task, and how many tasks there are.
#[derive(PartialEq)]
struct Seen {
    files: BTreeMap<PathBuf, Vec<u8>>,
    folders: Vec<usize>,
}

impl World {
    /// With a limit on messages that is easy to go beyond: a request may have 1 MiB more. Nothing happens by itself.
    async fn new() -> Self {
        // Nothing is asked of the disk here, so it may be in memory, where it takes no time.
        let own = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let config = own.path().join("config.yaml");
        std::fs::write(
            &config,
            "durability: process\nlimits: {message_bytes: 64KiB}\ncompression: {auto: false}\n",
        )
        .unwrap();
        let server = TestServer::start_in(own, &["--config", config.to_str().unwrap()]).await;
        let channel = channel(&server.socket()).await;
        let mut api = api(&server).await;
        let work = start(&mut api).await;
        Self { server, channel, api, work }
    }

    /// A new task, in the status that a method asks for.
    async fn renew(&mut self, base: &Base) {
        self.work = start(&mut self.api).await;
        for text in ["one", "two"] {
            say(&mut self.api, &self.work, text).await;
        }
        if base.paused {
            let (task_uuid, lease_generation) = (self.work.uuid.clone(), self.work.lease);
            let pause = pb::PauseTaskRequest { task_uuid, lease_generation, ..Default::default() };
            self.api.pause_task(pause).await.unwrap();
            self.work.lease = 0;
        }
    }

    fn seen(&self, base: &Base) -> Seen {
        let data = self.server.data_dir();
        let count = |folder| std::fs::read_dir(data.join(folder)).unwrap().count();
        let folders = ["running", "paused", "completed", "quarantine", ".tmp", ".trash"].map(count).to_vec();
        let folder = if base.paused { "paused" } else { "running" };
        Seen { files: files(&data.join(folder).join(&self.work.uuid)), folders }
    }

    /// The task as it is told; the times of its lease go on.
    async fn told(&mut self) -> pb::Task {
        pb::Task { lease: None, ..task(&mut self.api, &self.work).await }
    }

    /// Makes a call; none if it succeeded.
    async fn call(&self, method: &MethodDescriptor, bytes: &[u8]) -> Option<Status> {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let answer = raw(&self.channel, &path, &[], vec![framed(bytes)]).await.unwrap();
        if let Some(status) = Status::from_header_map(answer.headers()) {
            let fine = status.code() == tonic::Code::Ok
                || bases::EMPTY_HANDED.contains(&(method.name(), why(&status).reason));
            return (!fine).then_some(status);
        }
        // What goes on with what happens later has been let in, and would not end.
        if method.is_server_streaming() && !method.is_client_streaming() {
            return None;
        }
        let status = wire::collect(answer).await.unwrap().status;
        (status.code() != tonic::Code::Ok).then_some(status)
    }
}

/// Whether a refusal fits a case: for its field, by a reason that can be.
fn fits(status: &Status, path: &Path, case: &Case) -> Result<(), String> {
    let why = why(status);
    if status.message().len() > 2048 {
        return Err(format!("says {} bytes", status.message().len()));
    }
    let field = path.name();
    match why.reason {
        ErrorReason::InvalidField | ErrorReason::Malformed => {
            if why.reason == ErrorReason::Malformed && !case.may_be_malformed() {
                return Err("is malformed".to_owned());
            }
            // Of a list, by its place in it.
            let named = why.fields.first().map_or("", String::as_str).replace("[0]", "");
            // What is not of the protocol is named by the choice that it is one of.
            let named = match named.strip_prefix("part") {
                Some(rest) if field != "data" => format!("header{rest}"),
                _ => named,
            };
            let named = named.as_str();
            // A message is named as a whole, and in JSON the key that is wrong.
            let above =
                field.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let sibling = bases::beside(&field).contains(&bases::within_list(named));
            if (above && !named.is_empty()) || sibling {
                return Ok(());
            }
            Err(format!("names {named:?} instead of {field}"))
        }
        // A message has a limit of its own, below that of a request.
        ErrorReason::TooLarge if case.is_too_large() || field.starts_with("message") => Ok(()),
        reason if bases::documented(&field).contains(&reason) => Ok(()),
        reason => Err(format!("is {}", reason.as_str_name())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_takes_what_is_legal_and_refuses_the_rest_clearly() {
    let mut world = World::new().await;
    let (mut tried, mut refused) = (0, 0);
    let mut wrong = Vec::new();
    for method in methods() {
        let base = base(method.name());
        world.renew(&base).await;
        // The base itself is fine, or nothing would follow from a refusal.
        let bytes = base.encode(&method, &world.work, None);
        if let Some(status) = world.call(&method, &bytes).await {
            panic!("{}: the base is refused: {status:?}", method.name());
        }
        for path in paths(&method.input()) {
            let mut before = None;
            for case in cases(&path) {
                let seen = match before.take() {
                    Some(before) => before,
                    None => {
                        if base.ends {
                            world.renew(&base).await;
                        }
                        (world.seen(&base), world.told().await)
                    }
                };
                tried += 1;
                let what = format!("{} {} = {case}", method.name(), path.name());
                let bytes = base.encode(&method, &world.work, Some((&path, &case)));
                let Some(status) = world.call(&method, &bytes).await else {
                    // It may have done something.
                    if let Some(problem) = case.must_be_refused(&path) {
                        wrong.push(format!("{what}: was accepted, {problem}"));
                    }
                    continue;
                };
                refused += 1;
                if let Err(problem) = fits(&status, &path, &case) {
                    wrong.push(format!("{what}: {problem}: {:.200}", status.message()));
                }
                if world.seen(&base) != seen.0 {
                    wrong.push(format!("{what}: something has changed"));
                }
                before = Some(seen);
            }
            if let Some((_, told)) = before
                && told != world.told().await
            {
                wrong.push(format!("{} {}: what is told has changed", method.name(), path.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried > 2000 && refused > 1000, "{refused} of {tried} were refused");
    assert!(!world.server.log().contains("panicked"), "{}", world.server.log());
    let work = start(&mut world.api).await;
    assert_eq!(say(&mut world.api, &work, "still here").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_cut_off_is_refused_or_is_another_request() {
    let mut world = World::new().await;
    for method in methods() {
        let base = base(method.name());
        world.renew(&base).await;
        let whole = base.encode(&method, &world.work, None);
        for end in 0..whole.len() {
            let before = world.seen(&base);
            match world.call(&method, &whole[..end]).await {
                Some(status) => {
                    // It is refused for what is missing, or as it is no message.
                    let reason = why(&status).reason;
                    let allowed = [
                        ErrorReason::InvalidField,
                        ErrorReason::Malformed,
                        ErrorReason::LeaseHeld,
                        ErrorReason::TaskNotFound,
                        ErrorReason::StaleLease,
                        ErrorReason::MessageNotFound,
                        ErrorReason::ProviderNotConfigured,
                        ErrorReason::OutputMalformed,
                        ErrorReason::OutputNotFound,
                    ];
                    assert!(allowed.contains(&reason), "{} cut at {end}: {status:?}", method.name());
                    assert!(
                        world.seen(&base) == before,
                        "{} cut at {end} has changed something",
                        method.name()
                    );
                }
                None => world.renew(&base).await,
            }
        }
    }
    assert!(!world.server.log().contains("panicked"), "{}", world.server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_nobody_knows_are_passed_over() {
    let mut world = World::new().await;
    for method in methods() {
        let base = base(method.name());
        for unknown in values::unknown_fields() {
            world.renew(&base).await;
            let bytes = [base.encode(&method, &world.work, None), unknown].concat();
            let answer = world.call(&method, &bytes).await;
            assert!(answer.is_none(), "{}: {answer:?}", method.name());
        }
    }
}

/// A request may be a little larger than the message in it: what fits the one and not the other is told the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_told_with_the_limit_in_either_form() {
    let mut world = World::new().await;
    let large = "x".repeat(65 << 10);
    let json = format!(r#"{{"role":"user","content":"{large}"}}"#);
    let fields = pb::Message { role: pb::Role::User.into(), content: large, ..Default::default() };
    let by_fields = world.work.fields(fields);
    for request in [by_fields, world.work.json(json)] {
        let why = wire::refused(world.api.append_message(request).await);
        assert_eq!((why.reason, why.data["limit"].as_str()), (ErrorReason::TooLarge, "65536"));
    }
    assert_eq!(say(&mut world.api, &world.work, "x").await, 1);
}
