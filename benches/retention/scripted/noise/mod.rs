//! Outputs of tools that matter to nobody, made of the words of a script's world.

mod code;
mod ops;
mod text;

use super::rng::Rng;
use super::script::World;

/// Lines that grow to a wanted size, counted with white space made even.
pub(crate) struct Out {
    lines: Vec<String>,
    size: usize,
    wanted: usize,
}

impl Out {
    fn new(wanted: usize) -> Self {
        Self { lines: Vec::new(), size: 0, wanted }
    }

    fn full(&self) -> bool {
        self.size >= self.wanted
    }

    fn add(&mut self, line: impl Into<String>) {
        let line = line.into();
        self.size += line.split_whitespace().map(|word| word.len() + 1).sum::<usize>();
        self.lines.push(line);
    }
}

type Pairs = Vec<(String, String)>;

/// The tool and the arguments that fit a kind of noise.
pub(crate) fn call(kind: &str, rng: &mut Rng, world: &World) -> (String, Pairs) {
    let word = word(rng, world);
    let other = self::word(rng, world);
    let noun = noun(rng, world);
    let dir = rng.pick(&world.dirs).clone();
    let (name, key, value) = match kind {
        "code" => ("read_file", "path", path(rng, world)),
        "grep" => ("bash", "command", format!("grep -rn '{word}' {dir}")),
        "ls" => ("bash", "command", format!("ls -la {dir}/{word}")),
        "gitlog" => ("bash", "command", format!("git log --oneline --stat -n {} -- {dir}", rng.range(8, 30))),
        "diff" => ("bash", "command", format!("git diff HEAD~{} -- {dir}", rng.range(1, 5))),
        "build" => ("bash", "command", format!("make {word}-build 2>&1 | tail -n {}", rng.range(40, 120))),
        "test" => ("bash", "command", format!("make test SUITE={word}")),
        "log" => ("bash", "command", format!("tail -n {} /var/log/{word}/{other}.log", rng.range(50, 300))),
        "trace" => ("bash", "command", format!("journalctl -u {word} --since -{}h", rng.range(1, 9))),
        "k8s" => ("bash", "command", format!("kubectl get pods -n {word} -o wide")),
        "metrics" => ("query_metrics", "query", format!("rate({word}_{other}_total[5m])")),
        "yaml" => ("read_file", "path", format!("{dir}/{word}-{other}.yaml")),
        "json" => ("http_get", "url", format!("/api/v2/{word}?filter={other}&limit={}", rng.range(10, 50))),
        "csv" => ("read_file", "path", format!("{dir}/{word}_{other}_{}.csv", rng.range(1, 40))),
        "table" => {
            ("sql", "query", format!("select * from {word}_{other} order by 1 limit {}", rng.range(20, 60)))
        }
        "doc" => ("read_document", "path", format!("{dir}/{word}-{other}.md")),
        "mail" => ("search_mail", "query", format!("{noun} after:{}-01", world.month)),
        "notes" => {
            ("read_document", "path", format!("{dir}/{word}-{}{:02}.txt", world.month, rng.range(1, 28)))
        }
        "search" => ("web_search", "query", format!("{noun} {}", self::noun(rng, world))),
        _ => panic!("what noise is {kind:?}?"),
    };
    (name.to_owned(), vec![(key.to_owned(), value)])
}

