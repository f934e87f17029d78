//! Power cuts: what was acknowledged before one is there after it. `tests/power/run.sh` says how.
//!
//! Where mounting is not allowed, these say so and pass.

use std::io::{self, Write};
use std::process::{Command, Output};

use test_support::program;

/// How the script says that it may not mount.
const FORBIDDEN: i32 = 77;

fn run(what: &str, settings: &[(&str, &str)]) -> Output {
    let script = test_support::repository().join("tests/power/run.sh");
    let mut run = Command::new("bash");
    run.arg(script).arg(what).env("WORKLOAD", program("workload")).env_remove("CONTROL").env_remove("FS");
    run.envs(settings.iter().copied()).output().unwrap()
}

/// Cuts power so many times; answers what the script said, or nothing where it may not mount.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
fn cycles(count: &str, settings: &[(&str, &str)]) -> Option<String> {
    let probe = run("can-mount", settings);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if probe.status.code() == Some(FORBIDDEN) {
        // Not by `print`, which nobody sees of a test that passes.
        let line = format!("no power was cut: {}", text(&probe.stderr));
        io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    }
    assert!(probe.status.success(), "{}{}", text(&probe.stdout), text(&probe.stderr));
    let done = run(count, settings);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    println!("{said}");
    Some(said)
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() {
    if let Some(said) = cycles("20", &[]) {
        assert!(said.contains("20 cycles") && said.contains(" 0 lost"), "{said}");
    }
}

#[test]
fn a_missing_sync_is_found() {
    // The script fails by itself if too few cycles find losses.
    let _ = cycles("5", &[("CONTROL", "skip-sync")]);
}
