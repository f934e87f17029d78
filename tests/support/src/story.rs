//! One story that does everything once: told by the program `scenario`, checked by whoever runs it.

use crate::steps::{Act, Say, Step, on, on_second, say};

/// The steps, in order.
pub fn steps() -> Vec<Step> {
    let calls = r#"[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]"#;
    let call =
        Say { role: "assistant", content: "null".to_owned(), tool_calls: Some(calls), ..Say::default() };
    let result = Say {
        role: "tool",
        content: "\"a file\"".to_owned(),
        tool_call_id: Some("\"c1\""),
        ..Say::default()
    };
    let extra = Say {
        role: "user",
        content: "\"more\"".to_owned(),
        extra: Some(r#""mood":{"n":1e2}"#),
        ..Say::default()
    };
    vec![
        on(Act::Start),
        on(say("system", "you are a clerk")),
        on(Act::Say(call)),
        on(Act::Tool("ls")),
        on(Act::Say(result)),
        on(Act::Say(extra)),
        on(Act::Plan("first this")),
        // What was said so far is in a view that is known to be synced.
        on(Act::Reopen),
        on(say("user", "once more")),
        on(Act::Summarize(3, 0)),
        on(say("user", "after it")),
        on(Act::Trim(6, 1)),
        on_second(Act::Start),
        on_second(say("user", "me too")),
        on(Act::Undo),
        on(Act::Pause),
        on(Act::Resume),
        on(say("assistant", "that was all")),
        on_second(Act::Delete),
        on(Act::Complete),
    ]
}
