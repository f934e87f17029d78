//! Requests whose frames are none: nothing is done, and the connection goes on.

use bytes::Bytes;
use contextstore_proto::v1::ErrorReason;
use tonic::Code;

use super::World;
use test_support::wire::{exchange, framed, start, task, why};

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_none_is_refused() {
    let mut world = World::new().await;
    let good = framed(&prost::Message::encode_to_vec(&world.work.get()));
    let say = framed(&prost::Message::encode_to_vec(&world.work.say("hello")));
    let path = "/contextstore.v1.ContextStore/GetTask";
    let append = "/contextstore.v1.ContextStore/AppendMessage";
    let cut = |at: usize| good.slice(..at);
    let cases: Vec<(&str, &str, Vec<Bytes>)> = vec![
        ("nothing", path, vec![]),
        ("an empty frame", path, vec![Bytes::new()]),
        ("half a length", path, vec![cut(3)]),
        ("a length and nothing", path, vec![cut(5)]),
        ("half a message", path, vec![cut(20)]),
        ("half a message to append", append, vec![say.slice(..say.len() - 1)]),
        ("a flag that is none", path, vec![[&[7][..], &good[1..]].concat().into()]),
        ("a compressed message without a compression", path, vec![[&[1][..], &good[1..]].concat().into()]),
        ("a length of 4 GiB", path, vec![Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1])]),
    ];
    for (name, path, frames) in cases {
        let answer = exchange(&world.channel, path, &[], frames).await.unwrap();
        assert!(answer.messages.is_empty(), "{name}");
        if name.contains("flag") || name.contains("compress") {
            // That is what gRPC says of them, and its library answers.
            assert_eq!(answer.code, Code::Internal, "{name}: {:?}", answer.status);
            assert!(answer.status.message().contains("compress"), "{name}: {:?}", answer.status);
        } else {
            let reason = why(&answer.status).reason;
            let expected = if name.contains("GiB") { ErrorReason::TooLarge } else { ErrorReason::Malformed };
            assert_eq!(reason, expected, "{name}: {:?}", answer.status);
        }
        let work = world.work.clone();
        assert_eq!(task(&mut world.api, &work).await.last_seq, 0, "{name}");
    }
    // A stream may be empty.
    let stream = "/contextstore.v1.ContextStore/AppendMessages";
    let answer = exchange(&world.channel, stream, &[], vec![]).await.unwrap();
    assert_eq!((answer.code, answer.messages.len()), (Code::Ok, 0));
    let answer = exchange(&world.channel, stream, &[], vec![say.clone(), say.slice(..9)]).await.unwrap();
    assert_eq!((answer.messages.len(), why(&answer.status).reason), (1, ErrorReason::Malformed));
    // In pieces it is the same message.
    let pieces = good.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
    let answer = exchange(&world.channel, path, &[], pieces).await.unwrap();
    assert_eq!((answer.code, answer.messages.len()), (Code::Ok, 1));
    start(&mut world.api).await;
    assert!(!world.server.log().contains("panicked"), "{}", world.server.log());
}
