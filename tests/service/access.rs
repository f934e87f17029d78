//! Who may call: everybody over the socket who is the server's own user, and over TCP who has the token. Nobody
//! else gets past the gate by any method, path or header, and nobody else can read the files.

mod doors;
mod files;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use contextstore_proto::v1::ErrorReason;
use prost_reflect::DescriptorPool;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use test_support::server::TestServer;
use test_support::wire::{channel, framed, raw, why};
use test_support::{nobody, wire};

/// What there is of the protocol.
const SETS: [&[u8]; 4] = [
    contextstore_proto::FILE_DESCRIPTOR_SET,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// The paths of all methods, and whether each is open to everybody.
fn methods() -> Vec<(String, bool)> {
    let mut methods = Vec::new();
    for set in SETS {
        for service in DescriptorPool::decode(set).unwrap().services() {
            let open = service.full_name() == "grpc.health.v1.Health";
            let path = |name: &str| format!("/{}/{name}", service.full_name());
            methods.extend(service.methods().map(|method| (path(method.name()), open)));
        }
    }
    let count = |start: &str| methods.iter().filter(|(path, _)| path.starts_with(start)).count();
    assert!(count("/contextstore.v1.ContextStore/") >= 27);
    assert_eq!((count("/grpc.reflection.v1."), count("/grpc.reflection.v1alpha.")), (1, 1));
    assert!(count("/grpc.health.v1.Health/") >= 2);
    methods
}

/// Paths that nobody serves: some of them look like those of health.
fn odd_paths() -> Vec<String> {
    let mut paths: Vec<String> = [
        "/",
        "//",
        "/contextstore.v1.ContextStore",
        "/contextstore.v1.ContextStore/",
        "/contextstore.v1.ContextStore/DropEverything",
        "/contextstore.v2.ContextStore/GetTask",
        "/contextstore.v1.contextstore/gettask",
        "/no.such.Service/Method",
        "/grpc.health.v1.Health",
        "/grpc.health.v1.Health/",
        "/grpc.health.v1.Health/Check/",
        "/grpc.health.v1.Health/check",
        "/grpc.health.v1.Health/CHECK",
        "/Grpc.Health.v1.Health/Check",
        "//grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health//Check",
        "/grpc.health.v1.Health/Check%00",
        "/grpc.health.v1.Health/%43heck",
        "/grpc.health.v1.Health%2FCheck",
        "/grpc.health.v1.Health/Check;x=1",
        "/grpc.health.v1.Healthy/Check",
        "/x/grpc.health.v1.Health/Check",
        "/./grpc.health.v1.Health/Check",
        "/metrics",
    ]
    .map(str::to_owned)
    .to_vec();
    for target in ["contextstore.v1.ContextStore/GetServerInfo", "contextstore.v1.ContextStore/ListTasks"] {
        paths.push(format!("/grpc.health.v1.Health/Check/../../{target}"));
        paths.push(format!("/grpc.health.v1.Health/../{target}"));
        paths.push(format!("/grpc.health.v1.Health/Check/%2e%2e/%2e%2e/{target}"));
        paths.push(format!("/{target}?/grpc.health.v1.Health/Check"));
        paths.push(format!("//{target}"));
        paths.push(format!("/{target}/"));
    }
    paths
}

/// The code a call is refused with at once; none if it is let in.
async fn refusal(channel: &Channel, path: &str, authorization: Option<&str>) -> Option<Status> {
    let headers: Vec<(&str, &str)> = authorization.iter().map(|value| ("authorization", *value)).collect();
    let answer = raw(channel, path, &headers, vec![framed(b"")]).await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    Status::from_header_map(answer.headers())
}

async fn tcp(server: &TestServer) -> Channel {
    let address = server.tcp_address().replace("tcp:", "http://");
    Endpoint::from_shared(address).unwrap().connect().await.unwrap()
}

fn is_unauthenticated(status: Option<&Status>, what: &str) {
    let Some(status) = status else { panic!("{what} was let in") };
    let why = why(status);
    assert_eq!(why.reason, ErrorReason::Unauthenticated, "{what}");
    assert!(why.words.contains("authorization: Bearer"), "{}", why.words);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tcp_only_health_is_open_without_the_token() {
    let server = TestServer::start().await;
    let channel = tcp(&server).await;
    let token = server.token();
    assert!(token.len() >= 32);
    let basic = "Basic dXNlcjpwYXNzd29yZA==".to_owned();
    let wrong: Vec<Option<String>> = vec![
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer wrong".to_owned()),
        Some(format!("Bearer {}", &token[1..])),
        Some(format!("Bearer {token}x")),
        Some(format!("Bearer {token} {token}")),
        Some(format!("Bearer{token}")),
        Some(format!("Bearer:{token}")),
        Some(format!("Bearer {}", token.to_uppercase())),
        Some(format!("Basic {token}")),
        Some(format!("Token {token}")),
        Some(basic),
        Some(token.clone()),
        Some(format!(" {token}")),
        Some("Bearer t\u{e9}st".to_owned()),
    ];
    for (path, open) in methods() {
        for authorization in &wrong {
            let status = refusal(&channel, &path, authorization.as_deref()).await;
            let what = format!("{path} with {authorization:?}");
            if open {
                let code = status.map(|status| status.code());
                assert!(code.is_none_or(|code| code == Code::Ok), "{what}: {code:?}");
            } else {
                is_unauthenticated(status.as_ref(), &what);
            }
        }
    }
    for path in odd_paths() {
        for authorization in &wrong {
            let status = refusal(&channel, &path, authorization.as_deref()).await;
            is_unauthenticated(status.as_ref(), &format!("{path} with {authorization:?}"));
        }
    }
    // The first header counts, so that a second one cannot be smuggled in behind a wrong one.
    let right = format!("Bearer {token}");
    let headers = [("authorization", "Bearer wrong"), ("authorization", right.as_str())];
    let answer =
        raw(&channel, "/contextstore.v1.ContextStore/GetServerInfo", &headers, vec![framed(b"")]).await;
    is_unauthenticated(Status::from_header_map(answer.unwrap().headers()).as_ref(), "two headers");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tcp_the_token_opens_everything() {
    let server = TestServer::start().await;
    let channel = tcp(&server).await;
    for right in [format!("Bearer {}", server.token()), format!("bearer {}", server.token())] {
        for (path, _) in methods() {
            let code = refusal(&channel, &path, Some(&right)).await.map(|status| status.code());
            // An empty request is not what most methods take, but it comes to them.
            let allowed = [None, Some(Code::Ok), Some(Code::InvalidArgument)];
            assert!(allowed.contains(&code), "{path}: {code:?}");
        }
        for path in odd_paths().iter().filter(|path| !path.contains('?')) {
            let code = refusal(&channel, path, Some(&right)).await.map(|status| status.code());
            assert_eq!(code, Some(Code::Unimplemented), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_to_ask_for_tcp_is_open() {
    let server = TestServer::start_with(&["--tcp-auth", "none"]).await;
    let channel = tcp(&server).await;
    for (path, _) in methods() {
        for authorization in [None, Some("Bearer wrong")] {
            let code = refusal(&channel, &path, authorization).await.map(|status| status.code());
            let allowed = [None, Some(Code::Ok), Some(Code::InvalidArgument)];
            assert!(allowed.contains(&code), "{path}: {code:?}");
        }
    }
    assert!(!server.data_dir().join("token").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_for_the_servers_own_user() {
    let server = TestServer::start().await;
    // Its own user needs no token, and a wrong one does no harm.
    let own = channel(&server.socket()).await;
    for (path, _) in methods() {
        let code = refusal(&own, &path, Some("Bearer wrong")).await.map(|status| status.code());
        let allowed = [None, Some(Code::Ok), Some(Code::InvalidArgument)];
        assert!(allowed.contains(&code), "{path}: {code:?}");
    }
    assert_eq!(fs::metadata(server.socket()).unwrap().permissions().mode() & 0o777, 0o600);
    if !nobody::is_possible() {
        return;
    }
    // Somebody else cannot even connect.
    let socket = server.socket();
    let refused = nobody::as_nobody({
        let socket = socket.clone();
        async move { wire::endpoint(&socket).connect().await.is_err() }
    });
    assert!(refused);
    // And if the files were open to everybody, the caller would be known all the same, token or not.
    let root = server.data_dir().parent().unwrap().to_owned();
    for path in [root, server.data_dir(), socket.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let right = format!("Bearer {}", server.token());
    nobody::as_nobody(async move {
        let channel = channel(&socket).await;
        let odd = odd_paths().into_iter().map(|path| (path, false));
        for (path, open) in methods().into_iter().chain(odd) {
            for authorization in [None, Some(right.as_str())] {
                let status = refusal(&channel, &path, authorization).await;
                if open {
                    assert!(status.is_none_or(|status| status.code() == Code::Ok), "{path}");
                } else {
                    let why = why(&status.unwrap_or_else(|| panic!("{path} was let in")));
                    assert_eq!((why.reason, why.data["uid"].as_str()), (ErrorReason::Forbidden, "65534"));
                }
            }
        }
    });
}
