//! A file layer on which calls take a while, each time another: threads meet in more ways than on a disk in
//! memory, where every call is over at once.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use contextstore_base::infra::fs::{DirEntry, File, Fs, Open, Stat, StorePath};
use fastrand::Rng;

#[derive(Debug)]
pub(crate) struct JitterFs {
    inner: Arc<dyn Fs>,
    dice: Arc<Dice>,
}

#[derive(Debug)]
struct Dice(Mutex<Rng>);

impl Dice {
    /// Lets other threads go first, a few times or not at all.
    fn pause(&self) {
        let turns = {
            let mut rng = self.0.lock().unwrap();
            let most = [1, 4, 30][rng.usize(..3)];
            rng.u32(..most)
        };
        for _ in 0..turns {
            thread::yield_now();
        }
    }
}

impl JitterFs {
    pub(crate) fn new(inner: Arc<dyn Fs>, seed: u64) -> Arc<Self> {
        Arc::new(Self { inner, dice: Arc::new(Dice(Mutex::new(Rng::with_seed(seed)))) })
    }

    fn around<T>(&self, call: impl FnOnce(&dyn Fs) -> T) -> T {
        self.dice.pause();
        let done = call(self.inner.as_ref());
        self.dice.pause();
        done
    }
}

impl Fs for JitterFs {
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = self.around(|fs| fs.open(path, how))?;
        Ok(Arc::new(JitterFile { inner, dice: Arc::clone(&self.dice) }))
    }

    fn create_dir(&self, path: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.create_dir(path))
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.rename(from, to))
    }

    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.rename_new(from, to))
    }

    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.hard_link(from, to))
    }

    fn remove_file(&self, path: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.remove_file(path))
    }

    fn remove_dir(&self, path: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.remove_dir(path))
    }

    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(DirEntry) -> io::Result<()>) -> io::Result<()> {
        self.around(|fs| fs.list(path, visit))
    }

    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>> {
        self.around(|fs| fs.stat(path))
    }

    fn sync_dir(&self, path: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.sync_dir(path))
    }

    fn make_private(&self, path: &StorePath) -> io::Result<()> {
        self.around(|fs| fs.make_private(path))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn boot_id(&self) -> String {
        self.inner.boot_id()
    }
}

#[derive(Debug)]
struct JitterFile {
    inner: Arc<dyn File>,
    dice: Arc<Dice>,
}

impl JitterFile {
    fn around<T>(&self, call: impl FnOnce(&dyn File) -> T) -> T {
        self.dice.pause();
        let done = call(self.inner.as_ref());
        self.dice.pause();
        done
    }
}

impl File for JitterFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.around(|file| file.read_at(buf, offset))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.around(|file| file.write_all_at(buf, offset))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.around(|file| file.truncate(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.around(|file| file.allocate(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.around(|file| file.sync_data())
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }
}
