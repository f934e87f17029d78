//! Every call to the disk fails once and is once the last: nothing that was acknowledged is lost.

mod lasting;
mod stories;
mod sweep;

use contextstore_base::infra::fs::fault::Sabotage;
use sweep::{Report, Story, sweep};

/// Sweeps a story and fails with what is wrong, if anything is.
fn hold(story: &Story) {
    let report = sweep(story, None);
    println!("{}: {} calls, {} runs, {} reopened", story.name, report.calls, report.runs, report.reopened);
    let Report { wrong, first, .. } = &report;
    let client = first.as_ref().map_or_else(String::new, ToString::to_string);
    assert!(wrong.is_empty(), "{} things are wrong:\n{}\n{client}", wrong.len(), wrong.join("\n"));
    assert!(report.calls > 0);
}

macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                hold(&stories::$name());
            }
        )*
    };
}

stories!(
    create,
    append,
    append_cold,
    records,
    rewrite,
    undo,
    pause,
    resume,
    complete,
    fail,
    delete,
    fork,
    inherit,
    reopen,
    recover,
    recover_moves,
    recover_damage,
);

/// The sweep of a protocol that is broken on purpose must find something of a kind.
fn catch(story: &Story, sabotage: Sabotage, kind: &str) {
    let report = sweep(story, Some(sabotage));
    let found: Vec<&String> = report.wrong.iter().filter(|problem| problem.contains(kind)).collect();
    let (all, found_some) = (report.wrong.len(), found.len());
    println!(
        "{} with {sabotage:?}: {} calls, {all} wrong, {found_some} of them {kind:?}",
        story.name, report.calls
    );
    assert!(!found.is_empty(), "{sabotage:?} is not noticed: {:?}", report.wrong);
    println!("  {}", found[0]);
}

#[test]
fn a_sync_left_out_is_noticed() {
    catch(&stories::append(), Sabotage::SkipSync { file: "messages.jsonl" }, "was acknowledged and is lost");
}

#[test]
fn an_event_after_its_rename_is_noticed() {
    catch(&stories::rewrite(), Sabotage::RenameFirst, "current.jsonl: line");
}