/// An output of about that size, with the planted lines inside.
pub(crate) fn output(
    kind: &str,
    rng: &mut Rng,
    world: &World,
    call: &Pairs,
    size: usize,
    planted: &str,
) -> String {
    let mut out = Out::new(size);
    let of = call.first().map_or("", |(_, value)| value.as_str());
    match kind {
        "code" => code::code(&mut out, rng, world),
        "grep" => code::grep(&mut out, rng, world),
        "ls" => code::ls(&mut out, rng, world),
        "gitlog" => code::gitlog(&mut out, rng, world),
        "diff" => code::diff(&mut out, rng, world),
        "build" => ops::build(&mut out, rng, world),
        "test" => ops::test(&mut out, rng, world),
        "log" => ops::log(&mut out, rng, world, planted.is_empty()),
        "trace" => ops::trace(&mut out, rng, world),
        "k8s" => ops::k8s(&mut out, rng, world),
        "metrics" => ops::metrics(&mut out, rng, world, of),
        "yaml" => ops::yaml(&mut out, rng, world),
        "json" => text::json(&mut out, rng, world),
        "csv" => text::csv(&mut out, rng, world),
        "table" => text::table(&mut out, rng, world),
        "doc" => text::doc(&mut out, rng, world),
        "mail" => text::mail(&mut out, rng, world),
        "notes" => text::notes(&mut out, rng, world),
        "search" => text::search(&mut out, rng, world),
        _ => panic!("what noise is {kind:?}?"),
    }
    if !planted.is_empty() {
        let lines = out.lines.len();
        // A query fails at its end; elsewhere the lines are somewhere in the middle.
        let at = if kind == "table" { lines } else { rng.range(lines / 4, (lines * 4 / 5).max(lines / 4)) };
        let before = out.lines.get(at.saturating_sub(1)).cloned().unwrap_or_default();
        let lines: Vec<String> = planted.lines().map(|line| in_place(line, kind, &before)).collect();
        out.lines.splice(at..at, lines);
    }
    out.lines.join("\n")
}

/// A planted line as it looks in a log: with the time of the line before it, and a level.
fn in_place(line: &str, kind: &str, before: &str) -> String {
    if kind != "log" {
        return line.to_owned();
    }
    let time = before.split(' ').next().unwrap_or_default();
    let rest = match line.split_once(' ') {
        Some((first, rest)) if first.trim_start_matches('[').starts_with("20") => rest,
        _ => line,
    };
    let level = if rest.starts_with("ERROR") { "" } else { "ERROR " };
    format!("{time} {level}{rest}")
}

pub(crate) fn word(rng: &mut Rng, world: &World) -> String {
    rng.pick(&world.words).clone()
}

pub(crate) fn noun(rng: &mut Rng, world: &World) -> String {
    rng.pick(&world.nouns).clone()
}

/// A file that the world could have.
pub(crate) fn path(rng: &mut Rng, world: &World) -> String {
    let (dir, one, other) = (rng.pick(&world.dirs).clone(), word(rng, world), word(rng, world));
    if rng.chance(35) {
        return format!("{dir}/{one}.{}", world.ext);
    }
    let gap = if rng.chance(70) { "_" } else { "/" };
    format!("{dir}/{one}{gap}{other}.{}", world.ext)
}

pub(crate) fn person(rng: &mut Rng, world: &World) -> &'static str {
    const JAPANESE: [&str; 14] = [
        "高木", "三浦", "西村", "岡本", "藤井", "上田", "松本", "平野", "久保", "新井", "桜井", "野口",
        "菅原", "大塚",
    ];
    const ENGLISH: [&str; 14] = [
        "Hana", "Piotr", "Lucia", "Devon", "Amara", "Stefan", "Mei", "Callum", "Rosa", "Ivo", "Tess",
        "Farid", "Jonas", "Kirsty",
    ];
    let names = if world.japanese { JAPANESE } else { ENGLISH };
    names[rng.range(0, names.len() - 1)]
}

pub(crate) fn clock(rng: &mut Rng) -> String {
    format!("{:02}:{:02}:{:02}", rng.range(0, 23), rng.range(0, 59), rng.range(0, 59))
}

pub(crate) fn day(rng: &mut Rng, world: &World) -> String {
    format!("{}-{:02}", world.month, rng.range(1, 28))
}

/// Puts words of the world into the places of a line.
pub(crate) fn fill(line: &str, rng: &mut Rng, world: &World) -> String {
    let mut parts = line.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((place, rest)) = part.split_once('}') else {
            text.push('{');
            text.push_str(part);
            continue;
        };
        let value = match place {
            "file" => path(rng, world),
            "dir" => rng.pick(&world.dirs).clone(),
            "word" => word(rng, world),
            "noun" => noun(rng, world),
            "n" => rng.range(2, 19).to_string(),
            "N" => rng.range(21, 980).to_string(),
            "big" => rng.range(1_200, 98_000).to_string(),
            "pct" => rng.range(3, 97).to_string(),
            "who" => person(rng, world).to_owned(),
            "day" => day(rng, world),
            "time" => clock(rng),
            "hex" => rng.hex(7),
            _ => panic!("what place is {place:?} in {line:?}?"),
        };
        text.push_str(&value);
        text.push_str(rest);
    }
    text
}
