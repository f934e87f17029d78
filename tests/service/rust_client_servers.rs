//! Where the Rust client finds its server: one of its own that ends with it, one that programs share, one at any address; what it
//! says if there is none, and whom it shows its token to.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use contextstore_client::{Client, Error, NewMessage, ReadMessages, Spawn, StartTask, connect_or_spawn, v1};
use futures_util::TryStreamExt;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use test_support::server::{DEADLINE, TestServer, eventually};

/// Makes this program one that owns a server: where its data is.
const OWNER: &str = "CONTEXTSTORE_TEST_OWNER";
/// Gives it another program than the server.
const OWNED: &str = "CONTEXTSTORE_TEST_OWNED";

fn spawn() -> Spawn {
    Spawn::default().binary(test_support::program("contextstore"))
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // What nobody has waited for yet has ended all the same.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

async fn append(client: &Client, text: &str) {
    let task = client.start_task(StartTask::default()).await.unwrap();
    task.append(NewMessage::user(text)).await.unwrap();
}

/// The program that is run by [`owner`].
#[test]
#[ignore = "run by other tests, as a program of its own"]
fn owner_of_a_server() {
    let Some(data_dir) = std::env::var_os(OWNER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let owned = std::env::var_os(OWNED).unwrap_or_else(|| test_support::program("contextstore").into());
        let server = Spawn::default().binary(owned).data_dir(data_dir).start().await.unwrap();
        let task = server.client().start_task(StartTask::default()).await.unwrap();
        let mut interrupted =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).unwrap();
        // Behind what the test program says by itself.
        println!("\nserver {} {}", server.pid().unwrap(), task.uuid());
        interrupted.recv().await;
        task.append_later(NewMessage::user("interrupted")).await.unwrap();
        task.pause().await.unwrap();
        server.stop().await.unwrap();
    });
}

/// A program that owns a server.
struct Owner {
    program: Child,
    /// Kept open: the program may say more.
    _says: Lines<BufReader<ChildStdout>>,
    server: u32,
    task_uuid: String,
}

/// Returns the command of a program that owns a server.
fn owning(data_dir: &Path) -> Command {
    // This file's module, by which the program is found in all of them.
    let name = format!("{}::owner_of_a_server", module_path!().split_once("::").unwrap().1);
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", &name, "--ignored", "--nocapture"]).env(OWNER, data_dir);
    program
}

/// Starts a program that owns a server.
fn owner(data_dir: &Path) -> Owner {
    let mut program = owning(data_dir);
    let mut program = program.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut says = BufReader::new(program.stdout.take().unwrap()).lines();
    let server = loop {
        let Some(Ok(line)) = says.next() else { panic!("the program has no server") };
        if let Some(server) = line.strip_prefix("server ") {
            break server.to_owned();
        }
    };
    let (pid, uuid) = server.split_once(' ').unwrap();
    Owner { program, _says: says, server: pid.parse().unwrap(), task_uuid: uuid.to_owned() }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

// feature: spawn-dies-with-parent
#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_with_a_program_that_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let Owner { mut program, server, .. } = owner(&root.path().join("data"));
    assert!(alive(server));
    kill_process(pid(&program), Signal::KILL).unwrap();
    program.wait().unwrap();
    eventually(DEADLINE, || async { (!alive(server)).then_some(()) }).await;
    // It has stopped in order.
    assert!(!root.path().join("data/addresses").exists());
}

/// The server that the program has started kills it before it does anything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_killed_at_once_leaves_no_server() {
    let root = tempfile::tempdir().unwrap();
    let (killer, noted) = (root.path().join("killer"), root.path().join("pid"));
    let server = test_support::program("contextstore");
    let (note, server) = (noted.display(), server.display());
    let script = format!("#!/bin/sh\necho $$ >'{note}'\nkill -9 $PPID\nexec '{server}' \"$@\"\n");
    fs::write(&killer, script).unwrap();
    fs::set_permissions(&killer, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = owning(&root.path().join("data")).env(OWNED, killer).status().unwrap();
    assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
    let server = fs::read_to_string(noted).unwrap().trim().parse().unwrap();
    eventually(DEADLINE, || async { (!alive(server)).then_some(()) }).await;
    assert!(root.path().join("data/tasks.db").exists(), "the server has not run");
}

