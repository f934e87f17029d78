//! The tables of `tasks.db`: how they are made and brought up to date, whether a file has them, and the flag
//! that says it was closed in order.

use rusqlite::{Connection, OptionalExtension};
use rusqlite_migration::{M, Migrations};

/// Every version of the schema, oldest first. A released one is never changed: add another.
const MIGRATIONS: &[M<'static>] = &[M::up(include_str!("migrations/0001_tasks.sql"))];

/// The columns of `tasks`, in the order of the table. Statements are made from this list.
pub(super) const COLUMNS: [&str; 30] = [
    "uuid",
    "task_source",
    "owner",
    "repo",
    "repository",
    "task_type",
    "task_id",
    "status",
    "health",
    "user",
    "created_at",
    "started_at",
    "updated_at",
    "completed_at",
    "process_id",
    "hostname",
    "llm_provider",
    "model",
    "context_length",
    "llm_call_count",
    "tool_call_count",
    "total_tokens",
    "compression_count",
    "total_messages",
    "total_summaries",
    "total_tool_calls",
    "final_token_count",
    "final_message_count",
    "error_message",
    "metadata",
];

/// The indexes of `tasks`.
pub(super) const INDEXES: [&str; 8] = [
    "idx_tasks_status",
    "idx_tasks_task_type",
    "idx_tasks_repository",
    "idx_tasks_user",
    "idx_tasks_completed_at",
    "idx_tasks_created_at_uuid",
    "idx_tasks_updated_at_uuid",
    "idx_tasks_inheritance",
];

const META_COLUMNS: [&str; 2] = ["key", "value"];

/// The contents of a database file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing yet.
    Nothing,
    /// A catalog of this or an older version.
    Catalog,
    /// A catalog of a newer version, or another program's tables.
    Foreign(String),
}

/// Looks at the version and whether there are tables. Columns are looked at by [`is_current`].
pub(super) fn find(conn: &Connection) -> rusqlite::Result<Found> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let objects: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    Ok(match (version, objects) {
        (0, 0) => Found::Nothing,
        (version, _) if version > known => {
            Found::Foreign(format!("its schema is version {version}, the newest known is {known}"))
        }
        (version, objects) if version < 1 || objects == 0 => {
            Found::Foreign("its tables are not a catalog's".to_owned())
        }
        _ => Found::Catalog,
    })
}

/// Makes the tables, or brings them up to date.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), rusqlite_migration::Error> {
    Migrations::from_slice(MIGRATIONS).to_latest(conn)
}

/// Returns whether tables, columns and indexes are those of the newest version.
pub(super) fn is_current(conn: &Connection) -> rusqlite::Result<bool> {
    let indexes = names(conn, "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'tasks'")?;
    Ok(names(conn, "SELECT name FROM pragma_table_info('tasks') ORDER BY cid")? == COLUMNS
        && names(conn, "SELECT name FROM pragma_table_info('meta') ORDER BY cid")? == META_COLUMNS
        // More indexes do no harm.
        && INDEXES.iter().all(|index| indexes.iter().any(|found| found == index)))
}

fn names(conn: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// SQLite's own look at the file: `None`, or the first thing that is wrong.
pub(super) fn quick_check(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let said: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((said != "ok").then_some(said))
}

/// Returns whether the file was closed in order.
pub(super) fn is_clean(conn: &Connection) -> rusqlite::Result<bool> {
    let value: Option<String> =
        conn.query_row("SELECT value FROM meta WHERE key = 'clean'", [], |row| row.get(0)).optional()?;
    Ok(value.as_deref() == Some("1"))
}

/// The run that used the file last, as it named itself.
pub(super) fn run(conn: &Connection) -> rusqlite::Result<Option<String>> {
    conn.query_row("SELECT value FROM meta WHERE key = 'run'", [], |row| row.get(0)).optional()
}

/// Names the run that uses the file from now on.
pub(super) fn set_run(conn: &Connection, run: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES ('run', ?1)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    conn.execute(sql, [run]).map(|_| ())
}

/// Writes the flag so that it survives a power cut, with everything committed before.
pub(super) fn set_clean(conn: &Connection, clean: bool) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "FULL")?;
    let value = if clean { "1" } else { "0" };
    let written = conn.execute(
        "INSERT INTO meta (key, value) VALUES ('clean', ?1)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [value],
    );
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    written.map(|_| ())
}
