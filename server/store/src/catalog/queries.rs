//! The statements on `tasks`, and how a row becomes columns and back. Callers' values are only ever bound.

use std::collections::HashSet;
use std::sync::LazyLock;

use chrono::{DateTime, DurationRound, SecondsFormat, TimeDelta, Utc};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params, params_from_iter};
use uuid::Uuid;

use super::page::Position;
use super::schema::COLUMNS;
use crate::model::{Health, Status, TaskFilter, TaskId, TaskKey, TaskOrder, TaskRow};

static SELECT: LazyLock<String> = LazyLock::new(|| format!("SELECT {} FROM tasks", COLUMNS.join(", ")));

// Not INSERT OR REPLACE: that takes the row out of every index and puts it back.
static UPSERT: LazyLock<String> = LazyLock::new(|| {
    let places: Vec<_> = (1..=COLUMNS.len()).map(|place| format!("?{place}")).collect();
    let updates: Vec<_> =
        COLUMNS.iter().skip(1).map(|column| format!("{column} = excluded.{column}")).collect();
    format!(
        "INSERT INTO tasks ({}) VALUES ({}) ON CONFLICT (uuid) DO UPDATE SET {}",
        COLUMNS.join(", "),
        places.join(", "),
        updates.join(", ")
    )
});

/// Ids looked up by one statement.
const KNOWN_AT_ONCE: usize = 1000;

/// Writes a row, new or not.
pub(super) fn put(conn: &Connection, row: &TaskRow) -> rusqlite::Result<()> {
    conn.prepare_cached(&UPSERT)?.execute(params![
        Id(row.uuid),
        row.key.task_source,
        row.key.owner,
        row.key.repo,
        row.repository,
        row.key.task_type,
        row.key.task_id,
        row.status.as_str(),
        row.health.as_str(),
        row.user,
        Time(row.created_at),
        Time(row.started_at),
        Time(row.updated_at),
        row.completed_at.map(Time),
        row.process_id,
        row.hostname,
        row.llm_provider,
        row.model,
        row.context_length.map(Count),
        Count(row.llm_call_count),
        Count(row.tool_call_count),
        Count(row.total_tokens),
        Count(row.compression_count),
        Count(row.total_messages),
        Count(row.total_summaries),
        Count(row.total_tool_calls),
        row.final_token_count.map(Count),
        row.final_message_count.map(Count),
        row.error_message,
        row.metadata.to_string(),
    ])?;
    Ok(())
}

/// Removes a row if it is there.
pub(super) fn remove(conn: &Connection, id: TaskId) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM tasks WHERE uuid = ?1")?.execute([Id(id)])?;
    Ok(())
}

/// Changes the health of a row if it is there.
pub(super) fn set_health(conn: &Connection, id: TaskId, health: Health) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached("UPDATE tasks SET health = ?2 WHERE uuid = ?1")?;
    statement.execute(params![Id(id), health.as_str()])?;
    Ok(())
}

/// One row.
pub(super) fn get(conn: &Connection, id: TaskId) -> rusqlite::Result<Option<TaskRow>> {
    let sql = format!("{} WHERE uuid = ?1", *SELECT);
    conn.prepare_cached(&sql)?.query_row([Id(id)], read).optional()
}

