//! Whatever was said and however a context is compressed: pairs stay together, what has to stay is there word for word (the
//! system prompt, all that is pinned, the last message of the user), the
//! view is as small as it was to be, nothing is lost from the log, and an undo brings the very bytes back.
//!
//! Each case is a task of a real server with hostile histories, a random policy, and random appends, pins, reports of usage,
//! compressions by any strategy, by the agent or by a model that answers anything, undos and rewinds. `CONTEXTSTORE_SEED=n` repeats one case, `CONTEXTSTORE_CASES=n` sets how many.

mod case;
mod look;

use case::Case;
use test_support::fake_llm::FakeLlm;
use test_support::server::TestServer;
use test_support::service::{doctor, oracle};
use test_support::{number, sized};

/// Cases of one run at push size.
const CASES: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn compressed_views_keep_every_promise() {
    let fake = FakeLlm::start();
    let mut server = TestServer::start_configured(&[
        ("llm.retries", "0"),
        ("llm.providers.ollama.base_url", fake.url().as_str()),
        ("llm.providers.ollama.model", "fake"),
        ("compression.breaker.failures", "100"),
    ])
    .await;
    let seeds = match number("CONTEXTSTORE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CONTEXTSTORE_CASES").unwrap_or(sized(CASES, 1_000)),
    };
    let (mut compressed, mut undone) = (0, 0);
    for seed in seeds.clone() {
        let case = Case::start(&server, &fake, seed).await;
        let (compressions, undos) = case.run().await;
        compressed += compressions;
        undone += undos;
    }
    assert!(server.terminate().await.success());
    assert_eq!(doctor(&server.data_dir()), None);
    assert_eq!(oracle(&server.data_dir()), None);
    // A test that tries nothing finds nothing.
    if seeds.end - seeds.start >= CASES {
        assert!(
            compressed > seeds.end / 2 && undone > seeds.end / 8,
            "{compressed} compressions, {undone} undos"
        );
    }
}
