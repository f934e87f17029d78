//! Rows: every column there and back, filters, orders and pages.

use std::collections::HashSet;

use super::*;
use crate::catalog::{queries, schema};
use crate::model::{StoreError, TaskFilter, TaskOrder};

const ORDERS: [TaskOrder; 4] = [
    TaskOrder::CreatedDescending,
    TaskOrder::CreatedAscending,
    TaskOrder::UpdatedDescending,
    TaskOrder::UpdatedAscending,
];

fn filled(rows: &[TaskRow]) -> Catalog {
    let catalog = Catalog::in_memory().unwrap();
    rows.iter().for_each(|row| catalog.put(row.clone()));
    catalog
}

fn ids<'a>(rows: impl IntoIterator<Item = &'a TaskRow>) -> Vec<TaskId> {
    rows.into_iter().map(|row| row.uuid).collect()
}

/// All pages, one after the other.
fn pages(catalog: &Catalog, filter: &TaskFilter, order: TaskOrder, size: usize) -> Vec<Vec<TaskId>> {
    let mut pages = Vec::new();
    let mut token = None;
    loop {
        let page = catalog.list(filter, order, size, token.as_deref()).unwrap();
        pages.push(ids(&page.rows));
        assert!(pages.len() < 1000, "paging does not end");
        match page.next {
            Some(next) => token = Some(next),
            None => return pages,
        }
    }
}

