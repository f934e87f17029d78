//! Processes that are killed: what they had acknowledged is there afterwards, once and as it was sent.
//!
//! One directory grows over all cycles. Each cycle starts the workload on what the one before has left, and
//! kills it: after some acknowledgements, or so soon that it dies while it recovers.
//! `CONTEXTSTORE_CYCLES=n` for how many cycles, `CONTEXTSTORE_SEED=n` to repeat a run; what a kill hits depends
//! on the machine too, so a repeated run is alike, not the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;

use test_support::{number, program, sized};

/// Longest time that any wait may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with the notes of all runs on it.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn acks(&self) -> PathBuf {
        self.dir.path().join("acks")
    }

    fn start(&self, seed: u64, more: &[&str]) -> Child {
        let mut run = Command::new(program("workload"));
        run.arg("run").arg(self.store()).arg("--acks").arg(self.acks());
        run.args(["--seed", &seed.to_string()]).args(more);
        run.stdout(Stdio::null()).spawn().unwrap()
    }

    fn verify(&self, with_oracle: bool, more: &[&str]) -> Result<u64, String> {
        let oracle = test_support::repository().join("tests/oracle/check.py");
        let mut verify = Command::new(program("workload"));
        verify.arg("verify").arg(self.store()).arg(self.acks()).args(more);
        if with_oracle {
            verify.arg("--oracle").arg(oracle);
        }
        let output = verify.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = || said.lines().last()?.split(' ').next()?.parse().ok();
        match count().filter(|_| output.status.success()) {
            Some(verified) => Ok(verified),
            None => Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Keeps what is there for whoever looks into a failure.
    fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// Something that is done to a directory behind the store's back, and what it is.
type Damage<'a> = (&'a str, &'a dyn Fn(&Place));

/// When a process is killed.
#[derive(Debug)]
enum Moment {
    /// When its notes have grown by this many bytes.
    Noted(u64),
    /// So long after its start.
    After(Duration),
}

/// Kills a process at a moment; answers how it ended if it was done before.
fn kill(child: &mut Child, moment: &Moment, acks: &Path) -> Option<ExitStatus> {
    let len = || fs::metadata(acks).map_or(0, |metadata| metadata.len());
    let (begun, noted) = (Instant::now(), len());
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        let due = match moment {
            Moment::Noted(bytes) => len() >= noted + bytes,
            Moment::After(time) => begun.elapsed() >= *time,
        };
        if due {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing happens");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let cycles = number("CONTEXTSTORE_CYCLES").unwrap_or(sized(20, 1000));
    let seed = number("CONTEXTSTORE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    let mut rng = Rng::with_seed(seed);
    let place = Place::new();
    let (mut killed, mut early, mut verified) = (0, 0, 0);
    let mut cycle = 0;
    while killed < cycles {
        cycle += 1;
        let durability = *rng.choice(&["group", "group", "each", "process"]).unwrap();
        let threads = rng.u32(1..=6).to_string();
        let more = ["--ops", "1000000", "--durability", durability, "--threads", &threads];
        let moment = match rng.u8(..3) {
            0 => Moment::After(Duration::from_micros(rng.u64(..60_000))),
            _ => Moment::Noted(rng.u64(..30_000)),
        };
        let mut child = place.start(seed.wrapping_mul(10_000).wrapping_add(cycle), &more);
        let ended = kill(&mut child, &moment, &place.acks());
        let problem = match ended {
            Some(status) => Some(format!("the workload ended by itself: {status}")),
            None => {
                killed += 1;
                early += u32::from(matches!(moment, Moment::After(_)));
                // Some cycles follow on one another with nothing between them but the next start.
                // Over a long run they become many, as a look takes the longer the more there is.
                let look = rng.u64(..2 + killed / 50) == 0 || killed == cycles;
                let last = killed == cycles;
                let more: &[&str] = match (last, rng.bool()) {
                    (true, _) => &["--rebuild"],
                    (false, true) => &["--unclean"],
                    (false, false) => &[],
                };
                let check = || place.verify(last || rng.u8(..4) == 0, more);
                look.then(check).and_then(|found| found.map(|count| verified = count).err())
            }
        };
        if let Some(problem) = problem {
            let kept = place.keep();
            panic!("CONTEXTSTORE_SEED={seed}, cycle {cycle}, {moment:?}, kept in {kept:?}:\n{problem}");
        }
    }
    println!("{killed} kills ({early} by the clock), {verified} acks verified");
    assert!(verified > 0);
}

#[test]
fn a_check_that_finds_nothing_can_find_something() {
    let logs = |place: &Place| -> Vec<PathBuf> {
        let tasks = fs::read_dir(place.store().join("running")).unwrap();
        let logs = tasks.map(|task| task.unwrap().path().join("messages.jsonl"));
        let len = |path: &PathBuf| std::cmp::Reverse(fs::metadata(path).unwrap().len());
        let mut logs: Vec<PathBuf> = logs.collect();
        logs.sort_by_key(len);
        logs
    };
    let damages: [Damage<'_>; 7] = [
        ("the log is shorter than its checkpoint says", &|place| {
            let log = &logs(place)[0];
            let bytes = fs::read(log).unwrap();
            fs::write(log, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("the last line is gone", &|place| {
            let log = &logs(place)[0];
            let bytes = fs::read(log).unwrap();
            let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            fs::remove_file(log.with_file_name("checkpoint.json")).unwrap();
            fs::write(log, &bytes[..end]).unwrap();
        }),
        ("a byte is another", &|place| {
            let log = &logs(place)[0];
            let mut bytes = fs::read(log).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::remove_file(log.with_file_name("checkpoint.json")).unwrap();
            fs::write(log, bytes).unwrap();
        }),
        ("a task is gone", &|place| {
            fs::remove_dir_all(logs(place)[0].parent().unwrap()).unwrap();
        }),
        ("records are gone", &|place| {
            let log = &logs(place)[0];
            fs::remove_file(log.with_file_name("checkpoint.json")).unwrap();
            fs::remove_file(log.with_file_name("tools.jsonl")).unwrap();
        }),
        ("a task is back", &|place| {
            let acks = fs::read_to_string(place.acks()).unwrap();
            let id = logs(place)[0].parent().unwrap().file_name().unwrap().to_owned().into_string().unwrap();
            fs::write(place.acks(), format!("{acks}try d {id} delete delete 0\nack d 0\n")).unwrap();
        }),
        ("an answer was another", &|place| {
            let acks = fs::read_to_string(place.acks()).unwrap();
            let ack = acks.lines().rfind(|line| line.starts_with("ack ") && !line.ends_with(" 0")).unwrap();
            fs::write(place.acks(), acks.replace(ack, &format!("{ack}0"))).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let place = Place::new();
        assert!(place.start(1, &["--ops", "400"]).wait().unwrap().success());
        assert!(place.verify(true, &[]).unwrap() > 200);
        damage(&place);
        assert!(place.verify(true, &[]).is_err(), "{name}: not found");
    }
}

#[test]
fn an_answer_before_the_write_is_found() {
    let seed = number("CONTEXTSTORE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    let mut rng = Rng::with_seed(seed);
    let place = Place::new();
    for cycle in 0..200 {
        let more = ["--ops", "1000000", "--sabotage", "early-ack"];
        let mut child = place.start(seed.wrapping_mul(10_000).wrapping_add(cycle), &more);
        let moment = Moment::Noted(rng.u64(1_000..20_000));
        assert!(kill(&mut child, &moment, &place.acks()).is_none());
        if place.verify(false, &["--unclean"]).is_err() {
            return;
        }
    }
    panic!("CONTEXTSTORE_SEED={seed}: acknowledging before writing was not found in 200 kills");
}
