//! Stopping and starting: what a close, a kill, a power cut and vandals leave, and what a start makes of it.

use std::sync::Arc;

use contextstore_base::infra::clock::Clock;
use contextstore_base::infra::fs::fault::FaultFs;
use contextstore_base::infra::fs::{Fs, StorePath};
use contextstore_base::model::{StoreError, TaskId};
use contextstore_store::store::layout::{self, Folder};
use contextstore_store::store::{Recovered, Store};

use super::task::{LOG, Line, PLANS, TOOLS, Task};
use super::words::one_in;
use super::world::{Danger, Effect, Stop, World, lines_of, take_lines};
use test_support::store as support;

impl World {
    /// Stops the store and starts it again, perhaps dying on the way, and looks at what is there.
    pub(crate) fn restart(&mut self, stop: Stop) {
        self.note(format!("{stop:?}"));
        let dead = self.fault.is_dead();
        assert!(!dead || stop != Stop::Close);
        if dead {
            self.readers.clear();
        } else {
            self.read_on(true);
        }
        let mut cut = stop == Stop::PowerCut;
        if stop == Stop::Close {
            self.close();
            // What was closed in order has nothing to lose.
            if one_in(&mut self.rng, 4) {
                self.note("power cut after the close".to_owned());
                self.sim = self.sim.crash(self.rng.u64(..));
            }
        } else {
            self.store = None;
            self.die(cut);
        }
        self.vandalise(cut);
        while one_in(&mut self.rng, 4) {
            self.fault = FaultFs::new(Arc::clone(&self.sim) as _);
            self.arm(Danger::Death);
            let opened = self.try_open();
            let died = self.fault.is_dead();
            self.note(format!("start, dying: {:?}", self.fault.fired()));
            if !died {
                // It was over before.
                self.fault.disarm();
                opened.unwrap();
                self.check_recovered(cut);
                return;
            }
            drop(opened);
            self.store = None;
            let power = self.rng.bool();
            cut |= power;
            self.note(format!("… by {}", if power { "power cut" } else { "kill" }));
            self.die(power);
        }
        self.fault = FaultFs::new(Arc::clone(&self.sim) as _);
        self.open();
        self.check_recovered(cut);
    }

    /// Takes the view of a task away after an orderly stop, lets the store make it again, and cuts the power:
    /// what vouches for the old view must not vouch for what is left of the new one.
    pub(crate) fn lose_view(&mut self, id: TaskId) {
        self.note(format!("the view of {id} is lost, and then the power"));
        self.read_on(true);
        self.close_all();
        let folder = self.folder(id).unwrap();
        self.sim.remove(&folder.task(id).join(layout::CURRENT)).unwrap();
        self.open();
        self.look(id);
        self.restart(Stop::PowerCut);
        self.look_at_everything();
    }

    fn die(&mut self, power: bool) {
        self.crashes += 1;
        self.sim = if power { self.sim.crash(self.rng.u64(..)) } else { self.sim.kill() };
    }

