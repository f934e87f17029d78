//! Looking at a store: everything it says is what the model says.

use contextstore_base::infra::fs::File;
use contextstore_base::model::{StoreError, TaskFilter, TaskId, TaskOrder, TaskRow};
use contextstore_store::store::LineReader;

use super::task::{LOG, PLANS, TOOLS, Task, What};
use super::world::{World, same};
use test_support::store as support;

impl World {
    /// Compares what the store says of a task with the model, in a few ways.
    pub(crate) fn look(&mut self, id: TaskId) {
        self.note(format!("look at {id}"));
        let (task, store) = (self.tasks[&id].clone(), self.store().clone());
        let (state, view) = (task.state(), task.view(None));
        let reader = store.current(id, None).unwrap();
        assert_eq!((reader.generation, reader.last_seq), (state.view_generation(), state.last_seq));
        same(&support::view(&store, id, None).unwrap(), &view.text(), "the view");
        let extra = store.current_extra(id).unwrap().map(|(file, len)| read(&*file, len));
        same(&extra.unwrap_or_default(), &view.extra_text(), "the extra fields");
        let as_of = self.rng.u64(..=state.last_seq);
        let then = support::view(&store, id, Some(as_of)).unwrap();
        same(&then, &task.view(Some(as_of)).text(), &format!("the view as of {as_of}"));
        let summaries = store.summaries(id).unwrap().map(|(file, len)| read(&*file, len));
        same(&summaries.unwrap_or_default(), &task.summaries(), "the summaries");
        assert_eq!(store.final_summary(id).unwrap(), state.final_summary);

        let info = store.task_info(id).unwrap();
        assert_eq!(info.row, task.row());
        assert_eq!(info.last_seq, state.last_seq);
        assert_eq!((info.view_tokens, info.view_messages), (view.tokens, view.lines.len() as u64));
        assert_eq!(info.pressure.tokens, state.calibrated(view.tokens));
        let usage = store.context_usage(id, None).unwrap();
        assert_eq!((usage.counted_tokens, usage.messages), (view.tokens, view.lines.len() as u64));
        assert_eq!(usage.output_tokens, view.output_tokens);
        assert_eq!((usage.view_bytes, usage.counter), (view.text().len() as u64, state.counter()));
        assert_eq!(usage.pressure, info.pressure);
        assert_eq!(info.pins, state.pins.iter().copied().collect::<Vec<_>>());
        let lease = info.lease.map(|(lease, _)| (lease.generation, lease.holder));
        assert_eq!(lease, state.lease);

        same(&lines(store.lines(id, 0, u64::MAX).unwrap()), &texts(&task, LOG, 0, u64::MAX), "the log");
        let (from, to) = (self.rng.u64(..=state.last_seq + 1), self.rng.u64(..=state.last_seq + 1));
        let part = lines(store.lines(id, from, to).unwrap());
        same(&part, &texts(&task, LOG, from, to), &format!("messages {from} to {to}"));
        same(
            &lines(store.tool_calls(id, from, to).unwrap()),
            &texts(&task, TOOLS, from, to),
            "the tool calls",
        );
        same(&lines(store.plans(id, from, to).unwrap()), &texts(&task, PLANS, from, to), "the plans");
        let successes = task.logs[TOOLS].iter().filter(|line| line.what == What::Tool { success: true });
        assert_eq!(info.tool_successes, successes.count() as u64);
        let plan = store.latest_plan(id).unwrap();
        let plan =
            plan.map(|(number, plan, _)| (number, plan.plan_type, plan.plan_content.as_str().to_owned()));
        let newest = task.logs[PLANS].last().map(|line| match &line.what {
            What::Plan { kind, content } => (task.logs[PLANS].len() as u64, kind.clone(), content.clone()),
            what => panic!("{what:?} is no plan"),
        });
        assert_eq!(plan, newest);

        let count = self.rng.u64(..=state.last_seq + 1);
        let from = state.last_seq.saturating_sub(count) + 1;
        let last = lines(store.last_messages(id, count).unwrap());
        same(&last, &texts(&task, LOG, from, u64::MAX), &format!("the last {count} messages"));
        if state.last_seq > 0 {
            let seq = self.rng.u64(1..=state.last_seq);
            let all = task.logs[LOG].iter().filter(|line| matches!(line.what, What::Message(_)));
            let line = all.skip(usize::try_from(seq).unwrap() - 1).map(|line| &line.text).next();
            assert_eq!(Some(&store.message(id, seq).unwrap()), line);
        }
        let beyond = store.message(id, state.last_seq + 1);
        assert!(matches!(beyond, Err(StoreError::MessageNotFound { .. })), "{beyond:?}");
    }

    /// Looks at every task and at the catalog.
    pub(crate) fn look_at_everything(&mut self) {
        self.check_rows();
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.look(id);
        }
        self.check_rows();
    }

    /// The catalog has the rows of the model and no others.
    pub(crate) fn check_rows(&self) {
        let page = self.store().list_tasks(&TaskFilter::default(), TaskOrder::CreatedAscending, 100, None);
        let mut rows = page.unwrap().rows;
        rows.sort_by_key(|row| row.uuid);
        let expected: Vec<_> = self.tasks.values().map(Task::row).collect();
        let text = |rows: &[TaskRow]| rows.iter().map(|row| format!("{row:#?}\n")).collect::<String>();
        same(&text(&rows), &text(&expected), "the catalog");
    }
}

fn read(file: &dyn File, len: u64) -> String {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    String::from_utf8(bytes).unwrap()
}

fn lines(mut reader: LineReader) -> String {
    let mut lines = String::new();
    while let Some(line) = reader.step(|line| format!("{}\n", line.text)).unwrap() {
        lines.push_str(&line);
    }
    lines
}

/// Lines of a log by the number of their message or record. Events go with the message before them.
fn texts(task: &Task, log: usize, from: u64, to: u64) -> String {
    let mut number = 0;
    let mut texts = String::new();
    for line in &task.logs[log] {
        number += u64::from(log != LOG || matches!(line.what, What::Message(_)));
        if (from..=to).contains(&number) {
            texts.push_str(&line.text);
            texts.push('\n');
        }
    }
    texts
}