/// Up to `limit` rows after a position, but not much more than `bytes` of text, and whether there are more.
pub(super) fn list(
    conn: &Connection,
    filter: &TaskFilter,
    order: TaskOrder,
    after: Option<Position>,
    (limit, bytes): (usize, usize),
) -> rusqlite::Result<(Vec<TaskRow>, bool)> {
    let mut wanted = Conditions::default();
    let exact = [
        ("task_source = ?", &filter.task_source),
        ("owner = ?", &filter.owner),
        ("repo = ?", &filter.repo),
        ("task_type = ?", &filter.task_type),
        ("task_id = ?", &filter.task_id),
        ("user = ?", &filter.user),
    ];
    for (condition, value) in exact {
        if let Some(value) = value {
            wanted.and(condition, [Value::Text(value.clone())]);
        }
    }
    let statuses: Vec<_> =
        Status::ALL.into_iter().filter(|status| filter.statuses.contains(status)).collect();
    if !statuses.is_empty() {
        let condition = format!("status IN ({})", vec!["?"; statuses.len()].join(", "));
        wanted.and(&condition, statuses.iter().map(|status| Value::Text(status.as_str().to_owned())));
    }
    if let Some(from) = filter.created_from {
        wanted.and("created_at >= ?", [Value::Text(bound_text(from))]);
    }
    if let Some(before) = filter.created_before {
        wanted.and("created_at < ?", [Value::Text(bound_text(before))]);
    }
    let (column, compare, direction) = match order {
        TaskOrder::CreatedDescending => ("created_at", "<", "DESC"),
        TaskOrder::CreatedAscending => ("created_at", ">", "ASC"),
        TaskOrder::UpdatedDescending => ("updated_at", "<", "DESC"),
        TaskOrder::UpdatedAscending => ("updated_at", ">", "ASC"),
    };
    if let Some(Position { at, id }) = after {
        let values = [Value::Text(time_text(at)), Value::Text(id.to_string())];
        wanted.and(&format!("({column}, uuid) {compare} (?, ?)"), values);
    }
    // One more than asked for tells whether there are more.
    let sql = format!(
        "{} {} ORDER BY {column} {direction}, uuid {direction} LIMIT {}",
        *SELECT,
        wanted.sql,
        limit + 1
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let (mut rows, mut used) = (Vec::new(), 0);
    for row in statement.query_map(params_from_iter(wanted.values), read)? {
        let row = row?;
        if rows.len() >= limit || (used > 0 && used + text_bytes(&row) > bytes) {
            return Ok((rows, true));
        }
        used += text_bytes(&row);
        rows.push(row);
    }
    Ok((rows, false))
}

/// Bytes of what callers wrote into a row, as far as a listing tells it.
fn text_bytes(row: &TaskRow) -> usize {
    let TaskKey { task_source, owner, repo, task_type, task_id } = &row.key;
    let key = [task_source, owner, repo, task_type, task_id];
    let other = [&row.user, &row.hostname, &row.llm_provider, &row.model];
    let error = row.error_message.as_ref().map_or(0, String::len);
    error + key.into_iter().chain(other).map(String::len).sum::<usize>()
}

/// A WHERE clause and its values.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(if self.sql.is_empty() { "WHERE " } else { " AND " });
        self.sql.push_str(condition);
        self.values.extend(values);
    }
}

/// The newest tasks that ended and that one of a key and a user would go on with. Two forges may have a repository of the same
/// name; where one is not named, it can be any.
pub(super) fn previous(
    conn: &Connection,
    key: &TaskKey,
    user: &str,
    limit: usize,
) -> rusqlite::Result<Vec<TaskRow>> {
    let sql = format!(
        "{} WHERE task_type = ?1 AND task_id = ?2 AND repository = ?3 AND user = ?4 AND completed_at IS NOT NULL \
         AND (task_source = ?6 OR task_source = '' OR ?6 = '') \
         AND status IN ('completed', 'failed') AND health = 'ok' ORDER BY completed_at DESC, uuid DESC LIMIT ?5",
        *SELECT
    );
    let (repository, limit) = (key.repository(), Count(limit as u64));
    let values = params![key.task_type, key.task_id, repository, user, limit, key.task_source];
    conn.prepare_cached(&sql)?.query_map(values, read)?.collect()
}

/// Returns which of the ids have a row that does not call them missing.
pub(super) fn known(conn: &Connection, ids: &[TaskId]) -> rusqlite::Result<HashSet<TaskId>> {
    let mut statement = conn.prepare_cached(
        "SELECT uuid FROM tasks WHERE health <> 'missing' AND uuid IN (SELECT value FROM json_each(?1))",
    )?;
    let mut known = HashSet::with_capacity(ids.len());
    for chunk in ids.chunks(KNOWN_AT_ONCE) {
        let chunk = serde_json::Value::from_iter(chunk.iter().map(TaskId::to_string)).to_string();
        for id in statement.query_map([chunk], |row| row.get(0))? {
            let Id(id) = id?;
            known.insert(id);
        }
    }
    Ok(known)
}

/// The tasks that are running or paused and can be used.
pub(super) fn live(conn: &Connection) -> rusqlite::Result<Vec<(TaskId, Status)>> {
    conn.prepare_cached(
        "SELECT uuid, status FROM tasks WHERE status IN ('running', 'paused') AND health = 'ok' ORDER BY uuid",
    )?
    .query_map([], |row| Ok((row.get::<_, Id>(0)?.0, row.get::<_, Word<Status>>(1)?.0)))?
    .collect()
}

