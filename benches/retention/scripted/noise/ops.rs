//! Logs of builds, tests and services, stack traces, states of clusters, settings and series of numbers.

use super::super::rng::Rng;
use super::super::script::World;
use super::{Out, clock, day, path, word};

pub(super) fn build(out: &mut Out, rng: &mut Rng, world: &World) {
    let mut step = 1;
    while !out.full() {
        let (a, b) = (word(rng, world), word(rng, world));
        let (n, m) = (rng.range(1, 60), rng.range(1, 99));
        out.add(match rng.range(0, 9) {
            0 => format!("   Compiling {a}-{b} v{}.{n}.{m}", rng.range(0, 4)),
            1 => format!("warning: unused variable `{a}` --> {}:{m}:{n}", path(rng, world)),
            2 => format!("[{step}/{}] CC {}.o", step + 210, path(rng, world)),
            3 => format!("#{step} sha256:{} {n}.{m}MB / {}.{m}MB {n}.{m}s done", rng.hex(16), n + 3),
            4 => format!("   Downloaded {a}-{b}@{n}.{m}.0 ({m} KB)"),
            5 => format!("note: `{a}` is deprecated since {n}.{m}, use `{b}` --> {}", path(rng, world)),
            6 => format!("    Finished {a} [optimized] target(s) in {n}.{m}s"),
            7 => format!("   Checking {a} against {b} ... {n} modules, {m} cached"),
            8 => format!("remote: Resolving deltas: {m}% ({n}/{}), done", n + 41),
            _ => format!("chunk {a}-{}.js {m}.{n} kB │ gzip: {n}.{m} kB", rng.hex(8)),
        });
        step += 1;
    }
}

pub(super) fn test(out: &mut Out, rng: &mut Rng, world: &World) {
    let mut passed = 0;
    while !out.full() {
        let (a, b, c) = (word(rng, world), word(rng, world), word(rng, world));
        let took = rng.range(1, 2400);
        out.add(match rng.range(0, 11) {
            0 => format!("{} .......s..... [{}%]", path(rng, world), rng.range(1, 99)),
            1 => format!("SKIP {a}::{b}::{c} (needs network)"),
            2 => format!("WARN {a}: slow test, {took} ms (limit {} ms)", took + 300),
            3 => format!("stdout: {a} seeded with {b}={took}, {c} rows {}", rng.range(3, 4000)),
            _ => format!("test {a}::{b}_{c}_{} ... ok ({took} ms)", rng.range(1, 40)),
        });
        passed += 1;
    }
    out.add(format!("{passed} run, {} skipped, {} s", rng.range(0, 9), rng.range(3, 300)));
}

/// Some logs have a JSON object a line, if `may_be_json`.
pub(super) fn log(out: &mut Out, rng: &mut Rng, world: &World, may_be_json: bool) {
    let day = day(rng, world);
    let json = rng.chance(35) && may_be_json;
    let hour = rng.range(0, 21);
    let mut second = 0;
    while !out.full() {
        second += rng.range(1, 22);
        let at = format!("{day}T{:02}:{:02}:{:02}", hour + second / 3600, second / 60 % 60, second % 60);
        let (a, b) = (word(rng, world), word(rng, world));
        let n = rng.range(1, 9999);
        let kind = rng.range(0, 12);
        let level = match kind {
            1 | 5 | 6 => "WARN",
            2 | 10 => "DEBUG",
            12 => "ERROR",
            _ => "INFO",
        };
        let message = match kind {
            0 => format!("{a} finished in {n} ms"),
            1 => format!(
                "retrying {a} ({}/5), last answer {}",
                rng.range(1, 5),
                rng.pick(&[408, 429, 500, 502, 504])
            ),
            2 => format!("cache miss for {a}:{} ({b})", rng.hex(10)),
            3 => format!("GET /{a}/{b}/{n} 200 {} bytes", rng.range(80, 90_000)),
            4 => format!("POST /{a}/{b} 202 {n} ms"),
            5 => format!("{a} queue depth {n}, oldest {} s", rng.range(0, 300)),
            6 => format!("slow call to {a}.{b}: {n} ms"),
            7 => format!("{a} heartbeat ok, lag {} ms", rng.range(1, 700)),
            8 => format!("{b} closed connection {} from 10.{}.{}.{}", rng.hex(6), n % 250, n % 97, n % 200),
            9 => format!("loaded {n} {a} rows, skipped {}", rng.range(0, 30)),
            10 => format!("config {a}.{b} not set, using default"),
            12 => format!("{a}: could not refresh {b}, keeping the old copy ({n} s)"),
            _ => format!("worker {} picked {a} job {}", rng.range(1, 32), rng.hex(12)),
        };
        out.add(if json {
            format!(
                r#"{{"ts":"{at}Z","level":"{level}","logger":"{a}","msg":"{message}","trace":"{}"}}"#,
                rng.hex(16)
            )
        } else {
            format!("{at}Z {level:<5} [{b}] {message}")
        });
    }
}

