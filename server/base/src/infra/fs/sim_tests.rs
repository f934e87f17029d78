//! Tests that the simulated disk forgets all it may and nothing it must not.

use std::collections::BTreeSet;

use super::*;
use crate::infra::fs::Name;
use crate::infra::fs::conformance::{check, get, kind, path, put};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SEEDS: u64 = 300;

/// Returns the paths that exist after a crash, for every seed.
fn outcomes(fs: &SimFs, paths: &[&'static str]) -> BTreeSet<String> {
    (0..SEEDS)
        .map(|seed| {
            let after = fs.crashed_copy(seed);
            let there = paths.iter().filter(|at| matches!(after.stat(&path(at)), Ok(Some(_))));
            there.copied().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn set<const N: usize>(outcomes: [&str; N]) -> BTreeSet<String> {
    outcomes.map(str::to_owned).into()
}

#[test]
fn conforms_to_the_file_layer() -> Outcome {
    check(SimFs::new().as_ref())
}

#[test]
fn synced_data_survives_every_crash() -> Outcome {
    let fs = SimFs::new();
    fs.create_dir(&path("d"))?;
    put(fs.as_ref(), &path("d/f"), b"kept")?;
    fs.open(&path("d/f"), Open::Write)?.sync_data()?;
    fs.sync_dir(&path("d"))?;
    fs.sync_dir(&StorePath::ROOT)?;
    fs.open(&path("d/f"), Open::Write)?.write_all_at(b" lost", 4)?;
    for seed in 0..SEEDS {
        let bytes = get(fs.crashed_copy(seed).as_ref(), &path("d/f"))?;
        assert_eq!(bytes.get(..4), Some(&b"kept"[..]));
    }
    Ok(())
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_gone() -> Outcome {
    let fs = SimFs::new();
    let file = fs.open(&path("f"), Open::New)?;
    file.write_all_at(b"x", 0)?;
    file.sync_data()?;
    assert_eq!(outcomes(&fs, &["f"]), set(["", "f"]));
    fs.sync_dir(&StorePath::ROOT)?;
    assert_eq!(outcomes(&fs, &["f"]), set(["f"]));
    assert_eq!(get(fs.crash(1).as_ref(), &path("f"))?, b"x");
    Ok(())
}

#[test]
fn a_synced_name_without_synced_contents_may_be_empty_or_zeros() -> Outcome {
    let fs = SimFs::new();
    put(fs.as_ref(), &path("f"), b"x")?;
    fs.sync_dir(&StorePath::ROOT)?;
    let seen: BTreeSet<_> = (0..SEEDS).map(|seed| fs.crashed_copy(seed).read_file(&path("f"))).collect();
    let expected = [b"".to_vec(), b"\0".to_vec(), b"x".to_vec()];
    assert_eq!(seen, expected.map(Some).into());
    Ok(())
}

#[test]
fn each_directory_keeps_a_prefix_of_its_changes() -> Outcome {
    let fs = SimFs::new();
    for dir in ["a", "b"] {
        fs.create_dir(&path(dir))?;
    }
    fs.sync_dir(&StorePath::ROOT)?;
    for file in ["a/1", "b/1", "a/2", "b/2"] {
        fs.open(&path(file), Open::New)?;
    }
    let seen = outcomes(&fs, &["a/1", "a/2", "b/1", "b/2"]);
    let all =
        ["", "a/1", "b/1", "a/1 b/1", "a/1 a/2", "b/1 b/2", "a/1 a/2 b/1", "a/1 b/1 b/2", "a/1 a/2 b/1 b/2"];
    assert_eq!(seen, set(all));
    fs.sync_dir(&path("b"))?;
    assert_eq!(
        outcomes(&fs, &["a/1", "a/2", "b/1", "b/2"]),
        set(["b/1 b/2", "a/1 b/1 b/2", "a/1 a/2 b/1 b/2"])
    );
    Ok(())
}

#[test]
fn a_rename_between_directories_survives_in_both_or_in_neither() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("a/f"), b"old")?;
    fs.write_file(&path("b/other"), b"")?;
    fs.rename(&path("a/f"), &path("b/f"))?;
    assert_eq!(outcomes(&fs, &["a/f", "b/f"]), set(["a/f", "b/f"]));
    // Syncing one directory is enough, and includes earlier changes of the other.
    fs.open(&path("b/later"), Open::New)?;
    fs.sync_dir(&path("a"))?;
    assert_eq!(outcomes(&fs, &["a/f", "b/f", "b/later"]), set(["b/f", "b/f b/later"]));
    Ok(())
}

#[test]
fn a_sync_includes_the_changes_that_its_renames_depend_on() -> Outcome {
    let fs = SimFs::new();
    for dir in ["a", "b", "c"] {
        fs.create_dir(&path(dir))?;
    }
    fs.sync_dir(&StorePath::ROOT)?;
    fs.open(&path("a/f"), Open::New)?;
    fs.rename(&path("a/f"), &path("b/f"))?;
    fs.rename(&path("b/f"), &path("c/f"))?;
    fs.open(&path("a/late"), Open::New)?;
    fs.sync_dir(&path("c"))?;
    assert_eq!(outcomes(&fs, &["a/f", "b/f", "c/f", "a/late"]), set(["c/f", "c/f a/late"]));
    Ok(())
}

#[test]
fn a_replaced_file_is_the_old_or_the_new() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("f"), b"old")?;
    let next = fs.open(&path("f.next"), Open::New)?;
    next.write_all_at(b"new", 0)?;
    next.sync_data()?;
    fs.rename(&path("f.next"), &path("f"))?;
    let seen: BTreeSet<_> = (0..SEEDS).map(|seed| fs.crashed_copy(seed).read_file(&path("f"))).collect();
    assert_eq!(seen, [Some(b"old".to_vec()), Some(b"new".to_vec())].into());
    fs.sync_dir(&StorePath::ROOT)?;
    assert_eq!(fs.crash(7).read_file(&path("f")), Some(b"new".to_vec()));
    Ok(())
}

#[test]
fn a_removal_may_be_undone_until_it_is_synced() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("d/f"), b"x")?;
    fs.remove_file(&path("d/f"))?;
    fs.remove_dir(&path("d"))?;
    assert_eq!(outcomes(&fs, &["d", "d/f"]), set(["", "d", "d d/f"]));
    fs.sync_dir(&StorePath::ROOT)?;
    assert_eq!(outcomes(&fs, &["d", "d/f"]), set([""]));
    Ok(())
}

