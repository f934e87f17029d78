//! Tests of the real layer only: it follows no symlink, and modes do not depend on the umask.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::infra::fs::conformance::{check, get, kind, path, put};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Opens the tree both ways: with `openat2` and with the walk.
fn both(root: &Path) -> io::Result<[Arc<dyn Fs>; 2]> {
    let fd = rustix::fs::open(root, DIRECTORY, Mode::empty())?;
    Ok([DiskFs::open(root)?, Arc::new(DiskFs { root: fd, boot_id: boot_id(), openat2: false, probe: None })])
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

#[test]
fn conforms_to_the_file_layer() -> Outcome {
    for way in 0..2 {
        let temp = TempDir::new()?;
        check(both(temp.path())?[way].as_ref())?;
    }
    Ok(())
}

#[test]
fn this_kernel_resolves_in_one_call() -> Outcome {
    // Without this, the tests above might run the walk twice without notice.
    let temp = TempDir::new()?;
    assert!(format!("{:?}", DiskFs::open(temp.path())?).contains("openat2: true"));
    Ok(())
}

#[test]
fn a_planted_symlink_is_refused() -> Outcome {
    let temp = TempDir::new()?;
    let (root, outside) = (temp.path().join("root"), temp.path().join("outside"));
    fs::create_dir(&outside)?;
    DiskFs::create(&root)?;
    let secret = outside.join("secret");
    fs::write(&secret, "secret")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644))?;
    fs::create_dir(root.join("real"))?;
    fs::write(root.join("real/inside"), "inside")?;
    symlink(&secret, root.join("file"))?;
    symlink("real/inside", root.join("sibling"))?;
    symlink(outside.join("made"), root.join("dangling"))?;
    symlink(&outside, root.join("dir"))?;
    symlink("real", root.join("near"))?;

    for fs in both(&root)? {
        for file in ["file", "sibling", "dangling", "dir/secret", "near/inside", "dir/made"] {
            for how in [Open::Read, Open::Write, Open::Create, Open::Truncate, Open::New] {
                assert!(fs.open(&path(file), how).is_err(), "{file} {how:?}");
            }
        }
        for dir in ["dir", "near"] {
            assert!(fs.list(&path(dir), &mut |_| Ok(())).is_err(), "{dir}");
            assert!(fs.sync_dir(&path(dir)).is_err(), "{dir}");
        }
        for below in ["dir/secret", "near/inside"] {
            assert!(fs.stat(&path(below)).is_err(), "{below}");
            assert!(fs.remove_file(&path(below)).is_err(), "{below}");
            assert!(fs.rename(&path(below), &path("stolen")).is_err(), "{below}");
            assert!(fs.make_private(&path(below)).is_err(), "{below}");
        }
        for link in ["file", "sibling", "dangling", "dir"] {
            assert!(fs.make_private(&path(link)).is_err(), "{link}");
            assert!(fs.create_dir(&path(link)).is_err(), "{link}");
            assert_eq!(fs.stat(&path(link))?.map(|stat| stat.kind), Some(Kind::Other), "{link}");
        }
        assert!(fs.create_dir(&path("dir/made")).is_err());
        assert!(fs.remove_dir(&path("dir")).is_err());
        put(fs.as_ref(), &path("plain"), b"plain")?;
        assert!(fs.rename(&path("plain"), &path("dir/plain")).is_err());
        assert_eq!(
            kind(fs.rename_new(&path("plain"), &path("dangling"))),
            Some(io::ErrorKind::AlreadyExists)
        );
    }

    let fs = DiskFs::open(&root)?;
    fs.remove_file(&path("file"))?;
    fs.rename(&path("plain"), &path("sibling"))?;
    assert_eq!(get(fs.as_ref(), &path("sibling"))?, b"plain", "the link was replaced, not written through");
    assert_eq!(fs::read(root.join("real/inside"))?, b"inside");
    assert_eq!((fs::read(&secret)?, mode(&secret)?), (b"secret".to_vec(), 0o644));
    assert_eq!(fs::read_dir(&outside)?.count(), 1);
    Ok(())
}