// feature: spawn-ctrl-c
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_interrupted_can_still_write() {
    let root = tempfile::tempdir().unwrap();
    let data_dir = root.path().join("data");
    let Owner { mut program, server, task_uuid, _says } = owner(&data_dir);
    // As a terminal does it: to the program and all that belongs to it.
    kill_process_group(pid(&program), Signal::INT).unwrap();
    assert!(program.wait().unwrap().success());
    assert!(!alive(server));
    let server = spawn().data_dir(&data_dir).start().await.unwrap();
    let task = server.client().task(task_uuid);
    assert_eq!(task.get().await.unwrap().task.unwrap().status().name(), "paused");
    let read = ReadMessages { kinds: vec![v1::RecordKind::Message], ..Default::default() };
    let log: Vec<_> = task.messages(read).try_collect().await.unwrap();
    assert!(String::from_utf8_lossy(&log[0]).contains("interrupted"));
    server.stop().await.unwrap();
}

/// Starts a server that ends when it has been idle for a second, leaves it alone, and waits for its end.
async fn idle_time_passes() {
    let root = tempfile::tempdir().unwrap();
    let witness = spawn().data_dir(root.path().join("data")).arg("--stop-when-idle=1s");
    let client = witness.connect_or_start().await.unwrap();
    let pid = client.server_info().await.unwrap().process_id;
    drop(client);
    eventually(DEADLINE, || async { (!alive(pid)).then_some(()) }).await;
}

/// The idle time that the user gives counts, in either form of a flag; the usual one is for whoever gives none.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_server_has_the_idle_time_of_its_user() {
    let root = tempfile::tempdir().unwrap();
    let usual = spawn().data_dir(root.path().join("data")).connect_or_start().await.unwrap();
    let pid = usual.server_info().await.unwrap().process_id;
    drop(usual);
    idle_time_passes().await;
    assert!(alive(pid), "the user's time is not shorter than the usual one");
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::TERM).unwrap();
    eventually(DEADLINE, || async { (!alive(pid)).then_some(()) }).await;
}

// feature: connect-or-spawn
#[tokio::test(flavor = "multi_thread")]
async fn programs_share_a_server_that_ends_behind_the_last_of_them() {
    let root = tempfile::tempdir().unwrap();
    for name in ["data".to_owned(), "long-".repeat(40)] {
        let data_dir = root.path().join(name);
        let join = || {
            let shared = spawn().data_dir(&data_dir).arg("--stop-when-idle").arg("1s");
            tokio::spawn(async move { shared.connect_or_start().await.unwrap() })
        };
        // All of them start one at once, and one of those holds the directory.
        let all = [join(), join(), join()];
        let mut clients = Vec::new();
        for joining in all {
            clients.push(joining.await.unwrap());
        }
        let mut pids = Vec::new();
        for client in &clients {
            append(client, "hi").await;
            pids.push(client.server_info().await.unwrap().process_id);
        }
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
        assert_eq!(join().await.unwrap().server_info().await.unwrap().process_id, pids[0]);
        let log = data_dir.join("server.log");
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
        // It belongs to none of them: it outlives the first, which is idle meanwhile, and ends behind the last.
        let last = clients.pop().unwrap();
        clients.iter().for_each(|client| assert!(client.instance_id() != last.instance_id()));
        drop(clients);
        idle_time_passes().await;
        last.server_info().await.unwrap();
        assert!(alive(pids[0]));
        last.close().await.unwrap();
        drop(last);
        eventually(DEADLINE, || async { (!alive(pids[0])).then_some(()) }).await;
    }

    let broken = spawn().data_dir(root.path().join("data")).arg("--no-such-flag").connect_or_start().await;
    let broken = broken.unwrap_err().to_string();
    assert!(broken.contains("it ended at once") && broken.contains("--no-such-flag"), "{broken}");
    let missing = connect_or_spawn("/proc/none/data").await.unwrap_err().to_string();
    assert!(missing.contains("no server could be started"), "{missing}");
}

/// A path that leads to another from here.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    up.join(path.strip_prefix("/").unwrap())
}

// feature: address-any-name
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_and_a_socket_may_have_any_name() {
    let root = tempfile::tempdir().unwrap();
    for name in ["a b,c", "%41%", "#x?y=z&", "ü ☃", "a\nb", "-", "unix:"] {
        let data_dir = root.path().join(name);
        let server =
            spawn().data_dir(&data_dir).start().await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let socket = data_dir.join("contextstore.sock");
        for socket in [socket.clone(), relative(&socket)] {
            let address = format!("unix:{}", socket.to_str().unwrap());
            append(&Client::connect(&address).await.unwrap(), name).await;
        }
        append(&Client::builder().data_dir(&data_dir).connect().await.unwrap(), name).await;
        server.stop().await.unwrap();
    }
    // Not even text: the server has its socket elsewhere then.
    let server = spawn().data_dir(root.path().join(OsStr::from_bytes(b"\xff"))).start().await.unwrap();
    append(server.client(), "hi").await;
    let found = Client::builder().data_dir(server.data_dir()).connect().await.unwrap();
    append(&found, "hi").await;
    server.stop().await.unwrap();
}

