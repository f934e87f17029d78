//! Every released format can be read: the golden files give the views they are to give, through the store.

use std::fs;
use std::path::{Path, PathBuf};

use contextstore_base::model::{Health, StoreError, TaskFilter, TaskId, TaskOrder};
use contextstore_store::store::{Store, StoreOptions};

use test_support::store::{append, start, view};

fn data(name: &str) -> PathBuf {
    test_support::repository().join("tests/data").join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).map(drop).unwrap()
        }
    }
}

fn options() -> StoreOptions {
    StoreOptions { ballast_bytes: 0, ..StoreOptions::default() }
}

fn tasks(dir: &Path) -> Vec<(TaskId, PathBuf)> {
    let folders = ["running", "paused", "completed"].map(|folder| dir.join(folder));
    let tasks =
        folders.iter().filter(|folder| folder.exists()).flat_map(|folder| fs::read_dir(folder).unwrap());
    tasks
        .map(|entry| entry.unwrap().path())
        .map(|path| (TaskId::parse(path.file_name().unwrap().to_str().unwrap()).unwrap(), path))
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn golden_tasks_give_their_views_and_can_be_written() {
    let place = tempfile::tempdir().unwrap();
    copy(&data("format-v1"), place.path());
    // The views are to come from the logs alone.
    for (_, path) in tasks(place.path()) {
        for view in ["current.jsonl", "current.extra.jsonl", "summaries.jsonl", "final_summary.txt"] {
            let _ = fs::remove_file(path.join(view));
        }
    }
    let (store, _) = Store::open(place.path(), options()).unwrap();
    let golden = tasks(&data("format-v1"));
    assert_eq!(golden.len(), 6);
    for (id, expected) in &golden {
        assert_eq!(view(&store, *id, None).unwrap(), read(&expected.join("current.jsonl")), "{id}");
        let info = store.task_info(*id).unwrap();
        assert!(expected.to_str().unwrap().contains(info.folder.name().as_str()));
        let extra = store.current_extra(*id).unwrap().map(|(file, len)| {
            let mut bytes = vec![0; usize::try_from(len).unwrap()];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
            String::from_utf8(bytes).unwrap()
        });
        assert_eq!(extra.unwrap_or_default(), read(&expected.join("current.extra.jsonl")), "{id}");
        let summary = store.final_summary(*id).unwrap().map(|text| text + "\n");
        assert_eq!(summary.unwrap_or_default(), read(&expected.join("final_summary.txt")), "{id}");
        let _ = store.summaries(*id).unwrap();
    }
    for entry in fs::read_dir(data("format-v1-as-of")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let (id, seq) = name.strip_suffix(".jsonl").unwrap().split_once('.').unwrap();
        let seen = view(&store, TaskId::parse(id).unwrap(), Some(seq.parse().unwrap())).unwrap();
        assert_eq!(seen, read(&entry.path()), "{name}");
    }
    let found = tasks(place.path());
    for (id, path) in &found {
        let expected = &golden.iter().find(|(golden, _)| golden == id).unwrap().1;
        assert_eq!(read(&path.join("summaries.jsonl")), read(&expected.join("summaries.jsonl")), "{id}");
    }
    store.close().unwrap();
}

#[test]
fn an_unknown_event_makes_a_task_read_only() {
    let place = tempfile::tempdir().unwrap();
    copy(&data("format-v1-unknown-event"), place.path());
    let (store, _) = Store::open(place.path(), options()).unwrap();
    let (id, path) = tasks(&data("format-v1-unknown-event")).remove(0);
    assert_eq!(view(&store, id, None).unwrap(), read(&path.join("current.jsonl")));
    assert!(matches!(start(&store, Some(id), "a"), Err(StoreError::NewerFormat { .. })));
    let rows = store.list_tasks(&TaskFilter::default(), TaskOrder::default(), 10, None).unwrap().rows;
    assert_eq!(rows[0].health, Health::NewerFormat);
    assert_eq!(
        fs::read(place.path().join("running").join(id.to_string()).join("messages.jsonl")).unwrap(),
        fs::read(path.join("messages.jsonl")).unwrap()
    );
}

#[test]
fn a_newer_format_is_left_alone_while_the_rest_is_served() {
    let place = tempfile::tempdir().unwrap();
    copy(&data("format-v2-metadata"), place.path());
    let (store, _) = Store::open(place.path(), options()).unwrap();
    let (id, path) = tasks(&data("format-v2-metadata")).remove(0);
    assert!(matches!(start(&store, Some(id), "a"), Err(StoreError::NewerFormat { .. })));
    let task = start(&store, None, "a").unwrap();
    assert_eq!(append(&store, &task, "hi").unwrap(), 1);
    let log = place.path().join("running").join(id.to_string()).join("messages.jsonl");
    assert_eq!(fs::read(log).unwrap(), fs::read(path.join("messages.jsonl")).unwrap());
}