#[test]
fn a_name_that_is_not_plain_reaches_nothing() -> Outcome {
    let temp = TempDir::new()?;
    let root = temp.path().join("root");
    DiskFs::create(&root)?;
    fs::write(temp.path().join("outside"), "outside")?;
    for fs in both(&root)? {
        for name in ["..", ".", "", "../outside", "a/b", "a\0b", "/etc/passwd"] {
            let at = StorePath::ROOT.join(Name::fixed(name));
            let below = at.join(Name::fixed("outside"));
            for at in [at, below] {
                let refused = Some(io::ErrorKind::InvalidInput);
                assert_eq!(kind(fs.open(&at, Open::Create)), refused, "{at}");
                assert_eq!(kind(fs.create_dir(&at)), refused, "{at}");
                assert_eq!(kind(fs.stat(&at)), refused, "{at}");
                assert_eq!(kind(fs.remove_file(&at)), refused, "{at}");
                assert_eq!(kind(fs.list(&at, &mut |_| Ok(()))), refused, "{at}");
            }
        }
    }
    assert_eq!(fs::read(temp.path().join("outside"))?, b"outside");
    Ok(())
}

#[test]
fn a_planted_pipe_neither_hangs_nor_opens() -> Outcome {
    let temp = TempDir::new()?;
    let fifo = temp.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, FILE_MODE, 0)?;
    for fs in both(temp.path())? {
        for how in [Open::Read, Open::Write, Open::Create, Open::Truncate] {
            assert_eq!(kind(fs.open(&path("pipe"), how)), Some(io::ErrorKind::InvalidInput), "{how:?}");
        }
        assert!(fs.make_private(&path("pipe")).is_err());
    }
    Ok(())
}

#[test]
fn listing_returns_types_and_skips_names_that_are_not_plain() -> Outcome {
    use std::os::unix::ffi::OsStrExt;
    let temp = TempDir::new()?;
    fs::create_dir(temp.path().join("dir"))?;
    fs::write(temp.path().join("file"), "")?;
    symlink("dir", temp.path().join("link"))?;
    fs::write(temp.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "")?;
    for fs in both(temp.path())? {
        let mut seen = Vec::new();
        fs.list(&StorePath::ROOT, &mut |entry| {
            seen.push((entry.name.to_string(), entry.kind));
            Ok(())
        })?;
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [("dir", Kind::Dir), ("file", Kind::File), ("link", Kind::Other)];
        assert_eq!(seen, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
    Ok(())
}

/// The umask belongs to the process, and tests share one: each mask is tested in a child process.
#[test]
fn modes_do_not_depend_on_the_umask() -> Outcome {
    const ROOT: &str = "CONTEXTSTORE_TEST_UMASK_ROOT";
    if let Some(root) = std::env::var_os(ROOT) {
        let root = Path::new(&root);
        DiskFs::create(root)?;
        for (way, fs) in both(root)?.into_iter().enumerate() {
            let dir = StorePath::ROOT.join(Name::fixed(["one", "two"][way]));
            fs.create_dir(&dir)?;
            for (name, how) in [("c", Open::Create), ("t", Open::Truncate), ("n", Open::New)] {
                fs.open(&dir.join(Name::fixed(name)), how)?;
            }
        }
        return Ok(());
    }
    for mask in ["000", "022", "077", "777"] {
        let temp = TempDir::new()?;
        let root = temp.path().join("above/root");
        let status = std::process::Command::new("sh")
            .args(["-c", "umask $0 && exec \"$@\"", mask])
            .arg(std::env::current_exe()?)
            .args(["--exact", "infra::fs::disk::tests::modes_do_not_depend_on_the_umask"])
            .env(ROOT, &root)
            .stdout(std::process::Stdio::null())
            .status()?;
        assert!(status.success(), "umask {mask}");
        for dir in ["", "one", "two"] {
            assert_eq!(mode(&root.join(dir))?, 0o700, "umask {mask}, {dir:?}");
        }
        for file in ["one/c", "one/t", "one/n", "two/c", "two/t", "two/n"] {
            assert_eq!(mode(&root.join(file))?, 0o600, "umask {mask}, {file}");
        }
    }
    Ok(())
}

#[test]
fn only_make_private_changes_modes() -> Outcome {
    let temp = TempDir::new()?;
    for fs in both(temp.path())? {
        for (name, wide, narrow) in [("file", 0o666, 0o600), ("dir", 0o755, 0o700), ("blind", 0o000, 0o600)] {
            let real = temp.path().join(name);
            if name == "dir" {
                fs::create_dir_all(&real)?
            } else {
                fs::write(&real, "")?
            }
            fs::set_permissions(&real, fs::Permissions::from_mode(wide))?;
            if name == "file" {
                fs.open(&path("file"), Open::Create)?;
                assert_eq!(mode(&real)?, wide, "what was there is not ours to change");
            }
            fs.make_private(&path(name))?;
            assert_eq!(mode(&real)?, narrow, "{name}");
        }
    }
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755))?;
    DiskFs::open(temp.path())?.make_private(&StorePath::ROOT)?;
    assert_eq!(mode(temp.path())?, 0o700);
    Ok(())
}

