-- One row a task. All of it can be made again from the task directories.
-- Times are RFC 3339 in UTC with six digits of a second and a Z, so text order is time order.
CREATE TABLE tasks (
    uuid                TEXT PRIMARY KEY NOT NULL,
    task_source         TEXT NOT NULL,
    owner               TEXT NOT NULL,
    repo                TEXT NOT NULL,
    repository          TEXT NOT NULL,
    task_type           TEXT NOT NULL,
    task_id             TEXT NOT NULL,
    status              TEXT NOT NULL CHECK (status IN ('running', 'paused', 'completed', 'failed')),
    health              TEXT NOT NULL CHECK (health IN ('ok', 'quarantined', 'missing', 'newer_format')),
    user                TEXT NOT NULL,
    created_at          TEXT NOT NULL,
    started_at          TEXT NOT NULL,
    updated_at          TEXT NOT NULL,
    completed_at        TEXT,
    process_id          INTEGER NOT NULL,
    hostname            TEXT NOT NULL,
    llm_provider        TEXT NOT NULL,
    model               TEXT NOT NULL,
    context_length      INTEGER,
    llm_call_count      INTEGER NOT NULL,
    tool_call_count     INTEGER NOT NULL,
    total_tokens        INTEGER NOT NULL,
    compression_count   INTEGER NOT NULL,
    total_messages      INTEGER NOT NULL,
    total_summaries     INTEGER NOT NULL,
    total_tool_calls    INTEGER NOT NULL,
    final_token_count   INTEGER,
    final_message_count INTEGER,
    error_message       TEXT,
    metadata            TEXT NOT NULL
) STRICT;

CREATE INDEX idx_tasks_status ON tasks (status);
CREATE INDEX idx_tasks_task_type ON tasks (task_type);
CREATE INDEX idx_tasks_repository ON tasks (repository);
CREATE INDEX idx_tasks_user ON tasks (user);
CREATE INDEX idx_tasks_completed_at ON tasks (completed_at);
-- For paging: the uuid breaks ties.
CREATE INDEX idx_tasks_created_at_uuid ON tasks (created_at, uuid);
CREATE INDEX idx_tasks_updated_at_uuid ON tasks (updated_at, uuid);
-- For finding the finished task that a new one inherits from.
CREATE INDEX idx_tasks_inheritance ON tasks (task_type, task_id, repository, user, completed_at);

CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT;