#[test]
fn a_kill_keeps_unsynced_writes_which_a_later_crash_can_lose() -> Outcome {
    let fs = SimFs::new();
    put(fs.as_ref(), &path("f"), b"x")?;
    let killed = fs.kill();
    assert_eq!(get(killed.as_ref(), &path("f"))?, b"x");
    assert_eq!(killed.boot_id(), "sim-boot-1");
    assert_eq!(outcomes(&killed, &["f"]), set(["", "f"]));
    assert_eq!(killed.crash(0).boot_id(), "sim-boot-2");
    Ok(())
}

#[test]
fn every_call_fails_after_death() -> Outcome {
    for kill in [true, false] {
        let old = SimFs::new();
        old.write_file(&path("d/f"), b"x")?;
        let file = old.open(&path("d/f"), Open::Write)?;
        assert!(file.try_lock()?);
        let new = if kill { old.kill() } else { old.crash(0) };

        let dead = Some(io::ErrorKind::Other);
        let at = path("d/f");
        assert_eq!(kind(old.open(&at, Open::Create)), dead);
        assert_eq!(kind(old.create_dir(&path("x"))), dead);
        assert_eq!(kind(old.rename(&at, &path("x"))), dead);
        assert_eq!(kind(old.rename_new(&at, &path("x"))), dead);
        assert_eq!(kind(old.remove_file(&at)), dead);
        assert_eq!(kind(old.remove_dir(&path("d"))), dead);
        assert_eq!(kind(old.list(&path("d"), &mut |_| Ok(()))), dead);
        assert_eq!(kind(old.stat(&at)), dead);
        assert_eq!(kind(old.sync_dir(&path("d"))), dead);
        assert_eq!(kind(old.make_private(&at)), dead);
        assert_eq!(kind(old.free_bytes()), dead);
        assert_eq!(kind(old.write_file(&at, b"")), dead);
        assert_eq!(kind(file.read_at(&mut [0], 0)), dead);
        assert_eq!(kind(file.write_all_at(b"y", 0)), dead);
        assert_eq!(kind(file.truncate(0)), dead);
        assert_eq!(kind(file.allocate(9)), dead);
        assert_eq!(kind(file.sync_data()), dead);
        assert_eq!(kind(file.len()), dead);
        assert_eq!(kind(file.try_lock()), dead);

        assert_eq!(get(new.as_ref(), &at)?, b"x");
        let held = new.open(&at, Open::Write)?;
        assert!(held.try_lock()?, "no lock outlives its process");
        drop(file);
        assert!(!new.open(&at, Open::Write)?.try_lock()?, "nor does the dead one's end free the new one's");
    }
    Ok(())
}

#[test]
fn a_full_disk_writes_what_fits_and_recovers() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("ballast"), &[0; 6])?;
    fs.set_capacity(Some(10));
    assert_eq!(fs.free_bytes()?, 4);
    let file = fs.open(&path("f"), Open::Create)?;
    assert_eq!(kind(file.write_all_at(b"hello world", 0)), Some(io::ErrorKind::StorageFull));
    assert_eq!(get(fs.as_ref(), &path("f"))?, b"hell");
    assert_eq!(fs.free_bytes()?, 0);
    file.write_all_at(b"HE", 0)?;
    assert_eq!(kind(file.write_all_at(b"o", 4)), Some(io::ErrorKind::StorageFull));
    assert_eq!(kind(file.allocate(5)), Some(io::ErrorKind::StorageFull));
    assert_eq!(get(fs.as_ref(), &path("f"))?, b"HEll");
    fs.remove_file(&path("ballast"))?;
    file.write_all_at(b"o", 4)?;
    fs.set_capacity(None);
    file.write_all_at(&[1; 100], 5)?;
    Ok(())
}

