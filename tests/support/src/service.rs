//! What the tests of a running server share: settings, metrics, raw calls, and a look at the directory afterwards.

use std::error::Error as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use contextstore_client::tonic::Status;
use contextstore_client::{Client, Error, RawClient, RetryPolicy, v1};

use super::server::{DEADLINE, TestServer};

/// Starts a server with a configuration file, and with metrics.
pub async fn serve(settings: &str) -> TestServer {
    serve_in(tempfile::tempdir().unwrap(), settings).await
}

/// The same on a directory that is there.
pub async fn serve_in(root: tempfile::TempDir, settings: &str) -> TestServer {
    let file = configure(root.path(), settings);
    TestServer::start_in(root, &["--config", file.to_str().unwrap()]).await
}

/// Writes a configuration file, with metrics switched on.
pub fn configure(root: &Path, settings: &str) -> PathBuf {
    let file = root.join("settings.yaml");
    // Views are to stay as they are, but where that is what is tested.
    let still = if settings.contains("compression:") { "" } else { "compression:\n  auto: false\n" };
    fs::write(&file, format!("admin_listen: 127.0.0.1:0\n{still}{settings}")).unwrap();
    file
}

/// A client that never tries again by itself.
pub async fn once(server: &TestServer) -> Client {
    server.builder().retry(RetryPolicy::none()).timeout(DEADLINE).connect().await.unwrap()
}

/// Where the newest run of a server tells its metrics, by what it has said.
fn admin(log: &str) -> String {
    let line = log.lines().rfind(|line| line.contains("metrics and health over HTTP")).unwrap();
    line.split("address=").nth(1).unwrap().trim().to_owned()
}

/// One metric as it is now; 0 if it was never set.
pub fn metric(server: &TestServer, name: &str) -> f64 {
    metric_by_log(&server.log(), name)
}

/// The same of a server that has said this.
pub fn metric_by_log(log: &str, name: &str) -> f64 {
    let mut stream = TcpStream::connect(admin(log)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(value).unwrap_or(0.0)
}

/// Makes a task and answers its lease.
pub async fn start_task(raw: &mut RawClient, uuid: &str, durability: &str) -> u64 {
    let request = v1::StartTaskRequest {
        task_uuid: uuid.to_owned(),
        holder: Some(holder()),
        config: Some(v1::TaskConfig {
            durability: v1::Durability::from_name(durability).unwrap_or_default().into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    raw.start_task(request).await.unwrap().into_inner().lease_generation
}

/// Who the tests are.
pub fn holder() -> v1::Holder {
    v1::Holder { instance_id: "tester".to_owned(), process_id: 1, hostname: "here".to_owned() }
}

/// Whether a call failed because its connection did, rather than because the server refused it.
pub fn is_broken(status: &Status) -> bool {
    status.source().is_some()
}

/// The reason of a refusal, by its name; with the code if there is none.
pub fn reason(status: &Status) -> String {
    let details = contextstore_client::tonic::Status::clone(status);
    let details = tonic_types::StatusExt::get_error_details(&details);
    details.error_info().map_or_else(|| format!("{:?}", status.code()), |info| info.reason.clone())
}

/// The data that came with a refusal.
pub fn told(status: &Status, key: &str) -> Option<String> {
    tonic_types::StatusExt::get_error_details(status).error_info()?.metadata.get(key).cloned()
}

/// Whether a client's call failed because its connection did.
pub fn is_connection(error: &Error) -> bool {
    matches!(error, Error::Connection { .. })
}

/// What `contextstore doctor` finds in a directory that no server uses; nothing if all is well.
pub fn doctor(data_dir: &Path) -> Option<String> {
    let (code, out, err) = TestServer::run(&["doctor", "--data-dir", data_dir.to_str().unwrap()], &[]);
    (code != 0).then(|| format!("doctor exits with {code}:\n{out}{err}"))
}

/// What the oracle finds in the tasks of a directory; nothing if all is well.
pub fn oracle(data_dir: &Path) -> Option<String> {
    let check = crate::repository().join("tests/oracle/check.py");
    let mut command = Command::new("python3");
    command.arg(check).arg("--check");
    let mut tasks = 0;
    for folder in ["running", "paused", "completed"] {
        for task in fs::read_dir(data_dir.join(folder)).unwrap() {
            command.arg(task.unwrap().path());
            tasks += 1;
        }
    }
    assert!(tasks > 0, "there is nothing to check");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (!output.status.success()).then(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// A pause between two looks.
pub async fn moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}
