//! Half-open connections and nonsense: who does not speak the protocol is shown out.

use std::io::Write;
use std::net::Shutdown;

use contextstore_client::v1;

use super::wire::{PREFACE, Wire};
use super::{Footprint, MIB, TASK, current, large_task, still_serves};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{metric, once, serve};

/// Time for all of them to come before the first is shown out, and for a client on a busy machine to answer.
const SETTINGS: &str = "server:\n  keepalive_interval: 1s\n  keepalive_timeout: 5s\n";

fn both(server: &TestServer) -> [Wire; 2] {
    [Wire::tcp(server.tcp_address()), Wire::unix(&server.socket())]
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_falls_silent_is_shown_out() {
    let server = serve(SETTINGS).await;
    let lease = large_task(&mut once(&server).await.raw()).await;
    still_serves(&server, lease).await;
    let before = Footprint::at_rest(&server).await;

    let follow = v1::StreamMessagesRequest { task_uuid: TASK.to_owned(), follow: true, ..Default::default() };
    let mut silent = Vec::new();
    for _ in 0..20 {
        // Not a word.
        silent.extend(both(&server));
        // Half a word.
        for mut wire in both(&server) {
            wire.write_all(&PREFACE[..11]).unwrap();
            silent.push(wire);
        }
        // The first words, and then no answer to any question.
        for mut wire in both(&server) {
            wire.write_all(PREFACE).unwrap();
            silent.push(wire);
        }
        // In the middle of a call that waits for more, and of one that is being answered.
        for mut wire in both(&server) {
            wire.hello(65_535);
            wire.call(1, "StreamMessages", &server.token());
            wire.message(1, &follow, true).unwrap();
            wire.call(3, "StreamCurrent", &server.token());
            wire.message(3, &current(), true).unwrap();
            wire.answered();
            silent.push(wire);
        }
        // In the middle of a message.
        for mut wire in both(&server) {
            wire.hello(65_535);
            wire.call(1, "AppendMessages", &server.token());
            wire.write_all(&[0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0]).unwrap();
            silent.push(wire);
        }
    }
    eventually(DEADLINE, || async { (metric(&server, "contextstore_connections") > 100.0).then_some(()) })
        .await;
    still_serves(&server, lease).await;
    for wire in &mut silent {
        assert!(wire.is_ended_within(DEADLINE), "somebody who says nothing is still there");
    }
    before.returns(&server, 64 * MIB).await;
    still_serves(&server, lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_shown_out() {
    let server = serve("").await;
    let lease = large_task(&mut once(&server).await.raw()).await;
    still_serves(&server, lease).await;
    let before = Footprint::at_rest(&server).await;
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..100 {
        let mut junk: Vec<u8> = (0..rng.usize(1..4000)).map(|_| rng.u8(..)).collect();
        let with = |start: &[u8], rest: &[u8]| [start, rest].concat();
        let nonsense = match round % 6 {
            // Another protocol: HTTP/1.1, TLS, SSH.
            0 => b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            1 => with(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", &junk),
            2 => b"SSH-2.0-OpenSSH_9.2\r\nand so on and so forth\r\n".to_vec(),
            // Anything, at once and behind the first words.
            3 => {
                junk[0] = b'x';
                junk
            }
            4 => with(PREFACE, &junk),
            // A frame that is larger than any may be.
            _ => with(PREFACE, b"\xff\xff\xff\x04\x00\x00\x00\x00\x00"),
        };
        for mut wire in both(&server) {
            // The server may have had enough before it has heard everything.
            let _ = wire.write_all(&nonsense);
            if let Wire::Tcp(stream) = &wire {
                let _ = stream.shutdown(Shutdown::Write);
            }
            if let Wire::Unix(stream) = &wire {
                let _ = stream.shutdown(Shutdown::Write);
            }
            assert!(wire.is_ended_within(DEADLINE), "{nonsense:?} is still there");
        }
    }
    before.returns(&server, 16 * MIB).await;
    still_serves(&server, lease).await;
}
