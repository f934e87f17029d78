//! Runs every scenario in `tests/scenarios` against a real server, over the socket and over TCP.
//!
//! Requests and answers are dynamic messages: what the other languages send as JSON is sent here too. The format
//! is described in `tests/scenarios/README.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;
use tonic_types::StatusExt;

use test_support::dynamic;
use test_support::dynamic::{Answers, Caller};
use test_support::server::{DEADLINE, TestServer};
use test_support::service::moment;

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    about: String,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    call: String,
    request: Option<Value>,
    requests: Option<Vec<Value>>,
    expect: Option<Value>,
    expect_stream: Option<Vec<Value>>,
    expect_text: Option<String>,
    expect_records: Option<Vec<Value>>,
    error: Option<Refusal>,
    #[serde(default)]
    save: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    code: String,
    reason: String,
    field: Option<String>,
}

type Saved = BTreeMap<String, Value>;

impl Scenario {
    async fn run(&self, caller: &Caller) -> Result<(), String> {
        let mut saved = Saved::new();
        for (number, step) in self.steps.iter().enumerate() {
            let about = |problem| format!("step {} ({}): {problem}", number + 1, step.call);
            step.run(caller, &mut saved).await.map_err(about)?;
        }
        Ok(())
    }
}

impl Step {
    async fn run(&self, caller: &Caller, saved: &mut Saved) -> Result<(), String> {
        let end = Instant::now() + DEADLINE;
        let answers = loop {
            let answers = self.ask(caller, saved).await?;
            match self.check(&answers, saved) {
                Ok(()) => break answers,
                // The catalog may be behind the tasks.
                Err(_) if self.call == "ListTasks" && Instant::now() < end => {
                    moment().await;
                }
                Err(problem) => return Err(format!("{problem}\n  in {answers}")),
            }
        };
        let all = answers.json();
        let whole = if answers.streamed { all.into() } else { all.into_iter().next().unwrap_or_default() };
        for (name, path) in &self.save {
            let found = at(&whole, path).ok_or_else(|| format!("nothing to save at {path} of {whole}"))?;
            saved.insert(name.clone(), found.clone());
        }
        Ok(())
    }

    async fn ask(&self, caller: &Caller, saved: &Saved) -> Result<Answers, String> {
        let requests = match (&self.request, &self.requests) {
            (Some(request), None) => std::slice::from_ref(request),
            (None, Some(requests)) => requests,
            (None, None) => &[Value::Object(serde_json::Map::new())],
            (Some(_), Some(_)) => return Err("it has both request and requests".to_owned()),
        };
        let requests =
            requests.iter().map(|request| filled(request, saved)).collect::<Result<Vec<_>, _>>()?;
        let follows = requests.first().is_some_and(|request| request["follow"] == true);
        let endless = self.error.is_none() && (self.call == "WatchTask" || follows);
        let enough = |answers: &Answers| {
            let wanted = self.expect_stream.as_ref().map_or(0, Vec::len);
            let records = self.expect_records.as_ref().map_or(0, Vec::len);
            endless && answers.messages.len() >= wanted && answers.records().len() >= records
        };
        caller.call(&self.call, &requests, enough).await
    }

    fn check(&self, answers: &Answers, saved: &Saved) -> Result<(), String> {
        match (&answers.error, &self.error) {
            (None, None) => {}
            (None, Some(expected)) => return Err(format!("it succeeded instead of {expected:?}")),
            (Some(status), None) => {
                return Err(format!("it failed: {:?} {}", status.code(), status.message()));
            }
            (Some(status), Some(expected)) => expected.check(status)?,
        }
        if let Some(expected) = &self.expect {
            let [answer] = &answers.json()[..] else { return Err("there is not one answer".to_owned()) };
            subset(answer, &filled(expected, saved)?, "expect")?;
        }
        if let Some(expected) = &self.expect_stream {
            subset(&answers.json().into(), &filled(&expected.clone().into(), saved)?, "expect_stream")?;
        }
        if let Some(expected) = &self.expect_text {
            let text = String::from_utf8(answers.data()).map_err(|_| "the data is not UTF-8")?;
            subset(&text.into(), &filled(&expected.clone().into(), saved)?, "expect_text")?;
        }
        if let Some(expected) = &self.expect_records {
            let parsed = |record: Vec<u8>| serde_json::from_slice(&record).map_err(|error| error.to_string());
            let records = answers.records().into_iter().map(parsed).collect::<Result<Vec<Value>, _>>()?;
            subset(&records.into(), &filled(&expected.clone().into(), saved)?, "expect_records")?;
        }
        Ok(())
    }
}

impl Refusal {
    fn check(&self, status: &tonic::Status) -> Result<(), String> {
        let details = status.get_error_details();
        let code = screaming(&format!("{:?}", status.code()));
        let reason = details.error_info().map(|info| info.reason.as_str()).unwrap_or_default();
        if (code.as_str(), reason) != (&self.code, &self.reason) {
            return Err(format!("it failed with {code} {reason} ({})", status.message()));
        }
        let Some(field) = &self.field else { return Ok(()) };
        let violations = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        let named: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        if named.contains(&field.as_str()) { Ok(()) } else { Err(format!("{named:?} is named, not {field}")) }
    }
}