#[test]
fn a_read_only_disk_can_be_read_and_not_changed() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("d/f"), b"x")?;
    let file = fs.open(&path("d/f"), Open::Write)?;
    file.write_all_at(b"y", 0)?;
    fs.set_read_only(true);
    let refused = Some(io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(kind(file.write_all_at(b"z", 0)), refused);
    assert_eq!(kind(file.truncate(0)), refused);
    assert_eq!(kind(file.sync_data()), refused, "what is unsynced stays so");
    for how in [Open::Write, Open::Create, Open::Truncate] {
        assert_eq!(kind(fs.open(&path("d/f"), how)), refused, "{how:?}");
    }
    assert_eq!(kind(fs.open(&path("new"), Open::New)), refused);
    assert_eq!(kind(fs.create_dir(&path("e"))), refused);
    assert_eq!(kind(fs.rename(&path("d"), &path("e"))), refused);
    assert_eq!(kind(fs.remove_file(&path("d/f"))), refused);
    assert_eq!(get(fs.as_ref(), &path("d/f"))?, b"y");
    fs.sync_dir(&path("d"))?;
    fs.set_read_only(false);
    file.sync_data()?;
    assert_eq!(fs.crash(3).read_file(&path("d/f")), Some(b"y".to_vec()));
    Ok(())
}

#[test]
fn a_failed_sync_is_reported_once_and_its_pages_are_lost() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("f"), b"-")?;
    let file = fs.open(&path("f"), Open::Write)?;
    file.write_all_at(b"+", 0)?;
    fs.fail_next_sync();
    assert!(file.sync_data().is_err());
    file.sync_data()?;
    assert_eq!(get(fs.as_ref(), &path("f"))?, b"+");
    for seed in 0..20 {
        assert_eq!(fs.crashed_copy(seed).read_file(&path("f")), Some(b"-".to_vec()));
    }
    Ok(())
}

#[test]
fn the_same_seed_leaves_the_same_disk() -> Outcome {
    let fs = SimFs::new();
    for number in 0..20 {
        let dir = StorePath::ROOT.join(Name::fixed("d").numbered(number));
        fs.create_dir(&dir)?;
        put(fs.as_ref(), &dir.join(Name::fixed("f")), &vec![7; 9000])?;
        fs.sync_dir(&dir)?;
    }
    let look = |seed| -> Result<String, Box<dyn std::error::Error>> {
        let (temp, after) = (tempfile::TempDir::new()?, fs.crashed_copy(seed));
        after.export(temp.path())?;
        let mut seen = Vec::new();
        after.list(&StorePath::ROOT, &mut |entry| {
            let file = StorePath::ROOT.join(entry.name).join(Name::fixed("f"));
            let bytes = after.read_file(&file);
            assert_eq!(bytes, std::fs::read(temp.path().join(file.to_string())).ok(), "exported");
            seen.push((file.to_string(), bytes.map(|bytes| blake3::hash(&bytes))));
            Ok(())
        })?;
        Ok(format!("{seen:?}"))
    };
    fs.sync_dir(&StorePath::ROOT)?;
    let mut different = BTreeSet::new();
    for seed in 0..10 {
        let seen = look(seed)?;
        assert_eq!(seen, look(seed)?);
        different.insert(seen);
    }
    assert_eq!(different.len(), 10);
    Ok(())
}

#[test]
fn write_file_and_remove_are_durable() -> Outcome {
    let fs = SimFs::new();
    fs.write_file(&path("a/b/c"), b"1")?;
    fs.write_file(&path("a/b/c"), b"2")?;
    fs.write_file(&path("a/x"), b"")?;
    assert_eq!(fs.read_file(&path("a/b")), None);
    assert_eq!(outcomes(&fs, &["a/b/c", "a/x"]), set(["a/b/c a/x"]));
    assert_eq!(fs.crashed_copy(5).read_file(&path("a/b/c")), Some(b"2".to_vec()));
    fs.remove(&path("a/b"))?;
    fs.remove(&path("a/b"))?;
    assert_eq!(outcomes(&fs, &["a/b", "a/x"]), set(["a/x"]));
    Ok(())
}

#[test]
fn many_appends_and_syncs_cost_little() -> Outcome {
    let fs = SimFs::new();
    let file = fs.open(&path("log"), Open::New)?;
    file.allocate(64 << 20)?;
    file.sync_data()?;
    let start = std::time::Instant::now();
    for at in 0..20_000 {
        file.write_all_at(&[1; 100], at * 100)?;
        file.sync_data()?;
    }
    // Copying the file at each sync would take minutes.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    Ok(())
}
