//! Questions to the strict fake of every provider over real HTTP: what is sent, what comes of the answers, what goes wrong.

#![allow(clippy::disallowed_methods, reason = "tests look at the disk as it is")]

mod faults;
mod said;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::compress::testing::{material_of, policy};
use crate::llm::{LlmSettings, ProviderSettings};
use crate::model::{Holder, InstanceId, TaskConfig, TaskKey};
use crate::store::{StartTask, StoreOptions};
use test_support::fake_llm::FakeLlm;

const KEY: &str = "sk-test-51d0aa";
const SAID: &str = "<summary>The port is 8080; never touch config/prod.yaml.</summary>";

/// A task, and a gateway whose providers are all the fake.
struct Scene {
    fake: FakeLlm,
    gateway: Arc<Gateway>,
    store: Store,
    id: TaskId,
    place: tempfile::TempDir,
    policy: Policy,
    material: MessageFile,
}

/// A question of a scene, with what most tests do not care for.
#[derive(Clone, Copy)]
struct Asked {
    provider: Provider,
    purpose: Purpose,
    budget: u64,
    window: u64,
    timeout: Duration,
}

const PLAIN: Asked = Asked {
    provider: Provider::OpenAi,
    purpose: Purpose::Compaction { retain: false },
    budget: 500,
    window: 32_000,
    timeout: Duration::from_secs(60),
};

fn of(provider: Provider) -> Asked {
    Asked { provider, ..PLAIN }
}

impl Scene {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut LlmSettings)) -> Self {
        let fake = FakeLlm::start_with(&["--key", KEY]);
        let place = tempfile::tempdir().unwrap();
        let key = place.path().join("key");
        std::fs::write(&key, KEY).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let providers = Provider::ALL.map(|provider| ProviderSettings {
            base_url: match provider {
                Provider::Anthropic | Provider::Ollama => fake.url(),
                Provider::LmStudio => format!("{}/lmstudio/v1", fake.url()),
                Provider::OpenAi | Provider::OpenAiResponses => format!("{}/v1", fake.url()),
            },
            api_key_env: None,
            api_key_file: Some(key.clone()),
            model: None,
            max_output_tokens: None,
            context_length: None,
            timeout: Duration::from_secs(60),
        });
        let mut config = LlmSettings {
            provider: None,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            retries: 0,
            max_retry_after: Duration::ZERO,
            providers,
        };
        change(&mut config);
        let (store, _) = Store::open(&place.path().join("data"), StoreOptions::default()).unwrap();
        let holder = Holder {
            instance_id: InstanceId::parse("a").unwrap(),
            process_id: 1,
            hostname: "here".to_owned(),
        };
        let start = StartTask {
            id: None,
            key: TaskKey::default(),
            user: String::new(),
            config: TaskConfig::default(),
            holder,
            request_id: None,
        };
        let id = store.start_task(start).unwrap().id;
        let material = material_of(&history());
        Self { fake, gateway: Gateway::new(config), store, id, place, policy: policy(), material }
    }

    fn question(&self, asked: Asked) -> Question<'_> {
        Question {
            purpose: asked.purpose,
            material: &self.material,
            previous: None,
            retained: None,
            budget: asked.budget,
            refs: &[],
            policy: &self.policy,
            provider: asked.provider,
            model: "fake",
            window: asked.window,
            timeout: asked.timeout,
            deadline: tokio::time::Instant::now() + asked.timeout,
            refused: None,
        }
    }

    async fn ask(&self, asked: Asked) -> Result<ModelReply, ModelError> {
        ask(&self.gateway, &self.store, self.id, &self.question(asked), &|_| {}).await
    }

    fn says(&self, text: &str) {
        self.fake.script(&json!({ "text": text }));
    }

    /// The newest body that the fake got, which it must have taken.
    fn body(&self) -> Value {
        let requests = self.fake.requests();
        let last = requests.last().unwrap();
        assert_eq!(last["verdict"], "ok", "{last}");
        serde_json::from_str(&self.fake.body(last["number"].as_u64().unwrap())).unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("data/running").join(self.id.uuid().to_string())
    }

    /// Requests in the directory of the task.
    fn request_files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("request")).collect()
    }
}

/// What most tests summarise.
fn history() -> String {
    [
        json!({"seq": 1, "role": "user", "content": "The port is 8080. Never touch config/prod.yaml."}),
        json!({"seq": 2, "role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a.rs\"}"}}]}),
        json!({"seq": 3, "role": "tool", "content": "fn main() {}", "tool_call_id": "c1", "tool_name": "read", "output_ref": "out_1"}),
        json!({"seq": 4, "role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}),
        json!({"seq": 5, "role": "assistant", "content": null, "tool_calls": [
            {"id": "c2", "type": "function", "function": {"name": "write", "arguments": "{}"}}]}),
    ]
    .map(|message| format!("{message}\n"))
    .concat()
}

/// The text of the system message and of the user's, wherever a provider has them.
fn texts(provider: Provider, body: &Value) -> (String, String) {
    let text = |content: &Value| {
        let text = content.as_str().or_else(|| content[0]["text"].as_str());
        text.unwrap_or_else(|| panic!("{content}")).to_owned()
    };
    match provider {
        Provider::Anthropic => (text(&body["system"]), text(&body["messages"][0]["content"])),
        Provider::OpenAiResponses => match body["instructions"].as_str() {
            Some(system) => (system.to_owned(), text(&body["input"][0]["content"])),
            None => (text(&body["input"][0]["content"]), text(&body["input"][1]["content"])),
        },
        Provider::OpenAi | Provider::Ollama | Provider::LmStudio => {
            (text(&body["messages"][0]["content"]), text(&body["messages"][1]["content"]))
        }
    }
}