/// `NotFound` as `NOT_FOUND`.
fn screaming(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

/// The value with what was saved in the place of `$name`.
fn filled(value: &Value, saved: &Saved) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(name) => saved.get(name).ok_or_else(|| format!("nothing was saved as {name}"))?.clone(),
            None => value.clone(),
        },
        Value::Array(list) => {
            list.iter().map(|item| filled(item, saved)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Object(object) => {
            let filled = object.iter().map(|(key, value)| Ok((key.clone(), filled(value, saved)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// What a dotted path leads to.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, step| match value.as_array() {
        Some(list) => list.get(step.parse::<usize>().ok()?),
        None => value.get(step),
    })
}

/// Whether everything that is expected is there.
fn subset(found: &Value, expected: &Value, path: &str) -> Result<(), String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected.iter().try_for_each(|(key, expected)| {
            subset(found.get(key).unwrap_or(&Value::Null), expected, &format!("{path}.{key}"))
        }),
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let mut pairs = found.iter().zip(expected).enumerate();
            pairs.try_for_each(|(at, (found, expected))| subset(found, expected, &format!("{path}.{at}")))
        }
        (found, expected) if found == expected => Ok(()),
        (found, expected) => Err(format!("{path} is {found}, not {expected}")),
    }
}

fn scenarios() -> Vec<(PathBuf, Scenario)> {
    let dir = test_support::repository().join("tests/scenarios");
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    assert!(!files.is_empty(), "there are no scenarios");
    let read = |path: PathBuf| {
        let scenario = serde_json::from_str(&fs::read_to_string(&path).unwrap());
        let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, scenario)
    };
    files.into_iter().map(read).collect()
}

async fn run_all(caller: Caller) {
    let mut problems = Vec::new();
    for (path, scenario) in scenarios() {
        if let Err(problem) = scenario.run(&caller).await {
            let file = path.file_name().unwrap().to_string_lossy();
            problems.push(format!("{file} ({}): {problem}", scenario.name));
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_holds_over_the_socket() {
    let server = TestServer::start().await;
    run_all(Caller::unix(&server.socket()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_holds_over_tcp() {
    let server = TestServer::start().await;
    run_all(Caller::tcp(server.tcp_address(), &server.token()).await).await;
}

#[test]
fn every_method_is_used_and_every_scenario_says_what_it_is_about() {
    let scenarios = scenarios();
    let used: BTreeSet<_> =
        scenarios.iter().flat_map(|(_, scenario)| &scenario.steps).map(|step| step.call.clone()).collect();
    let methods = dynamic::methods();
    let all: BTreeSet<_> = methods.iter().map(|method| method.name().to_owned()).collect();
    assert_eq!(all.len(), methods.len(), "a call is known by its name: no two services have the same one");
    assert_eq!(all.difference(&used).collect::<Vec<_>>(), [""; 0], "no scenario uses these");
    assert_eq!(used.difference(&all).collect::<Vec<_>>(), [""; 0], "there are no such methods");
    for (path, scenario) in &scenarios {
        assert!(!scenario.name.is_empty() && !scenario.about.is_empty(), "{}", path.display());
        assert!(!scenario.steps.is_empty(), "{}", path.display());
    }
}

/// A runner that lets everything pass is worth nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_expectation_is_found() {
    let server = TestServer::start().await;
    let caller = Caller::unix(&server.socket()).await;
    let start =
        r#"{"call": "StartTask", "request": {"holder": {"instanceId": "a"}}, "save": {"uuid": "task.uuid"}}"#;
    let planted = [
        (
            r#"{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "expect": {"task": {"status": "TASK_STATUS_RUNNING"}}}"#,
            "",
        ),
        (
            r#"{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "expect": {"task": {"status": "TASK_STATUS_PAUSED"}}}"#,
            "expect.task.status is \"TASK_STATUS_RUNNING\", not \"TASK_STATUS_PAUSED\"",
        ),
        (r#"{"call": "GetTask", "request": {"taskUuid": "$other"}}"#, "nothing was saved as other"),
        (r#"{"call": "GetTask", "request": {"taskUuid": "17"}}"#, "it failed"),
        (
            r#"{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "error": {"code": "NOT_FOUND", "reason": "X"}}"#,
            "it succeeded instead of",
        ),
        (
            r#"{"call": "GetTask", "request": {"taskUuid": "17"}, "error": {"code": "NOT_FOUND", "reason": "X"}}"#,
            "it failed with INVALID_ARGUMENT ERROR_REASON_INVALID_FIELD",
        ),
        (
            r#"{"call": "GetTask", "request": {"taskUuid": "17"}, "error":
                {"code": "INVALID_ARGUMENT", "reason": "ERROR_REASON_INVALID_FIELD", "field": "seq"}}"#,
            "[\"task_uuid\"] is named, not seq",
        ),
        (
            r#"{"call": "StreamMessages", "request": {"taskUuid": "$uuid"}, "expect_records": []}"#,
            "expect_records is [",
        ),
        (
            r#"{"call": "StreamCurrent", "request": {"taskUuid": "$uuid"}, "expect_text": "x"}"#,
            "expect_text is \"\", not \"x\"",
        ),
        (
            r#"{"call": "StreamPlans", "request": {"taskUuid": "$uuid"}, "expect_stream": [{}]}"#,
            "expect_stream is [], not [{}]",
        ),
        (
            r#"{"call": "GetTask", "request": {"taskUuid": "$uuid"}, "save": {"x": "task.y"}}"#,
            "nothing to save at",
        ),
        (r#"{"call": "NoSuch", "request": {}}"#, "there is no method NoSuch"),
        (r#"{"call": "GetTask", "request": {"taskId": "$uuid"}}"#, "taskId"),
    ];
    for (step, problem) in planted {
        let text = format!(r#"{{"name": "n", "about": "a", "steps": [{start}, {step}]}}"#);
        let scenario: Scenario = serde_json::from_str(&text).unwrap();
        let ran = scenario.run(&caller).await;
        match ran {
            Ok(()) => assert_eq!(problem, "", "{step}"),
            Err(found) => {
                assert!(
                    !problem.is_empty() && found.starts_with("step 2 (") && found.contains(problem),
                    "{step}: {found}"
                );
            }
        }
    }
}
