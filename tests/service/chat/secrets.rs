//! Keys are used and nowhere to be found: not in files, not in the log, not in errors, not in what is printed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use contextstore_proto::v1::ErrorReason;
use serde_json::json;

use super::{KEY, PROVIDERS, Scene};
use test_support::server::TestServer;
use test_support::wire::{files, why};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_nowhere_but_in_its_file() {
    let mut scene = Scene::new(&[("log.level", "trace"), ("llm.retries", "1")]).await;
    for provider in PROVIDERS {
        scene.chat(scene.ask(provider, "Hello")).await.whole();
        for script in [
            json!({"status": 401, "message": format!("Incorrect API key provided: {KEY}.")}),
            json!({"status": 503, "times": 2, "message": format!("{KEY} {KEY}")}),
            json!({"fault": "break_mid_stream"}),
        ] {
            scene.fake.script(&script);
            let heard = scene.chat(scene.ask(provider, "Hello")).await;
            let status = heard.error.unwrap();
            assert!(!format!("{status:?}").contains(KEY), "{provider}: {status:?}");
            assert!(!String::from_utf8_lossy(status.details()).contains(KEY));
        }
    }
    assert!(scene.verdicts().iter().all(|verdict| verdict == "ok"), "{:?}", scene.verdicts());
    // Its socket goes with it.
    assert!(scene.server.terminate().await.success());
    for (path, bytes) in files(&scene.server.data_dir()) {
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "the key is in {}", path.display());
    }
    let log = scene.server.log();
    assert!(log.contains("is sent again"), "the log says too little to be looked at");
    assert!(!log.contains(KEY), "the key is in the log");
}

/// Another key works from the next request on; one that everybody may read does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_file_can_be_changed_while_the_server_runs() {
    let mut scene = Scene::new(&[]).await;
    let path = scene.key_file();
    scene.chat(scene.ask("anthropic", "Hello")).await.whole();
    fs::write(&path, "sk-wrong").unwrap();
    let heard = scene.chat(scene.ask("anthropic", "Hello")).await;
    let told = why(heard.error.as_ref().unwrap());
    assert_eq!((told.reason, told.data["status"].as_str()), (ErrorReason::ProviderRefused, "401"));
    fs::write(&path, KEY).unwrap();
    scene.chat(scene.ask("anthropic", "Hello")).await.whole();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let ask = scene.ask("anthropic", "Hello");
    let told = why(&scene.api.chat(ask).await.unwrap_err());
    assert_eq!(told.reason, ErrorReason::ProviderNotConfigured);
    assert!(told.words.contains("0600"), "{}", told.words);
}

#[test]
fn the_configuration_is_printed_without_keys() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    fs::write(&key, KEY).unwrap();
    let variable = "CONTEXTSTORE_LLM__PROVIDERS__OPENAI__API_KEY_FILE";
    let environment = [(variable, key.as_path()), ("OPENAI_API_KEY", std::path::Path::new(KEY))];
    for arguments in [&["config"][..], &["config", "--output", "json"]] {
        let (code, words, errors) = TestServer::run(arguments, &environment);
        assert_eq!(code, 0, "{errors}");
        assert!(words.contains("api_key_file") && words.contains("OPENAI_API_KEY"), "{words}");
        assert!(words.contains(&key.display().to_string()) && !words.contains(KEY), "{words}");
    }
}