pub(super) fn trace(out: &mut Out, rng: &mut Rng, world: &World) {
    while !out.full() {
        let (a, b) = (word(rng, world), word(rng, world));
        let (day, clock) = (day(rng, world), clock(rng));
        out.add(match rng.range(0, 3) {
            0 => format!("{day} {clock} WARN {a}: request {} aborted by client", rng.hex(8)),
            1 => format!("{day} {clock} INFO {a}: shutting down {b} after {} s idle", rng.range(10, 900)),
            2 => format!("{day} {clock} ERROR {a}: broken pipe while writing to {b} (ignored)"),
            _ => format!("{day} {clock} WARN {a}: {b} took too long, dumping stack"),
        });
        for depth in 0..rng.range(3, 12) {
            let (c, d) = (word(rng, world), word(rng, world));
            out.add(format!("    #{depth} {a}.{c}.{d} ({}:{})", path(rng, world), rng.range(2, 900)));
        }
    }
}

pub(super) fn k8s(out: &mut Out, rng: &mut Rng, world: &World) {
    out.add("NAME   READY   STATUS   RESTARTS   AGE   IP   NODE");
    while !out.full() {
        let (a, b) = (word(rng, world), word(rng, world));
        let status =
            rng.pick(&["Running", "Running", "Running", "Running", "Completed", "Pending", "Terminating"]);
        out.add(format!(
            "{a}-{b}-{}-{}   1/1   {status}   {}   {}d   10.{}.{}.{}   node-{}",
            rng.hex(9),
            rng.hex(5),
            rng.range(0, 12),
            rng.range(0, 90),
            rng.range(1, 250),
            rng.range(1, 250),
            rng.range(1, 250),
            rng.range(1, 48),
        ));
    }
}

pub(super) fn metrics(out: &mut Out, rng: &mut Rng, world: &World, of: &str) {
    out.add(format!("# {of}"));
    while !out.full() {
        let (a, b) = (word(rng, world), word(rng, world));
        let day = day(rng, world);
        let base = rng.range(5, 4000);
        out.add(format!("{{job=\"{a}\", instance=\"{b}-{}\"}}", rng.range(0, 20)));
        for hour in 0..rng.range(5, 14) {
            let value = base + rng.range(0, base);
            out.add(format!(
                "  {day} {hour:02}:00  {value}.{:02}  p99={} ms",
                rng.range(0, 99),
                rng.range(4, 1900)
            ));
        }
    }
}

pub(super) fn yaml(out: &mut Out, rng: &mut Rng, world: &World) {
    while !out.full() {
        let (a, b) = (word(rng, world), word(rng, world));
        out.add(format!("{a}:"));
        out.add(format!("  name: {a}-{b}"));
        out.add(format!("  enabled: {}", rng.chance(70)));
        for _ in 0..rng.range(2, 6) {
            let (c, d) = (word(rng, world), word(rng, world));
            out.add(match rng.range(0, 4) {
                0 => format!("  {c}_limit: {}", rng.range(1, 5000)),
                1 => format!("  {c}: [{d}, {b}, {a}]"),
                2 => format!("  {c}_image: registry.local/{d}/{c}@sha256:{}", rng.hex(24)),
                3 => format!("  {c}_{d}: {}m", rng.range(50, 2000)),
                _ => format!("  # {c}: see {}", path(rng, world)),
            });
        }
    }
}