/// The tasks that have ended and can be used.
pub(super) fn ended(conn: &Connection) -> rusqlite::Result<Vec<TaskId>> {
    conn.prepare_cached("SELECT uuid FROM tasks WHERE status IN ('completed', 'failed') AND health = 'ok'")?
        .query_map([], |row| Ok(row.get::<_, Id>(0)?.0))?
        .collect()
}

/// Returns how many rows there are.
pub(super) fn count(conn: &Connection) -> rusqlite::Result<u64> {
    conn.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)).map(|Count(count)| count)
}

/// Reads every row, to find those that cannot be: SQLite's own check does not look into values.
pub(super) fn read_all(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare(&SELECT)?.query_map([], read)?.try_for_each(|row| row.map(drop))
}

fn read(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    let time = |column: &str| row.get(column).map(|Time(time)| time);
    let count = |column: &str| row.get(column).map(|Count(count)| count);
    let maybe_count =
        |column: &str| row.get(column).map(|count: Option<Count>| count.map(|Count(count)| count));
    Ok(TaskRow {
        uuid: row.get::<_, Id>("uuid")?.0,
        key: TaskKey {
            task_source: row.get("task_source")?,
            owner: row.get("owner")?,
            repo: row.get("repo")?,
            task_type: row.get("task_type")?,
            task_id: row.get("task_id")?,
        },
        repository: row.get("repository")?,
        status: row.get::<_, Word<Status>>("status")?.0,
        health: row.get::<_, Word<Health>>("health")?.0,
        user: row.get("user")?,
        created_at: time("created_at")?,
        started_at: time("started_at")?,
        updated_at: time("updated_at")?,
        completed_at: row.get::<_, Option<Time>>("completed_at")?.map(|Time(time)| time),
        process_id: row.get("process_id")?,
        hostname: row.get("hostname")?,
        llm_provider: row.get("llm_provider")?,
        model: row.get("model")?,
        context_length: maybe_count("context_length")?,
        llm_call_count: count("llm_call_count")?,
        tool_call_count: count("tool_call_count")?,
        total_tokens: count("total_tokens")?,
        compression_count: count("compression_count")?,
        total_messages: count("total_messages")?,
        total_summaries: count("total_summaries")?,
        total_tool_calls: count("total_tool_calls")?,
        final_token_count: maybe_count("final_token_count")?,
        final_message_count: maybe_count("final_message_count")?,
        error_message: row.get("error_message")?,
        metadata: row.get::<_, Json>("metadata")?.0,
    })
}

/// Text order is time order only for years of four digits; no task is older or younger.
fn time_text(time: DateTime<Utc>) -> String {
    const FIRST: DateTime<Utc> = DateTime::UNIX_EPOCH;
    const LAST_SECOND: i64 = 253_402_300_799;
    let last = DateTime::from_timestamp(LAST_SECOND, 999_999_000).unwrap_or(FIRST);
    time.clamp(FIRST, last).to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// The text of a filter's bound. Rows have whole microseconds, so a bound between two is the later one.
fn bound_text(bound: DateTime<Utc>) -> String {
    time_text(bound.duration_round_up(TimeDelta::microseconds(1)).unwrap_or(bound))
}

/// A time as text.
struct Time(DateTime<Utc>);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(time_text(self.0).into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let time = DateTime::parse_from_rfc3339(value.as_str()?).map_err(FromSqlError::other)?;
        Ok(Self(time.to_utc()))
    }
}

/// A count. SQLite's integers are signed; a count past them is no count, so the largest will do.
struct Count(u64);

impl ToSql for Count {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Count {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let count = value.as_i64()?;
        u64::try_from(count).map(Self).map_err(|_| FromSqlError::OutOfRange(count))
    }
}

/// A task's id as text.
struct Id(TaskId);

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let id = Uuid::try_parse(value.as_str()?).map_err(FromSqlError::other)?;
        Ok(Self(id.into()))
    }
}

/// One of a few words.
struct Word<T>(T);

impl FromSql for Word<Status> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Status::parse(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

impl FromSql for Word<Health> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        let found = Health::ALL.into_iter().find(|health| health.as_str() == text);
        found.map(Self).ok_or(FromSqlError::InvalidType)
    }
}

/// JSON as text.
struct Json(serde_json::Value);

impl FromSql for Json {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}
