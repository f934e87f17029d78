//! The simulated directories: the current tree, the tree on the disk, and the changes between the two.
//!
//! A change names the directories whose entries it touches. The surviving changes of one directory are always a
//! prefix, and a rename between two directories survives in both or in neither.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use rustix::io::Errno;

use super::pages::{Pages, likelihood};
use crate::infra::fs::{Kind, Name, StorePath};

pub(super) type Entries = BTreeMap<Name, Node>;

/// A file, which lives as long as a name, a pending change or a handle refers to it.
pub(super) struct FileNode {
    pub(super) id: u64,
    pages: Mutex<Pages>,
}

/// A directory.
pub(super) struct DirNode {
    id: u64,
    live: Mutex<Entries>,
    durable: Mutex<Entries>,
}

/// The file or directory of a name.
#[derive(Clone)]
pub(super) enum Node {
    File(Arc<FileNode>),
    Dir(Arc<DirNode>),
}

/// One change of the tree: a removed entry, an added entry, or both at once.
struct TreeChange {
    removes: Option<(Arc<DirNode>, Name)>,
    adds: Option<(Arc<DirNode>, Name, Node)>,
}

/// A tree of files, with the changes that are not on the disk yet, oldest first.
pub(super) struct SimTree {
    root: Arc<DirNode>,
    pending: Vec<TreeChange>,
    next_id: u64,
}

impl FileNode {
    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        locked(&self.pages)
    }
}

impl DirNode {
    pub(super) fn live(&self) -> MutexGuard<'_, Entries> {
        locked(&self.live)
    }

    fn size(&self) -> u64 {
        let size = |node: &Node| match node {
            Node::File(file) => file.pages().len() as u64,
            Node::Dir(dir) => dir.size(),
        };
        self.live().values().map(size).sum()
    }

    fn with(id: u64, entries: Entries) -> Arc<Self> {
        Arc::new(Self { id, live: Mutex::new(entries.clone()), durable: Mutex::new(entries) })
    }
}

impl Node {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::File(_) => Kind::File,
            Self::Dir(_) => Kind::Dir,
        }
    }
}

impl TreeChange {
    fn dirs(&self) -> impl Iterator<Item = u64> {
        let removes = self.removes.as_ref().map(|(dir, _)| dir.id);
        removes.into_iter().chain(self.adds.as_ref().map(|(dir, ..)| dir.id))
    }

    /// Applies the change to the version of the directories that `edit` selects.
    fn apply(&self, mut edit: impl FnMut(&Arc<DirNode>, &mut dyn FnMut(&mut Entries))) {
        if let Some((dir, name)) = &self.removes {
            edit(dir, &mut |entries| {
                entries.remove(name);
            });
        }
        if let Some((dir, name, node)) = &self.adds {
            edit(dir, &mut |entries| {
                entries.insert(name.clone(), node.clone());
            });
        }
    }
}

impl SimTree {
    pub(super) fn new() -> Self {
        Self { root: DirNode::with(0, Entries::new()), pending: Vec::new(), next_id: 1 }
    }

    /// Returns the bytes of all files that have a name.
    pub(super) fn size(&self) -> u64 {
        self.root.size()
    }

    /// Returns the node at a path; an error if the parent directory does not exist.
    pub(super) fn get(&self, path: &StorePath) -> io::Result<Option<Node>> {
        let Some((parent, name)) = path.split() else { return Ok(Some(Node::Dir(Arc::clone(&self.root)))) };
        Ok(self.dir(&parent)?.live().get(name).cloned())
    }

    pub(super) fn dir(&self, path: &StorePath) -> io::Result<Arc<DirNode>> {
        let mut dir = Arc::clone(&self.root);
        for name in path.names() {
            let next = dir.live().get(name).cloned();
            dir = match next {
                Some(Node::Dir(dir)) => dir,
                Some(Node::File(_)) => return Err(Errno::NOTDIR.into()),
                None => return Err(Errno::NOENT.into()),
            };
        }
        Ok(dir)
    }