#[test]
fn the_root_is_created_once_and_kept() -> Outcome {
    let temp = TempDir::new()?;
    let root = temp.path().join("a/b");
    assert_eq!(kind(DiskFs::open(&root)), Some(io::ErrorKind::NotFound));
    DiskFs::create(&root)?;
    assert_eq!((mode(&root)?, mode(&temp.path().join("a"))?), (0o700, 0o700));
    fs::set_permissions(&root, fs::Permissions::from_mode(0o750))?;
    DiskFs::create(&root)?;
    assert_eq!(mode(&root)?, 0o750);
    fs::write(temp.path().join("file"), "")?;
    assert!(DiskFs::create(&temp.path().join("file")).is_err());
    assert!(DiskFs::open(&temp.path().join("file")).is_err());
    Ok(())
}

#[test]
fn the_tree_stays_when_its_root_is_renamed() -> Outcome {
    let temp = TempDir::new()?;
    let (old, new) = (temp.path().join("old"), temp.path().join("new"));
    fs::create_dir(&old)?;
    for fs in both(&old)? {
        put(fs.as_ref(), &path("file"), b"x")?;
        fs::rename(&old, &new)?;
        assert_eq!(get(fs.as_ref(), &path("file"))?, b"x");
        fs::rename(&new, &old)?;
    }
    Ok(())
}

#[test]
fn allocated_blocks_are_real() -> Outcome {
    use std::os::unix::fs::MetadataExt;
    let temp = TempDir::new()?;
    let fs = DiskFs::open(temp.path())?;
    fs.open(&path("ballast"), Open::Create)?.allocate(1 << 20)?;
    let meta = fs::metadata(temp.path().join("ballast"))?;
    assert_eq!(meta.len(), 1 << 20);
    assert!(meta.blocks() * 512 >= 1 << 20);
    let fd = fs::File::options().read(true).write(true).create_new(true).open(temp.path().join("filled"))?;
    let file = DiskFile { fd: fd.into() };
    file.fill(100_000)?;
    assert_eq!(file.len()?, 100_000);
    Ok(())
}

#[test]
fn the_boot_id_is_the_kernels() -> Outcome {
    let temp = TempDir::new()?;
    let [one, two] = both(temp.path())?;
    assert_eq!(one.boot_id(), two.boot_id());
    assert_eq!(one.boot_id().len(), 36);
    Ok(())
}

#[test]
fn without_the_rename_flag_a_check_prevents_replacing() -> Outcome {
    let temp = TempDir::new()?;
    let dir = rustix::fs::open(temp.path(), DIRECTORY, Mode::empty())?;
    fs::write(temp.path().join("a"), "a")?;
    symlink("nowhere", temp.path().join("b"))?;
    let taken = rename_after_check(dir.as_fd(), "a", dir.as_fd(), "b");
    assert_eq!(kind(taken), Some(io::ErrorKind::AlreadyExists));
    rename_after_check(dir.as_fd(), "a", dir.as_fd(), "c")?;
    assert_eq!(fs::read(temp.path().join("c"))?, b"a");
    Ok(())
}
