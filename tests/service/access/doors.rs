//! Where a server listens, and where it does not.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use test_support::refusal::cannot_start;
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::api;

#[test]
fn only_loopback_is_listened_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for address in ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:50551", "tcp:[2001:db8::1]:50551", "tcp::0"]
    {
        let said = cannot_start(&data, &["--listen", address]);
        assert!(said.contains("loopback") || said.contains("must have a host"), "{address}: {said}");
    }
    let said = cannot_start(&data, &["--admin-listen", "0.0.0.0:0"]);
    assert!(said.contains("loopback"), "{said}");
    assert!(!data.exists(), "a server that never could start has made something");
}

#[test]
fn a_socket_path_that_is_too_long_is_told_with_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("x".repeat(120));
    let said = cannot_start(&dir.path().join("data"), &["--listen", &format!("unix:{}", long.display())]);
    assert!(said.contains("too long") && said.contains("107"), "{said}");
    // Also when it follows from the data directory.
    let said = cannot_start(&long, &[]);
    assert!(said.contains("too long") && said.contains("107"), "{said}");
}

#[tokio::test]
async fn the_addresses_of_a_relative_data_directory_are_absolute() {
    let dir = tempfile::tempdir().unwrap();
    let addresses = dir.path().join("data/addresses");
    let mut server = Command::new(test_support::program("contextstore"))
        .args(["serve", "--data-dir", "data", "--listen", "unix:data/s"])
        .env_clear()
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let noted = eventually(DEADLINE, || async {
        fs::read_to_string(&addresses).ok().filter(|text| !text.is_empty())
    })
    .await;
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(noted, format!("unix:{}\n", dir.path().join("data/s").display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_a_directory_is_refused() {
    let server = TestServer::start().await;
    let said = cannot_start(&server.data_dir(), &["--listen", "tcp:127.0.0.1:0"]);
    assert!(said.contains(&format!("process {}", server.pid())), "{said}");
    // Nothing of the first one was taken away.
    assert!(server.socket().exists());
    test_support::wire::start(&mut api(&server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_a_dead_server_left_is_replaced() {
    let mut server = TestServer::start().await;
    server.kill();
    assert!(server.socket().exists());
    server.restart().await;
    test_support::wire::start(&mut api(&server).await).await;
    // An orderly stop leaves none.
    server.terminate().await;
    assert!(!server.socket().exists() && !server.data_dir().join("addresses").exists());
}

#[test]
fn what_is_not_a_dead_servers_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let arguments = format!("unix:{}", socket.display());
    let live = UnixListener::bind(&socket).unwrap();
    let said = cannot_start(&dir.path().join("data"), &["--listen", &arguments]);
    assert!(said.contains("another process listens there") && said.contains(&arguments), "{said}");
    assert!(socket.exists());
    drop(live);

    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "a diary").unwrap();
    let said = cannot_start(&dir.path().join("data"), &["--listen", &arguments]);
    assert!(said.contains("no socket"), "{said}");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "a diary");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", taken.local_addr().unwrap());
    let said = cannot_start(&dir.path().join("data"), &["--listen", &address]);
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_browser_can_send_is_not_served() {
    use std::io::{Read, Write};
    let server = TestServer::start_with(&["--tcp-auth", "none"]).await;
    let address = server.tcp_address().trim_start_matches("tcp:").to_owned();
    // A page somewhere on the web can make a browser on this machine send such requests; it speaks HTTP/1.1.
    for method in ["GET", "POST", "OPTIONS"] {
        let mut socket = std::net::TcpStream::connect(&address).unwrap();
        socket.set_read_timeout(Some(test_support::server::DEADLINE)).unwrap();
        let path = "/contextstore.v1.ContextStore/GetServerInfo";
        let body = "\0\0\0\0\0";
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: text/plain\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let version = env!("CARGO_PKG_VERSION").as_bytes();
        assert!(!answer.windows(version.len()).any(|part| part == version), "{method} was answered");
    }
}