// feature: no-server-advice
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_reported_at_once_with_advice() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    // So many tries would take hours.
    let never = contextstore_client::RetryPolicy {
        attempts: 1000,
        first_pause: Duration::from_secs(60),
        longest_pause: Duration::from_secs(60),
    };
    let timeout = DEADLINE * 100;
    let lazy = |address: &str| {
        Client::builder().address(address).retry(never.clone()).timeout(timeout).connect_lazy().unwrap()
    };
    let address = format!("unix:{dir}/contextstore.sock");
    let task = lazy(&address).task("018f6b2e-5c1a-7d3e-9a41-000000000001");
    let calls = async {
        let said = task.get().await.unwrap_err().to_string();
        let advice = format!("Nothing listens there; `contextstore serve --data-dir {dir}` starts a server");
        assert!(
            said.starts_with(&format!("no connection to {address}: ")) && said.ends_with(&advice),
            "{said}"
        );
        assert!(task.messages(Default::default()).try_next().await.is_err());
        assert!(task.current(Default::default()).await.is_err());
        assert!(task.outputs().put(Default::default(), "x").await.is_err());
        task.append_later(NewMessage::user("hi")).await.unwrap();
        assert_eq!(task.flush().await.unwrap_err().not_appended().len(), 1);
        let port = lazy("tcp:127.0.0.1:1").server_info().await.unwrap_err().to_string();
        assert!(
            port.contains("Nothing listens there; `contextstore serve --listen tcp:127.0.0.1:1`"),
            "{port}"
        );
        let relative = lazy("unix:no/such.sock").server_info().await.unwrap_err().to_string();
        assert!(relative.contains(&format!("(seen from {})", std::env::current_dir().unwrap().display())));
        // With a data directory over TCP there is nobody to show the token to.
        let builder = Client::builder().data_dir(dir).address("tcp:127.0.0.1:1").retry(never.clone());
        let port = builder.timeout(timeout).connect_lazy().unwrap().server_info().await.unwrap_err();
        assert!(port.to_string().contains("it has no running server"), "{port}");
    };
    tokio::time::timeout(DEADLINE, calls).await.unwrap();

    // A server that was there may come back: such a call is made again.
    let mut server = TestServer::start().await;
    let client = server.client().await;
    server.kill();
    server.launch();
    append(&client, "hi").await;
}

// feature: token-only-to-holder
#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_only_to_the_server_of_its_directory() {
    let server = TestServer::start().await;
    append(&server.tcp_client().await, "hi").await;
    let named = server.tcp_address().replace("127.0.0.1", "localhost");
    append(&server.builder().address(named).connect().await.unwrap(), "hi").await;

    // The directory has a server, but somebody else listens at this port.
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp:{}", stranger.local_addr().unwrap());
    let listening = tokio::spawn(async move {
        let (mut caller, _) = stranger.accept().await.unwrap();
        let mut heard = Vec::new();
        let _ = caller.read_to_end(&mut heard).await;
        heard
    });
    let client = server.builder().address(&address).connect().await.unwrap();
    let refused = client.server_info().await.unwrap_err();
    assert!(refused.to_string().contains(&format!("do not name {address}")), "{refused}");
    drop(client);
    let heard = listening.await.unwrap();
    let token = server.token();
    assert!(!heard.windows(token.len()).any(|part| part == token.as_bytes()));
}

// feature: token-file
#[tokio::test(flavor = "multi_thread")]
async fn a_token_may_end_with_a_line_end_and_nothing_else() {
    let server = TestServer::start().await;
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("token");
    let tcp = || Client::builder().address(server.tcp_address());
    for end in ["", "\n", "\r\n"] {
        let token = server.token() + end;
        append(&tcp().token(&token).connect().await.unwrap(), "hi").await;
        fs::write(&file, token).unwrap();
        append(&tcp().token_file(&file).connect().await.unwrap(), "hi").await;
    }
    for end in [" ", "\n\n", "\t"] {
        let token = server.token() + end;
        assert!(matches!(tcp().token(&token).connect_lazy(), Err(Error::Config { setting: "token", .. })));
        fs::write(&file, token).unwrap();
        let refused = tcp().token_file(&file).connect_lazy().unwrap_err();
        assert!(matches!(refused, Error::Config { setting: "token_file", .. }), "{refused}");
    }
}