#[test]
fn the_schema_has_all_columns_and_indexes() {
    let place = Place::with_rows(0);
    let conn = outsider(&place.db());
    let columns: Vec<(String, String, bool)> = conn
        .prepare("SELECT name, type, \"notnull\" FROM pragma_table_info('tasks')")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let text = "uuid task_source owner repo repository task_type task_id status health user created_at \
                started_at updated_at completed_at? process_id# hostname llm_provider model context_length#? \
                llm_call_count# tool_call_count# total_tokens# compression_count# total_messages# \
                total_summaries# total_tool_calls# final_token_count#? final_message_count#? error_message? \
                metadata";
    let expected: Vec<_> = text
        .split_whitespace()
        .map(|word| {
            let kind = if word.contains('#') { "INTEGER" } else { "TEXT" };
            (word.trim_end_matches(['#', '?']).to_owned(), kind.to_owned(), !word.contains('?'))
        })
        .collect();
    assert_eq!(columns, expected);

    let indexed = |index: &str| -> Vec<String> {
        let mut statement = conn.prepare("SELECT name FROM pragma_index_info(?1) ORDER BY seqno").unwrap();
        statement.query_map([index], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for column in ["status", "task_type", "repository", "user", "completed_at"] {
        assert_eq!(indexed(&format!("idx_tasks_{column}")), [column]);
    }
    assert_eq!(indexed("idx_tasks_created_at_uuid"), ["created_at", "uuid"]);
    assert_eq!(indexed("idx_tasks_updated_at_uuid"), ["updated_at", "uuid"]);
    let inheritance = ["task_type", "task_id", "repository", "user", "completed_at"];
    assert_eq!(indexed("idx_tasks_inheritance"), inheritance);
    assert!(schema::is_current(&conn).unwrap());

    let refused = |column: &str| {
        let sql = format!("UPDATE tasks SET {column} = 'other'");
        conn.execute(&sql, []).unwrap_err().to_string().contains("CHECK")
    };
    queries::put(&conn, &row(0)).unwrap();
    assert!(refused("status") && refused("health"));
}

#[test]
fn every_column_comes_back() {
    let place = Place::new();
    let (catalog, _) = place.open();
    let full = row(7);
    let bare = TaskRow {
        completed_at: None,
        context_length: None,
        final_token_count: None,
        final_message_count: None,
        error_message: None,
        metadata: serde_json::Value::Null,
        ..row(8)
    };
    for row in [&full, &bare] {
        catalog.put(row.clone());
        catalog.flush().unwrap();
        assert_eq!(catalog.get(row.uuid).unwrap().as_ref(), Some(row));
    }
    // A changed row changes every column but the id.
    let changed = TaskRow { uuid: full.uuid, health: Health::NewerFormat, ..row(9) };
    catalog.put(changed.clone());
    catalog.flush().unwrap();
    assert_eq!(catalog.get(full.uuid).unwrap(), Some(changed));
    for (health, status) in Health::ALL.into_iter().zip(Status::ALL) {
        let row = TaskRow { health, status, ..row(10) };
        catalog.put(row.clone());
        catalog.flush().unwrap();
        assert_eq!(catalog.get(row.uuid).unwrap(), Some(row));
    }
    assert_eq!(catalog.get(TaskId::new()).unwrap(), None);
    assert_eq!(catalog.count().unwrap(), 6);
}

#[test]
fn times_are_stored_so_that_text_order_is_time_order() {
    let place = Place::new();
    let (catalog, _) = place.open();
    let times = [
        ("2025-01-02T03:04:05Z", "2025-01-02T03:04:05.000000Z"),
        ("2025-01-02T03:04:05.000001Z", "2025-01-02T03:04:05.000001Z"),
        ("2025-01-02T05:04:05.5+02:00", "2025-01-02T03:04:05.500000Z"),
        // Years of five digits would sort before those of four.
        ("+012025-01-02T03:04:05Z", "9999-12-31T23:59:59.999999Z"),
    ];
    for (time, text) in times {
        let time = time.parse().unwrap();
        let row = TaskRow { created_at: time, ..row(0) };
        catalog.put(row.clone());
        catalog.flush().unwrap();
        let sql = "SELECT created_at FROM tasks WHERE uuid = ?1";
        let found: String =
            outsider(&place.db()).query_row(sql, [row.uuid.to_string()], |row| row.get(0)).unwrap();
        assert_eq!(found, text);
    }
}

#[test]
fn a_count_that_sqlite_cannot_hold_spoils_nothing() {
    let huge = TaskRow { total_tokens: u64::MAX, ..row(0) };
    let other = row(1);
    let catalog = filled(&[huge.clone(), other.clone()]);
    catalog.flush().unwrap();
    assert_eq!(catalog.get(huge.uuid).unwrap().unwrap().total_tokens, u64::MAX / 2);
    assert_eq!(catalog.get(other.uuid).unwrap(), Some(other));
}

#[test]
fn filters_match_exactly_and_together() {
    let rows: Vec<_> = (0..8).map(row).collect();
    let catalog = filled(&rows);
    let listed = |filter: TaskFilter| {
        let order = TaskOrder::CreatedAscending;
        let page = catalog.list(&filter, order, 100, None).unwrap();
        assert_eq!(page.next, None);
        let place = |id| rows.iter().position(|row| row.uuid == id).unwrap();
        ids(&page.rows).into_iter().map(place).collect::<Vec<_>>()
    };
    let any = TaskFilter::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(listed(any()), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(listed(TaskFilter { task_source: text("source 1"), ..any() }), [1]);
    assert_eq!(listed(TaskFilter { owner: text("owner 2"), ..any() }), [2]);
    assert_eq!(listed(TaskFilter { repo: text("repo 3"), ..any() }), [3]);
    assert_eq!(listed(TaskFilter { task_type: text("type 4"), ..any() }), [4]);
    assert_eq!(listed(TaskFilter { task_id: text("id 5"), ..any() }), [5]);
    assert_eq!(listed(TaskFilter { user: text("user 6"), ..any() }), [6]);
    assert!(listed(TaskFilter { user: text("user"), ..any() }).is_empty());
    assert!(listed(TaskFilter { user: text("USER 6"), ..any() }).is_empty());
    assert!(listed(TaskFilter { user: text("' OR 1 = 1 --"), ..any() }).is_empty());
    assert_eq!(listed(TaskFilter { statuses: vec![Status::Paused], ..any() }), [1, 5]);
    let statuses = vec![Status::Failed, Status::Running, Status::Failed];
    assert_eq!(listed(TaskFilter { statuses: statuses.clone(), ..any() }), [0, 3, 4, 7]);
    assert_eq!(listed(TaskFilter { statuses, user: text("user 4"), ..any() }), [4]);

    let (from, before) = (Some(rows[2].created_at), Some(rows[5].created_at));
    assert_eq!(listed(TaskFilter { created_from: from, ..any() }), [2, 3, 4, 5, 6, 7]);
    assert_eq!(listed(TaskFilter { created_before: before, ..any() }), [0, 1, 2, 3, 4]);
    assert_eq!(listed(TaskFilter { created_from: from, created_before: before, ..any() }), [2, 3, 4]);
    // A bound between two microseconds.
    let nano = TimeDelta::nanoseconds(1);
    let (from, before) = (from.map(|from| from + nano), before.map(|before| before + nano));
    assert_eq!(listed(TaskFilter { created_from: from, created_before: before, ..any() }), [3, 4, 5]);
}

#[test]
fn pages_with_ties_neither_repeat_nor_lose() {
    // Three times only, and `updated_at` runs against `created_at`.
    let mut rows: Vec<_> = (0..23)
        .map(|n| {
            let step = TimeDelta::seconds(i64::try_from(n % 3).unwrap());
            let at = start_of_time();
            TaskRow { created_at: at + step, updated_at: at - step, status: Status::ALL[n % 2], ..row(n) }
        })
        .collect();
    let catalog = filled(&rows);
    for order in ORDERS {
        rows.sort_by_key(|row| match order {
            TaskOrder::CreatedDescending | TaskOrder::CreatedAscending => (row.created_at, row.uuid),
            TaskOrder::UpdatedDescending | TaskOrder::UpdatedAscending => (row.updated_at, row.uuid),
        });
        if matches!(order, TaskOrder::CreatedDescending | TaskOrder::UpdatedDescending) {
            rows.reverse();
        }
        for size in [1, 2, 5, 22, 23, 24] {
            let pages = pages(&catalog, &TaskFilter::default(), order, size);
            assert_eq!(pages.concat(), ids(&rows), "{order:?} by {size}");
            assert_eq!(pages.len(), rows.len().div_ceil(size), "{order:?} by {size}");
        }
        let filter = TaskFilter { statuses: vec![Status::Paused], ..TaskFilter::default() };
        let paused = ids(rows.iter().filter(|row| row.status == Status::Paused));
        assert_eq!(pages(&catalog, &filter, order, 4).concat(), paused);
    }
    // A page is never empty and never without end.
    let order = TaskOrder::default();
    assert_eq!(catalog.list(&TaskFilter::default(), order, 0, None).unwrap().rows.len(), 1);
    let all = catalog.list(&TaskFilter::default(), order, usize::MAX, None).unwrap();
    assert_eq!((all.rows.len(), all.next), (23, None));
}

#[test]
fn tasks_made_while_paging_do_not_shift_pages() {
    let rows: Vec<_> = (0..6).map(row).collect();
    let catalog = filled(&rows);
    let (any, order) = (TaskFilter::default(), TaskOrder::CreatedDescending);
    let first = catalog.list(&any, order, 3, None).unwrap();
    catalog.put(row(100));
    catalog.remove(first.rows[2].uuid);
    let second = catalog.list(&any, order, 3, first.next.as_deref()).unwrap();
    assert_eq!(ids(&second.rows), ids(rows[..3].iter().rev()));
}

#[test]
fn tokens_that_were_not_given_are_refused() {
    let catalog = filled(&[row(0), row(1)]);
    let list = |order, token: &str| match catalog.list(&TaskFilter::default(), order, 1, Some(token)) {
        Ok(page) => Ok(page.rows.len()),
        Err(StoreError::Invalid(invalid)) => Err(invalid.field.into_owned()),
        Err(other) => panic!("{other}"),
    };
    let token = |order| catalog.list(&TaskFilter::default(), order, 1, None).unwrap().next.unwrap();
    for order in ORDERS {
        let token = token(order);
        assert_eq!(list(order, &token), Ok(1));
        for other in ORDERS.into_iter().filter(|other| *other != order) {
            assert_eq!(list(other, &token), Err("page_token".to_owned()), "{order:?} for {other:?}");
        }
        let version = format!("02{}", &token[2..]);
        let sign = format!("{}+1", &token[2..]);
        let time = format!("{}7fffffffffffffff{}", &token[..4], &token[20..]);
        let wide = token.replacen(|digit: char| digit.is_ascii_hexdigit(), "é", 2);
        let short = &token[..token.len() - 2];
        let long = format!("{token}00");
        for bad in ["", "x", short, &long, &version, &sign, &time, &wide, "' OR 1 = 1"] {
            assert_eq!(list(order, bad), Err("page_token".to_owned()), "{bad}");
        }
    }
}

#[test]
fn known_tells_which_have_a_row() {
    let rows: Vec<_> = (0..2500).map(row).collect();
    let catalog = filled(&rows);
    let strangers: Vec<_> = (0..2500).map(|_| TaskId::new()).collect();
    let asked: Vec<_> = ids(&rows).into_iter().chain(strangers).collect();
    let all: HashSet<_> = ids(&rows).into_iter().collect();
    assert_eq!(catalog.known(&asked).unwrap(), all);
    catalog.flush().unwrap();
    assert_eq!(catalog.known(&asked).unwrap(), all);
    assert!(catalog.known(&[]).unwrap().is_empty());
    catalog.remove(rows[0].uuid);
    catalog.set_health(rows[1].uuid, Health::Missing);
    catalog.set_health(asked[2500], Health::Missing);
    let asked = [rows[0].uuid, rows[1].uuid, asked[2500]];
    assert_eq!(catalog.known(&asked).unwrap(), HashSet::from([rows[1].uuid]));
}

#[test]
fn live_tasks_are_visited_until_a_visit_fails() {
    let mut rows: Vec<_> = (0..8).map(row).collect();
    rows[4].health = Health::Quarantined;
    let catalog = filled(&rows);
    let mut seen = Vec::new();
    let mut visit = |id, status| {
        // A visit may ask the catalog.
        assert_eq!(catalog.get(id)?.map(|row| row.status), Some(status));
        seen.push(id);
        Ok(())
    };
    catalog.each_live(&mut visit).unwrap();
    seen.sort();
    let mut live = ids([&rows[0], &rows[1], &rows[5]]);
    live.sort();
    assert_eq!(seen, live);

    let mut visits = 0;
    let failed = catalog.each_live(&mut |id, _| {
        visits += 1;
        Err(StoreError::TaskNotFound { id })
    });
    assert!(matches!(failed, Err(StoreError::TaskNotFound { .. })));
    assert_eq!(visits, 1);
}
