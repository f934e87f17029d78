//! Secrets in outputs: whatever may be read is masked, in whatever pieces it comes; what is for machines stays as it is.

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::put_tool_output_request::Part;

use test_support::server::TestServer;
use test_support::tool_outputs::{Outputs, bytes_of, header, outputs, send};
use test_support::wire::{Work, api, start};

const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";

/// Puts bytes in pieces; answers the ref, and what is kept.
async fn kept(outputs: &mut Outputs, work: &Work, media_type: &str, pieces: &[&[u8]]) -> (String, Vec<u8>) {
    let header = pb::PutToolOutputHeader { media_type: media_type.to_owned(), ..header(work) };
    let data = pieces.iter().map(|piece| Part::Data(Bytes::copy_from_slice(piece)));
    let answer = send(outputs, [Part::Header(header)].into_iter().chain(data).collect()).await.unwrap();
    let id = answer.r#ref.unwrap().id;
    let bytes = bytes_of(outputs, work, &id).await.unwrap();
    (id, bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_read_is_masked_whatever_it_is_called() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let environment = format!("HOME=/root\0GITHUB_TOKEN={TOKEN}\0LANG=C\0").into_bytes();
    let latin = [b"caf\xe9 ", TOKEN.as_bytes(), b"\n"].concat();
    for bytes in [&environment, &latin] {
        for media_type in ["", "text/plain", "application/octet-stream", "application/x-httpd-php"] {
            let (id, whole) = kept(&mut outputs, &work, media_type, &[bytes]).await;
            let masked = String::from_utf8_lossy(&whole);
            assert!(
                !masked.contains(&TOKEN[..8]) && masked.contains("[GITHUB_TOKEN]"),
                "{media_type}: {masked}"
            );
            // The same bytes are the same output, however they came.
            for at in [1, 5, 20, bytes.len() - 1] {
                let (same, _) = kept(&mut outputs, &work, media_type, &[&bytes[..at], &bytes[at..]]).await;
                assert_eq!(same, id, "{media_type}, split at {at}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_machines_stays_as_it_is() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let mut random = fastrand::Rng::with_seed(7);
    let packed: Vec<u8> = (0..20_000).map(|_| random.u8(..)).collect();
    let mut archive = vec![0; 512];
    archive[257..262].copy_from_slice(b"ustar");
    archive.extend_from_slice(TOKEN.as_bytes());
    let image = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", TOKEN.as_bytes()].concat();
    for (bytes, media_type) in
        [(&packed, ""), (&archive, "application/x-tar"), (&image, ""), (&image, "image/png")]
    {
        let (_, whole) = kept(&mut outputs, &work, media_type, &[bytes]).await;
        assert!(whole == *bytes, "{media_type}");
    }
}
