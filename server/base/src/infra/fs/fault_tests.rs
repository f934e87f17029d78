//! Tests that a fault happens once, where it was armed, and leaves the documented state.

use std::collections::BTreeSet;

use super::*;
use crate::infra::fs::conformance::{check, get, kind, path, put};
use crate::infra::fs::disk::DiskFs;
use crate::infra::fs::sim::SimFs;

type Outcome = Result<(), Box<dyn std::error::Error>>;

type Layers = (Arc<SimFs>, Arc<FaultFs>, Arc<dyn File>);

/// Runs each counted call once; opening the file comes first.
fn every_call(fs: &dyn Fs, file: &dyn File) -> Vec<io::Result<()>> {
    vec![
        fs.open(&path("f"), Open::Read).map(drop),
        fs.create_dir(&path("made")),
        fs.rename(&path("a"), &path("b")),
        fs.rename_new(&path("b"), &path("c")),
        fs.remove_file(&path("c")),
        fs.remove_dir(&path("made")),
        fs.list(&StorePath::ROOT, &mut |_| Ok(())),
        fs.stat(&path("f")).map(drop),
        fs.sync_dir(&StorePath::ROOT),
        fs.make_private(&path("f")),
        fs.free_bytes().map(drop),
        file.read_at(&mut [0], 0).map(drop),
        file.write_all_at(b"12", 0),
        file.truncate(2),
        file.allocate(3),
        file.sync_data(),
        file.len().map(drop),
    ]
}

fn prepared() -> io::Result<Layers> {
    let sim = SimFs::new();
    sim.write_file(&path("f"), b"file")?;
    sim.write_file(&path("a"), b"")?;
    let fs = FaultFs::new(sim.clone());
    let file = fs.open(&path("f"), Open::Write)?;
    fs.reset_counts();
    Ok((sim, fs, file))
}

#[test]
fn forwards_every_call_until_armed() -> Outcome {
    check(FaultFs::new(SimFs::new()).as_ref())?;
    let temp = tempfile::TempDir::new()?;
    check(FaultFs::new(DiskFs::open(temp.path())?).as_ref())
}

#[test]
fn every_call_is_counted_and_named() -> Outcome {
    let (_, fs, file) = prepared()?;
    fs.record(true);
    every_call(fs.as_ref(), file.as_ref()).into_iter().collect::<io::Result<()>>()?;
    assert_eq!(fs.calls(), 17);
    let trace = fs.trace();
    assert_eq!(trace.len(), 17);
    assert_eq!(trace[2], "call 2: rename a to b");
    assert_eq!(trace[10], "call 10: free_bytes .");
    assert_eq!(trace[15], "call 15: sync_data f");
    assert_eq!((fs.bytes_read(), fs.bytes_written()), (1, 2));
    fs.reset_counts();
    assert_eq!((fs.calls(), fs.bytes_read(), fs.bytes_written(), fs.trace().len()), (0, 0, 0, 0));
    Ok(())
}

#[test]
fn an_error_happens_once_at_its_call_and_has_no_effect() -> Outcome {
    for (errno, expected) in [(Errno::IO, 5), (Errno::NOSPC, 28)] {
        for at in 0..17 {
            let (sim, fs, file) = prepared()?;
            fs.arm(at, Fault::Error(errno));
            let failed: Vec<usize> = every_call(fs.as_ref(), file.as_ref())
                .iter()
                .enumerate()
                .filter(|(_, result)| {
                    result.as_ref().is_err_and(|error| error.raw_os_error() == Some(expected))
                })
                .map(|(call, _)| call)
                .collect();
            assert_eq!(failed, [usize::try_from(at)?], "call {at}");
            assert_eq!(fs.fired().len(), 1);
            assert!(fs.fired()[0].starts_with(&format!("call {at}: ")));
            if at == 2 {
                assert_eq!(sim.read_file(&path("a")), Some(Vec::new()), "not renamed");
            }
        }
    }
    Ok(())
}

#[test]
fn a_failed_write_leaves_half() -> Outcome {
    let (sim, fs, file) = prepared()?;
    fs.arm(0, Fault::Error(Errno::NOSPC));
    assert_eq!(kind(file.write_all_at(b"WXYZ", 0)), Some(io::ErrorKind::StorageFull));
    assert_eq!(sim.read_file(&path("f")), Some(b"WXle".to_vec()));
    assert_eq!(fs.bytes_written(), 2);
    file.write_all_at(b"WXYZ", 0)?;
    Ok(())
}

