//! Stories about the catalog, and what they share.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should say where"
)]

mod disk;
mod queue;
mod rows;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::Connection;
use tempfile::TempDir;

use super::open::{Mode, open_connection};
use super::{Catalog, CatalogOptions, Opened};
use crate::model::{Health, Status, TaskId, TaskKey, TaskRow};

/// A background flush that never comes by itself within a test.
const NEVER: Duration = Duration::from_secs(3600);

fn patient() -> CatalogOptions {
    CatalogOptions { flush_every: NEVER, ..CatalogOptions::default() }
}

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("tasks.db")
    }

    fn open(&self) -> (Catalog, Opened) {
        Catalog::open(&self.db(), patient()).unwrap()
    }

    /// A catalog of some rows that was not closed in order, all of it in the one file.
    fn with_rows(rows: usize) -> Self {
        let place = Self::new();
        let (catalog, _) = place.open();
        (0..rows).for_each(|n| catalog.put(row(n)));
        catalog.flush().unwrap();
        place
    }

    /// The names of all files, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A connection of another process, as far as SQLite can tell.
fn outsider(path: &Path) -> Connection {
    open_connection(path, Mode::Write, Duration::from_secs(10)).unwrap()
}

fn committed(path: &Path) -> i64 {
    outsider(path).query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)).unwrap()
}

/// Makes the disk full, as far as SQLite can tell, at so many pages.
fn limit_pages(catalog: &Catalog, pages: i64) {
    let db = catalog.inner.writing.as_ref().unwrap().db.lock().unwrap();
    let conn = db.as_ref().unwrap();
    conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
}

fn start_of_time() -> DateTime<Utc> {
    "2025-01-02T03:04:05.000006Z".parse().unwrap()
}

/// The `n`th task: every value differs from its neighbours' and from other fields of its kind.
fn row(n: usize) -> TaskRow {
    let base = u64::try_from(n).unwrap() * 100;
    let at = |seconds: i64| start_of_time() + TimeDelta::seconds(i64::try_from(n).unwrap() * 100 + seconds);
    TaskRow {
        uuid: TaskId::new(),
        key: TaskKey {
            task_source: format!("source {n}"),
            owner: format!("owner {n}"),
            repo: format!("repo {n}"),
            task_type: format!("type {n}"),
            task_id: format!("id {n}"),
        },
        repository: format!("owner {n}/repo {n}"),
        status: Status::ALL[n % 4],
        health: Health::Ok,
        user: format!("user {n}"),
        created_at: at(1),
        started_at: at(2),
        updated_at: at(3),
        completed_at: Some(at(4)),
        process_id: u32::MAX,
        hostname: format!("host {n}"),
        llm_provider: format!("provider {n}"),
        model: format!("model {n}"),
        context_length: Some(base + 1),
        llm_call_count: base + 2,
        tool_call_count: base + 3,
        total_tokens: base + 4,
        compression_count: base + 5,
        total_messages: base + 6,
        total_summaries: base + 7,
        total_tool_calls: base + 8,
        final_token_count: Some(base + 9),
        final_message_count: Some(base + 10),
        error_message: Some(format!("error {n}: 'quoted' \u{0} ✓")),
        metadata: serde_json::json!({"format_version": 1, "nested": {"n": n, "text": "\"✓\u{0}"}}),
    }
}

/// Polls until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

const CHILD_DIR: &str = "CATALOG_TEST_DIR";

/// Runs the rest of a test in a process of its own, as umask and user belong to the whole process. Answers the
/// directory in the child, and `None` in the parent once the child has passed.
fn in_child(test: &str, place: &Place, configure: impl FnOnce(&mut Command)) -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        return Some(dir.into());
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("catalog::tests::{test}"), "--nocapture"]);
    child.env(CHILD_DIR, place.dir.path());
    configure(&mut child);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "no test is called {test}");
    None
}