    /// Closes the store; what was looked at before must stand on disk as the model has it.
    fn close(&mut self) {
        let mut settled = Vec::new();
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            if self.rng.bool() {
                self.store().current(id, None).unwrap();
                self.store().summaries(id).unwrap();
                settled.push(id);
            }
        }
        self.store.take().unwrap().close().unwrap();
        for id in settled {
            self.check_files(id);
        }
    }

    /// Damages what can be made again.
    fn vandalise(&mut self, cut: bool) {
        let database = self.catalog.path().join("tasks.db");
        match self.rng.u32(..12) {
            0 => {
                self.note("tasks.db is deleted".to_owned());
                for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
                    let _ = std::fs::remove_file(self.catalog.path().join(name));
                }
            }
            1 => {
                self.note("tasks.db is overwritten".to_owned());
                let _ = std::fs::remove_file(self.catalog.path().join("tasks.db-wal"));
                std::fs::write(database, "no database at all").unwrap();
            }
            _ => {}
        }
        let views = [
            layout::CURRENT,
            layout::CURRENT,
            layout::EXTRA,
            layout::CHECKPOINT,
            layout::INDEX,
            layout::SUMMARIES,
            layout::TASK,
            layout::FINAL_SUMMARY,
        ];
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            if !one_in(&mut self.rng, 3) {
                continue;
            }
            // In the middle of a death a task need not be where the model has it, or be at all.
            let Some(folder) = self.folder(id) else { continue };
            let name = views[self.rng.usize(..views.len())].clone();
            let path = folder.task(id).join(name.clone());
            let Some(mut bytes) = self.sim.read_file(&path) else { continue };
            let checkpoint =
                self.sim.read_file(&folder.task(id).join(layout::CHECKPOINT)).unwrap_or_default();
            let clean = String::from_utf8_lossy(&checkpoint).contains("\"clean\":true");
            // What was synced is believed to be what it was, if it has its length.
            let believed = [layout::CURRENT, layout::EXTRA].contains(&name) && (clean || !cut);
            match self.rng.u32(..4) {
                0 => {
                    self.note(format!("{path} is deleted"));
                    self.sim.remove(&path).unwrap();
                    continue;
                }
                1 => bytes.truncate(self.rng.usize(..bytes.len().max(1))),
                2 if !believed => bytes.fill(0),
                // The row of an ended task was synced too; it has no checksum.
                3 if !believed && name != layout::TASK && !bytes.is_empty() => {
                    let at = self.rng.usize(..bytes.len());
                    bytes[at] ^= 1;
                }
                _ => continue,
            }
            self.note(format!("{path} is damaged"));
            self.sim.write_file(&path, &bytes).unwrap();
        }
    }

    /// Closes the store, with every view in place.
    pub(crate) fn close_all(&mut self) {
        for id in self.tasks.keys() {
            self.store().current(*id, None).unwrap();
            self.store().summaries(*id).unwrap();
        }
        self.read_on(true);
        self.store.take().unwrap().close().unwrap();
    }

    pub(crate) fn open(&mut self) {
        self.try_open().unwrap();
    }

    fn try_open(&mut self) -> Result<(), StoreError> {
        let ground = support::ground(Arc::clone(&self.fault) as _, self.catalog.path(), &self.clock);
        self.renewed.clear();
        self.opened = self.clock.monotonic();
        let (store, recovered) = Store::open_on(ground, self.options.clone())?;
        self.store = Some(store);
        if !self.fault.is_dead() {
            for what in recovered {
                let fine = match &what {
                    Recovered::Removed(_) | Recovered::Moved(..) | Recovered::Catalogued(_) => true,
                    Recovered::Quarantined(..)
                    | Recovered::NewerFormat(..)
                    | Recovered::Missing(_)
                    | Recovered::Restored(..)
                    | Recovered::Failed(..) => false,
                };
                assert!(fine, "{what}");
            }
        }
        Ok(())
    }

    /// Looks at what a restart has left of the logs, and takes it into the model where it may be so.
    fn check_recovered(&mut self, cut: bool) {
        let in_flight = self.in_flight.take();
        let vanished = |id: &TaskId, task: &Task| !task.told && cut && self.folder(*id).is_none();
        let gone: Vec<TaskId> =
            self.tasks.iter().filter(|(id, task)| vanished(id, task)).map(|(id, _)| *id).collect();
        self.tasks.retain(|id, _| !gone.contains(id));
        match &in_flight {
            Some((id, effect @ Effect::Create(_))) => {
                self.adopt(*id, effect);
            }
            Some((id, Effect::Delete)) if self.folder(*id).is_none() => {
                self.tasks.remove(id);
            }
            _ => {}
        }
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let folder = self.folder(id).unwrap_or_else(|| panic!("{id} is lost"));
            for log in [LOG, TOOLS, PLANS] {
                let path = self.log_path(id, log);
                let (found, rest) = lines_of(&self.sim, &path, false);
                assert_eq!(rest, 0, "{path} ends in the middle of a line");
                let task = self.tasks.get_mut(&id).unwrap();
                let known = task.logs[log].len();
                if found.len() < known {
                    let (safe, has) = (task.safe[log], found.len());
                    assert!(cut && has >= safe, "{path} has {has} of {known} lines; {safe} were safe");
                    task.logs[log].truncate(has);
                }
                let known = task.logs[log].len();
                let new: Vec<Line> = match &in_flight {
                    Some((flying, Effect::Lines(of, lines))) if *flying == id && *of == log => {
                        lines.iter().take(found.len() - known).cloned().collect()
                    }
                    _ => Vec::new(),
                };
                assert_eq!(found.len(), known + new.len(), "{path} has lines that nobody wrote");
                take_lines(task, log, &found, new);
                // What was found at a start was made durable.
                task.safe[log] = task.logs[log].len();
            }
            assert_eq!(folder, Folder::of(self.tasks[&id].state().status()), "{id} is in the wrong folder");
        }
        self.check_directories();
    }

    /// There are no tasks but those of the model, and nothing is left of what was going on.
    fn check_directories(&self) {
        for folder in Folder::HEALTHY.map(Folder::name).into_iter().chain([
            Folder::Quarantine.name(),
            layout::TMP,
            layout::TRASH,
        ]) {
            let path = StorePath::ROOT.join(folder);
            self.sim
                .list(&path, &mut |entry| {
                    let task = TaskId::parse(entry.name.as_str()).ok().and_then(|id| self.tasks.get(&id));
                    let here = task.is_some_and(|task| Folder::of(task.state().status()).path() == path);
                    assert!(here, "{path}/{} is nobody's", entry.name);
                    Ok(())
                })
                .unwrap();
        }
    }
}