#[test]
fn a_failed_sync_syncs_nothing() -> Outcome {
    let (sim, fs, file) = prepared()?;
    file.write_all_at(b"WXYZ", 0)?;
    fs.arm(1, Fault::Error(Errno::IO));
    assert!(file.sync_data().is_err());
    let kept = |seed| sim.crashed_copy(seed).read_file(&path("f"));
    assert!((0..50).any(|seed| kept(seed) == Some(b"file".to_vec())));
    Ok(())
}

#[test]
fn after_death_nothing_has_an_effect() -> Outcome {
    for at in 0..17 {
        let (sim, fs, file) = prepared()?;
        fs.arm(at, Fault::Death { seed: 0 });
        let results = every_call(fs.as_ref(), file.as_ref());
        for (call, result) in results.into_iter().enumerate() {
            let dead = call >= usize::try_from(at)?;
            assert_eq!(kind(result), dead.then_some(io::ErrorKind::Other), "death at {at}, call {call}");
        }
        assert!(fs.is_dead());
        assert_eq!(fs.calls(), at + 1);
        let before = sim.read_file(&path("f"));
        assert_eq!(kind(put(fs.as_ref(), &path("f"), b"late")), Some(io::ErrorKind::Other));
        assert_eq!(kind(file.write_all_at(b"late", 0)), Some(io::ErrorKind::Other));
        assert_eq!(kind(file.try_lock()), Some(io::ErrorKind::Other));
        assert_eq!(sim.read_file(&path("f")), before);
        if at < 12 {
            assert_eq!(before, Some(b"file".to_vec()));
        }
    }
    Ok(())
}

#[test]
fn death_in_a_write_leaves_any_prefix() -> Outcome {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let (sim, fs, file) = prepared()?;
        fs.arm(0, Fault::Death { seed });
        assert!(file.write_all_at(b"WXYZ", 0).is_err());
        seen.insert(sim.read_file(&path("f")).unwrap_or_default());
    }
    let expected = [b"file", b"Wile", b"WXle", b"WXYe", b"WXYZ"];
    assert_eq!(seen, expected.map(|bytes| bytes.to_vec()).into());
    Ok(())
}

#[test]
fn a_skipped_sync_reports_success() -> Outcome {
    let (sim, fs, file) = prepared()?;
    fs.sabotage(Sabotage::SkipSync { file: "f" });
    let other = fs.open(&path("a"), Open::Write)?;
    for file in [&file, &other] {
        file.write_all_at(b"WXYZ", 0)?;
        file.sync_data()?;
    }
    let lost = |at| (0..50).any(|seed| sim.crashed_copy(seed).read_file(&path(at)) != Some(b"WXYZ".to_vec()));
    assert!(lost("f"));
    assert!(!lost("a"));
    Ok(())
}

#[test]
fn sabotage_renames_before_the_record() -> Outcome {
    let sim = SimFs::new();
    for (file, bytes) in
        [("messages.jsonl", "m"), ("current.jsonl", "old"), ("current.jsonl.next", "new"), ("other", "")]
    {
        sim.write_file(&path("t").join(Name::fixed(file)), bytes.as_bytes())?;
    }
    let fs = FaultFs::new(sim.clone());
    fs.sabotage(Sabotage::RenameFirst);
    fs.open(&path("t/other"), Open::Write)?.write_all_at(b"x", 0)?;
    assert_eq!(sim.read_file(&path("t/current.jsonl")), Some(b"old".to_vec()));
    let log = fs.open(&path("t/messages.jsonl"), Open::Write)?;
    log.write_all_at(b"n", 0)?;
    assert_eq!(sim.read_file(&path("t/current.jsonl")), Some(b"new".to_vec()));
    assert_eq!(fs.calls(), 4, "what sabotage does is not counted");
    fs.rename(&path("t/current.jsonl.next"), &path("t/current.jsonl"))?;
    assert_eq!(get(fs.as_ref(), &path("t/current.jsonl"))?, b"new");
    let again = fs.rename(&path("t/current.jsonl.next"), &path("t/current.jsonl"));
    assert_eq!(kind(again), Some(io::ErrorKind::NotFound), "only the one that was made is answered for");

    sim.write_file(&path("t/current.extra.jsonl.next"), b"extra")?;
    log.write_all_at(b"o", 0)?;
    assert_eq!(sim.read_file(&path("t/current.extra.jsonl")), Some(b"extra".to_vec()));
    Ok(())
}
