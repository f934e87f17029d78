//! HTTPS: providers whose certificate is of a CA that the server was told of, and HTTP/2 where it is offered.

use contextstore_proto::v1::ErrorReason;

use super::{KEY, PROVIDERS, Scene};
use test_support::fake_llm::FakeLlm;
use test_support::wire::why;

/// A server whose providers are all reached over HTTPS, and who trusts what is in a file, if it is given.
async fn scene(own: &tempfile::TempDir, trusts: bool) -> Scene {
    let ca = own.path().join("ca.pem").display().to_string();
    let fake = FakeLlm::start_with(&["--key", KEY, "--tls", &ca]);
    let mut settings = vec![("llm.retries".to_owned(), "0".to_owned())];
    for provider in PROVIDERS {
        let version = match provider {
            "anthropic" | "ollama" => "",
            "lmstudio" => "/lmstudio/v1",
            _ => "/v1",
        };
        let url = format!("{}{version}", fake.secure_url());
        settings.push((format!("llm.providers.{provider}.base_url"), url));
    }
    // Without one of its own the test would depend on what the machine trusts.
    let other = own.path().join("other.pem");
    std::fs::write(&other, of_nobody(&ca)).unwrap();
    settings.push(("SSL_CERT_FILE".to_owned(), if trusts { ca } else { other.display().to_string() }));
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Scene::with_fake(fake, &settings).await
}

/// A certificate of another CA, made by another fake.
fn of_nobody(beside: &str) -> Vec<u8> {
    let ca = format!("{beside}.other");
    FakeLlm::start_with(&["--tls", &ca]);
    std::fs::read(ca).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_asked_over_https_and_http2() {
    let own = tempfile::tempdir().unwrap();
    let mut scene = scene(&own, true).await;
    for provider in PROVIDERS {
        scene.fake.reset();
        for _ in 0..2 {
            scene.chat(scene.ask(provider, "Hello")).await.whole();
        }
        let requests = scene.fake.requests();
        assert_eq!(scene.verdicts(), ["ok", "ok"], "{provider}");
        let versions: Vec<_> = requests.iter().map(|request| request["version"].as_str().unwrap()).collect();
        assert_eq!(versions, ["HTTP/2.0", "HTTP/2.0"], "{provider}");
        assert_eq!(requests[0]["peer_port"], requests[1]["peer_port"], "{provider}: one connection does");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_nobody_that_is_trusted_is_refused() {
    let own = tempfile::tempdir().unwrap();
    let mut scene = scene(&own, false).await;
    let heard = scene.chat(scene.ask("openai", "Hello")).await;
    let told = why(heard.error.as_ref().unwrap());
    assert_eq!(told.reason, ErrorReason::ProviderFailed);
    assert!(told.words.contains("certificate"), "{}", told.words);
    assert!(scene.fake.requests().is_empty(), "something was sent");
}