    fn parent(&self, path: &StorePath) -> io::Result<(Arc<DirNode>, Name)> {
        let Some((parent, name)) = path.split() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the root cannot be changed"));
        };
        Ok((self.dir(&parent)?, name.clone()))
    }

    fn change(&mut self, change: TreeChange) {
        change.apply(|dir, edit| edit(&mut dir.live()));
        self.pending.push(change);
    }

    pub(super) fn add_file(&mut self, path: &StorePath) -> io::Result<Arc<FileNode>> {
        let file = Arc::new(FileNode { id: fresh(&mut self.next_id), pages: Mutex::default() });
        self.add(path, Node::File(Arc::clone(&file)))?;
        Ok(file)
    }

    /// Adds a name to a file. After a power cut each name has a separate file, which is safe because a file with two
    /// names is not written any more.
    pub(super) fn link(&mut self, file: Arc<FileNode>, path: &StorePath) -> io::Result<()> {
        self.add(path, Node::File(file))
    }

    pub(super) fn add_dir(&mut self, path: &StorePath) -> io::Result<()> {
        let dir = DirNode::with(fresh(&mut self.next_id), Entries::new());
        self.add(path, Node::Dir(dir))
    }

    fn add(&mut self, path: &StorePath, node: Node) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        if dir.live().contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        self.change(TreeChange { removes: None, adds: Some((dir, name, node)) });
        Ok(())
    }

    /// Removes an entry of any type.
    pub(super) fn detach(&mut self, path: &StorePath) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        if !dir.live().contains_key(&name) {
            return Err(Errno::NOENT.into());
        }
        self.change(TreeChange { removes: Some((dir, name)), adds: None });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &StorePath, to: &StorePath, replace: bool) -> io::Result<()> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let node = from_dir.live().get(&from_name).cloned().ok_or(Errno::NOENT)?;
        let replaced = to_dir.live().get(&to_name).cloned();
        if replaced.is_some() && !replace {
            return Err(Errno::EXIST.into());
        }
        if from == to {
            return Ok(());
        }
        if to.names().starts_with(from.names()) {
            return Err(Errno::INVAL.into());
        }
        match (&node, &replaced) {
            (_, None) | (Node::File(_), Some(Node::File(_))) => {}
            (Node::File(_), Some(Node::Dir(_))) => return Err(Errno::ISDIR.into()),
            (Node::Dir(_), Some(Node::File(_))) => return Err(Errno::NOTDIR.into()),
            (Node::Dir(_), Some(Node::Dir(dir))) if !dir.live().is_empty() => {
                return Err(Errno::NOTEMPTY.into());
            }
            (Node::Dir(_), Some(Node::Dir(_))) => {}
        }
        self.change(TreeChange { removes: Some((from_dir, from_name)), adds: Some((to_dir, to_name, node)) });
        Ok(())
    }

    /// Returns whether a sync of a directory would change the disk.
    pub(super) fn is_dirty(&self, dir: &DirNode) -> bool {
        self.pending.iter().any(|change| change.dirs().any(|id| id == dir.id))
    }

    /// Makes the changes of a directory durable. A change shared with another directory includes the earlier ones of
    /// that directory, so that each still has a prefix of its changes.
    pub(super) fn sync(&mut self, dir: &DirNode) {
        let mut reached = HashSet::from([dir.id]);
        let mut taken = Vec::with_capacity(self.pending.len());
        for change in self.pending.iter().rev() {
            let take = change.dirs().any(|id| reached.contains(&id));
            if take {
                reached.extend(change.dirs());
            }
            taken.push(take);
        }
        self.pending.retain(|change| {
            let take = taken.pop().unwrap_or_default();
            if take {
                change.apply(|dir, edit| edit(&mut locked(&dir.durable)));
            }
            !take
        });
    }

    /// Returns the tree after a power cut.
    pub(super) fn survivor(&self, rng: &mut Rng) -> Self {
        let mut on_disk: HashMap<u64, Entries> = HashMap::new();
        let mut blocked = HashSet::new();
        let keep = likelihood(rng);
        for change in &self.pending {
            if change.dirs().any(|id| blocked.contains(&id)) || rng.f64() >= keep {
                blocked.extend(change.dirs());
                continue;
            }
            change.apply(|dir, edit| {
                edit(on_disk.entry(dir.id).or_insert_with(|| locked(&dir.durable).clone()));
            });
        }
        let mut next_id = 0;
        let root = copy(&self.root, &on_disk, rng, &mut next_id);
        Self { root, pending: Vec::new(), next_id }
    }
}

fn copy(dir: &DirNode, on_disk: &HashMap<u64, Entries>, rng: &mut Rng, next_id: &mut u64) -> Arc<DirNode> {
    let entries = on_disk.get(&dir.id).cloned().unwrap_or_else(|| locked(&dir.durable).clone());
    let copied = entries.into_iter().map(|(name, node)| {
        let node = match node {
            Node::Dir(dir) => Node::Dir(copy(&dir, on_disk, rng, next_id)),
            Node::File(file) => {
                let pages = Mutex::new(Pages::durable(file.pages().survivor(rng)));
                Node::File(Arc::new(FileNode { id: fresh(next_id), pages }))
            }
        };
        (name, node)
    });
    let entries = copied.collect();
    DirNode::with(fresh(next_id), entries)
}

fn fresh(next_id: &mut u64) -> u64 {
    *next_id += 1;
    *next_id - 1
}

/// Locks despite a panic in another test thread: the maps are only changed by single calls, so they are consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
