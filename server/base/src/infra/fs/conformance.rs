//! The behaviour that every file layer shares, run over each of them.

use std::io;

use super::{Fs, Kind, Name, Open, StorePath};

type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(super) fn path(text: &'static str) -> StorePath {
    text.split('/').fold(StorePath::ROOT, |path, name| path.join(Name::fixed(name)))
}

pub(super) fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Writes a whole new file.
pub(super) fn put(fs: &dyn Fs, at: &StorePath, bytes: &[u8]) -> io::Result<()> {
    fs.open(at, Open::Truncate)?.write_all_at(bytes, 0)
}

/// Reads a whole file.
pub(super) fn get(fs: &dyn Fs, at: &StorePath) -> io::Result<Vec<u8>> {
    let file = fs.open(at, Open::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    Ok(bytes)
}

/// Runs all checks over an empty tree.
pub(super) fn check(fs: &dyn Fs) -> Outcome {
    opening(fs)?;
    contents(fs)?;
    renaming(fs)?;
    linking(fs)?;
    removing(fs)?;
    attributes(fs)?;
    locking(fs)
}

fn opening(fs: &dyn Fs) -> Outcome {
    let file = path("open");
    assert_eq!(kind(fs.open(&file, Open::Read)), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(fs.open(&file, Open::Write)), Some(io::ErrorKind::NotFound));
    fs.open(&file, Open::Create)?.write_all_at(b"abc", 0)?;
    assert_eq!(kind(fs.open(&file, Open::New)), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(fs.open(&file, Open::Create)?.len()?, 3, "kept");
    assert_eq!(fs.open(&file, Open::Write)?.len()?, 3);
    assert_eq!(fs.open(&file, Open::Truncate)?.len()?, 0, "emptied");
    assert_eq!(fs.open(&path("new"), Open::New)?.len()?, 0);
    assert_eq!(kind(fs.open(&path("no/file"), Open::Create)), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(fs.open(&path("open/file"), Open::Create)), Some(io::ErrorKind::NotADirectory));
    fs.create_dir(&path("dir"))?;
    for how in [Open::Read, Open::Write, Open::Create, Open::Truncate] {
        assert_eq!(kind(fs.open(&path("dir"), how)), Some(io::ErrorKind::IsADirectory), "{how:?}");
    }
    assert_eq!(kind(fs.open(&path("dir"), Open::New)), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(kind(fs.create_dir(&path("dir"))), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(kind(fs.create_dir(&path("no/dir"))), Some(io::ErrorKind::NotFound));
    let reader = fs.open(&file, Open::Read)?;
    assert!(reader.write_all_at(b"x", 0).is_err());
    assert!(reader.truncate(9).is_err());
    Ok(())
}

fn contents(fs: &dyn Fs) -> Outcome {
    let at = path("dir/contents");
    let file = fs.open(&at, Open::New)?;
    file.write_all_at(b"hello", 0)?;
    file.write_all_at(b"far", 10_000)?;
    assert_eq!(file.len()?, 10_003);
    let mut buf = [9; 8];
    assert_eq!(file.read_at(&mut buf, 3)?, 8);
    assert_eq!(&buf, b"lo\0\0\0\0\0\0", "a gap is zeros");
    assert_eq!(file.read_at(&mut buf, 10_001)?, 2);
    assert_eq!(file.read_at(&mut buf, 10_003)?, 0);
    assert_eq!(file.read_at(&mut buf, 99_999)?, 0);
    file.truncate(4)?;
    file.truncate(6)?;
    assert_eq!(get(fs, &at)?, b"hell\0\0");
    file.allocate(8)?;
    assert_eq!(get(fs, &at)?, b"hell\0\0\0\0");
    file.allocate(2)?;
    assert_eq!(get(fs, &at)?, b"he");
    file.allocate(0)?;
    assert_eq!(file.len()?, 0);
    file.write_all_at(b"", 7)?;
    assert_eq!(file.len()?, 0, "writing nothing makes nothing longer");
    file.sync_data()?;
    fs.sync_dir(&path("dir"))?;
    fs.sync_dir(&StorePath::ROOT)?;
    Ok(())
}

fn renaming(fs: &dyn Fs) -> Outcome {
    let (a, b) = (path("a"), path("b"));
    put(fs, &a, b"a")?;
    put(fs, &b, b"b")?;
    assert_eq!(kind(fs.rename_new(&a, &b)), Some(io::ErrorKind::AlreadyExists));
    assert_eq!((get(fs, &a)?, get(fs, &b)?), (b"a".to_vec(), b"b".to_vec()));
    let open = fs.open(&b, Open::Read)?;
    fs.rename(&a, &b)?;
    assert_eq!(get(fs, &b)?, b"a");
    assert!(fs.stat(&a)?.is_none());
    let mut buf = [0];
    assert_eq!((open.read_at(&mut buf, 0)?, &buf), (1, b"b"), "an open file outlives its name");
    fs.rename_new(&b, &path("dir/b"))?;
    assert_eq!(get(fs, &path("dir/b"))?, b"a");
    assert_eq!(kind(fs.rename(&a, &b)), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(fs.rename_new(&a, &b)), Some(io::ErrorKind::NotFound));

    fs.create_dir(&path("full"))?;
    put(fs, &path("full/x"), b"x")?;
    fs.create_dir(&path("empty"))?;
    assert_eq!(kind(fs.rename(&path("empty"), &path("full"))), Some(io::ErrorKind::DirectoryNotEmpty));
    assert_eq!(kind(fs.rename_new(&path("full"), &path("empty"))), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(kind(fs.rename(&path("full"), &path("full/in"))), Some(io::ErrorKind::InvalidInput));
    assert_eq!(kind(fs.rename(&path("full/x"), &path("empty"))), Some(io::ErrorKind::IsADirectory));
    assert_eq!(kind(fs.rename(&path("empty"), &path("full/x"))), Some(io::ErrorKind::NotADirectory));
    fs.rename(&path("full"), &path("empty"))?;
    assert_eq!(get(fs, &path("empty/x"))?, b"x");
    fs.rename(&path("empty/x"), &path("empty/x"))?;
    fs.rename_new(&path("empty"), &path("dir/moved"))?;
    assert_eq!(get(fs, &path("dir/moved/x"))?, b"x");
    assert_eq!(kind(fs.rename(&StorePath::ROOT, &a)), Some(io::ErrorKind::InvalidInput));
    Ok(())
}

fn linking(fs: &dyn Fs) -> Outcome {
    let (a, b) = (path("dir/one"), path("dir/two"));
    put(fs, &a, b"both")?;
    fs.hard_link(&a, &b)?;
    assert_eq!(get(fs, &b)?, b"both");
    assert_eq!(kind(fs.hard_link(&a, &b)), Some(io::ErrorKind::AlreadyExists));
    fs.remove_file(&a)?;
    assert_eq!(get(fs, &b)?, b"both", "a name that goes leaves the other");
    assert_eq!(kind(fs.hard_link(&a, &path("dir/three"))), Some(io::ErrorKind::NotFound));
    let (other, file) = (fs.open(&b, Open::Read)?, fs.open(&a, Open::New)?);
    let shared = file.share(other.as_ref())?;
    assert_eq!(get(fs, &a)?, if shared { b"both".to_vec() } else { Vec::new() });
    file.write_all_at(b"mine", 0)?;
    assert_eq!(get(fs, &b)?, b"both", "what was shared is written by one only");
    fs.remove_file(&a)?;
    fs.remove_file(&b)?;
    Ok(())
}

fn removing(fs: &dyn Fs) -> Outcome {
    assert_eq!(kind(fs.remove_dir(&path("dir/moved"))), Some(io::ErrorKind::DirectoryNotEmpty));
    assert_eq!(kind(fs.remove_file(&path("dir/moved"))), Some(io::ErrorKind::IsADirectory));
    assert_eq!(kind(fs.remove_dir(&path("dir/moved/x"))), Some(io::ErrorKind::NotADirectory));
    let open = fs.open(&path("dir/moved/x"), Open::Write)?;
    fs.remove_file(&path("dir/moved/x"))?;
    open.write_all_at(b"still", 0)?;
    assert_eq!(open.len()?, 5);
    fs.remove_dir(&path("dir/moved"))?;
    assert_eq!(kind(fs.remove_dir(&path("dir/moved"))), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(fs.remove_file(&path("dir/moved"))), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(fs.remove_dir(&StorePath::ROOT)), Some(io::ErrorKind::InvalidInput));
    Ok(())
}

fn attributes(fs: &dyn Fs) -> Outcome {
    let root = fs.stat(&StorePath::ROOT)?.ok_or("no root")?;
    assert_eq!(root.kind, Kind::Dir);
    put(fs, &path("dir/seen"), b"12345")?;
    let file = fs.stat(&path("dir/seen"))?.ok_or("no file")?;
    assert_eq!((file.kind, file.len, file.mode, file.device), (Kind::File, 5, 0o600, root.device));
    let dir = fs.stat(&path("dir"))?.ok_or("no dir")?;
    assert_eq!((dir.kind, dir.mode), (Kind::Dir, 0o700));
    assert!(fs.stat(&path("no/file"))?.is_none());
    fs.make_private(&path("dir"))?;
    fs.make_private(&path("dir/seen"))?;
    assert_eq!(kind(fs.make_private(&path("none"))), Some(io::ErrorKind::NotFound));

    let mut seen = Vec::new();
    fs.list(&path("dir"), &mut |entry| {
        seen.push((entry.name.to_string(), entry.kind));
        // A caller may clear a directory while it walks it.
        fs.remove_file(&path("dir").join(entry.name))
    })?;
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<_> = seen.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    assert_eq!(names, [("b", Kind::File), ("contents", Kind::File), ("seen", Kind::File)]);
    let stopped = fs.list(&StorePath::ROOT, &mut |_| Err(io::ErrorKind::TimedOut.into()));
    assert_eq!(kind(stopped), Some(io::ErrorKind::TimedOut));
    assert_eq!(kind(fs.list(&path("none"), &mut |_| Ok(()))), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(fs.list(&path("open"), &mut |_| Ok(()))), Some(io::ErrorKind::NotADirectory));
    assert_eq!(kind(fs.sync_dir(&path("none"))), Some(io::ErrorKind::NotFound));
    assert!(fs.free_bytes()? > 0);
    assert!(!fs.boot_id().is_empty());
    Ok(())
}

fn locking(fs: &dyn Fs) -> Outcome {
    let holder = fs.open(&path("LOCK"), Open::Create)?;
    let other = fs.open(&path("LOCK"), Open::Create)?;
    assert!(holder.try_lock()?);
    assert!(holder.try_lock()?, "held by the one who asks");
    assert!(!other.try_lock()?);
    drop(fs.open(&path("LOCK"), Open::Read)?);
    assert!(!other.try_lock()?, "only the holder frees it");
    drop(holder);
    // A child process of another test holds a copy of the real descriptor until it execs.
    let start = std::time::Instant::now();
    while !other.try_lock()? {
        assert!(start.elapsed().as_secs() < 10, "the lock is never freed");
        std::thread::yield_now();
    }
    Ok(())
}
