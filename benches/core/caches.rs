//! How often a prompt cache is broken: how often the beginning of a view is another one than in the request before.

use std::fmt::Write as _;
use std::path::Path;

use contextstore_base::model::{Durability, NewMessage, TaskConfig, TaskId};
use contextstore_store::store::{Append, Store};
use fastrand::Rng;
use serde_json::json;

use super::{caller, options, start};

/// Requests at each limit.
const REQUESTS: u64 = 300;
const LIMITS: [u64; 3] = [32_000, 128_000, 200_000];

/// Breaks at one limit.
#[derive(Debug, Default)]
struct Breaks {
    /// By outputs that were trimmed.
    trims: u64,
    /// By contexts that reached their threshold, which begin anew here.
    full: u64,
}

/// Writes breaks per 100 requests of an agent that calls a tool in each of them, with and without trimming.
pub(super) fn caches(place: &Path, report: &mut String) {
    let (store, _) = Store::open(&place.join("caches"), options()).unwrap();
    let _ =
        writeln!(report, "\n| limit | breaks per 100 requests: trims + full contexts | without trimming |");
    let _ = writeln!(report, "|---|---|---|");
    for limit in LIMITS {
        let [with, without] = [true, false].map(|trims| measure(&store, limit, trims));
        let share = |breaks: u64| breaks as f64 * 100.0 / REQUESTS as f64;
        let _ = writeln!(
            report,
            "| {limit} | {:.1} + {:.1} = {:.1} | {:.1} |",
            share(with.trims),
            share(with.full),
            share(with.trims + with.full),
            share(without.full)
        );
    }
}

fn measure(store: &Store, limit: u64, trims: bool) -> Breaks {
    let (mut rng, mut breaks) = (Rng::with_seed(7), Breaks::default());
    let mut task = begin(store, limit, trims);
    let mut generation = 0;
    for number in 0..REQUESTS {
        let function = json!({"name": "read", "arguments": format!("{{\"path\":\"src/part{number}.rs\"}}")});
        let call = json!({"id": format!("c{number}"), "type": "function", "function": function});
        say(
            store,
            task,
            &json!({"role": "assistant", "content": "I look at it. ".repeat(8), "tool_calls": [call]}),
        );
        let output = "fn part(line: u64) -> u64 { line + 1 }\n".repeat(rng.usize(5..250));
        say(store, task, &json!({"role": "tool", "tool_call_id": format!("c{number}"), "content": output}));
        // Outputs are trimmed when one is appended, and before each request.
        if store.trim_if_due(task).unwrap().is_some() {
            generation += 1;
            breaks.trims += 1;
        }
        assert_eq!(store.task_info(task).unwrap().view_generation, generation);
        if store.pressure(task).unwrap().should_compress {
            breaks.full += 1;
            (task, generation) = (begin(store, limit, trims), 0);
        }
    }
    breaks
}

fn begin(store: &Store, limit: u64, trims: bool) -> TaskId {
    let task = start(store, Durability::Process);
    let config = json!({"context_length": limit, "durability": "process", "outputs": {"enabled": trims}});
    let config: TaskConfig = serde_json::from_value(config).unwrap();
    store.update_config(task, config, &caller()).unwrap();
    task
}

fn say(store: &Store, task: TaskId, message: &serde_json::Value) {
    let message = NewMessage::from_json(&message.to_string()).unwrap();
    store.append(task, &Append { message, caller: caller() }).unwrap();
}
