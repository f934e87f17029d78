//! What tools print all day: owns the generated listings, logs, greps, test runs, tables and the like.
//! None of it matters to the session; facts never come from here.

use super::{Rng, source};

/// Where a session plays.
pub(super) struct Setting {
    pub(super) ext: String,
    pub(super) root: String,
    pub(super) words: Vec<String>,
    /// Names of the shell, read and search tools.
    tools: [String; 3],
    kinds: Vec<String>,
    /// About how many lines a result has.
    pub(super) lines: usize,
    /// How often people talk instead of working, in percent.
    pub(super) chatty: usize,
}

impl Setting {
    pub(super) fn new(head: &str, rng: &mut Rng) -> Self {
        let value = |key: &str| {
            let found =
                head.lines().find_map(|line| line.strip_prefix('#')?.strip_prefix(key)?.strip_prefix(' '));
            found.unwrap_or_default()
        };
        let list = |key: &str| value(key).split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut tools = list("tools").into_iter();
        let mut tool = |otherwise: &str| {
            tools.next().filter(|tool| !tool.is_empty()).unwrap_or_else(|| otherwise.to_owned())
        };
        Self {
            ext: value("ext").to_owned(),
            root: value("root").to_owned(),
            words: list("words"),
            tools: [tool("bash"), tool("read_file"), tool("grep")],
            kinds: list("noise"),
            lines: 40,
            chatty: rng.between(8, 30),
        }
    }

    pub(super) fn word(&self, rng: &mut Rng) -> String {
        self.words[rng.below(self.words.len())].clone()
    }

    pub(super) fn file(&self, rng: &mut Rng) -> String {
        let dir = rng.pick(&["", "", "core/", "util/", "internal/", "common/", "tests/", "v2/", "adapters/"]);
        let tail = rng.pick(&[
            "", "_store", "_client", "_helpers", "_types", "_service", "_view", "_repo", "_job", "_mapper",
        ]);
        format!("{}/{dir}{}{tail}.{}", self.root, self.word(rng), self.ext)
    }
}

pub(super) const VERBS: [&str; 18] = [
    "load", "save", "merge", "parse", "render", "sync", "fetch", "build", "check", "resolve", "update",
    "list", "encode", "apply", "collect", "split", "refresh", "validate",
];

/// What a result is about, where the call has said it.
#[derive(Default)]
pub(super) struct About {
    file: Option<String>,
    word: Option<String>,
    style: Option<usize>,
}

impl About {
    fn file(&self, rng: &mut Rng, setting: &Setting) -> String {
        self.file.clone().unwrap_or_else(|| setting.file(rng))
    }

    fn word(&self, rng: &mut Rng, setting: &Setting) -> String {
        self.word.clone().unwrap_or_else(|| setting.word(rng))
    }
}

/// A call that brings nothing new: tool, argument and result.
pub(super) fn call(rng: &mut Rng, setting: &Setting) -> (String, String, String) {
    let kinds: Vec<&str> = setting.kinds.iter().map(String::as_str).collect();
    let mut kind = rng.pick(&kinds);
    if rng.chance(7) {
        kind = "oops";
    } else if rng.chance(18) {
        kind = rng.pick(&["list", "git", "diff", "grep"]);
    }
    let count = setting.lines * rng.between(50, 150) / 100;
    let [shell, read, search] = &setting.tools;
    let about =
        About { file: Some(setting.file(rng)), word: Some(setting.word(rng)), style: Some(rng.below(4)) };
    let (file, word, style) =
        (about.file(rng, setting), about.word(rng, setting), about.style.unwrap_or_default());
    let root = &setting.root;
    let (tool, argument) = match kind {
        "code" | "doc" => (read, file),
        "grep" => (search, word),
        "list" => (shell, ["find ", "du -ab ", "tree -s ", "ls -la "][style].to_owned() + root),
        "git" => (
            shell,
            rng.pick(&["git log --oneline -n ", "git log --format='%h %an %s' -"]).to_owned()
                + &count.to_string(),
        ),
        "diff" => (shell, format!("git diff HEAD~{} -- {file}", rng.between(1, 4))),
        "test" => (shell, format!("{} {word}", test_command(&setting.ext))),
        "log" => (
            shell,
            format!("tail -n {count} {}/{word}.log", rng.pick(&["/var/log", "logs", "tmp/log", "out"])),
        ),
        "train" => (shell, format!("tail -n {count} runs/{word}/stdout.txt")),
        "json" => (shell, format!("curl -s localhost:{}/api/{word}s | jq .", rng.between(8000, 8999))),
        "table" => (shell, format!("psql -c 'select * from {word}s order by id desc limit {count}'")),
        "pods" => (shell, "kubectl get pods -A -o wide".to_owned()),
        "build" => (
            shell,
            ["cargo build", "pip install -r requirements.txt", "docker build .", "npm run build"][style]
                .to_owned(),
        ),
        _ => (shell, format!("head -50 {file}")),
    };
    let result = lines(kind, count, &about, rng, setting);
    (tool.clone(), argument, result)
}

fn test_command(ext: &str) -> &'static str {
    match ext {
        "py" => "pytest -k",
        "go" => "go test ./... -run",
        "rs" => "cargo test",
        "kt" | "java" => "./gradlew test --tests",
        _ => "npx vitest run",
    }
}

/// So many lines of noise of this kind.
pub(super) fn lines(kind: &str, count: usize, about: &About, rng: &mut Rng, setting: &Setting) -> String {
    match kind {
        "code" => return source::code(count, rng, setting),
        "diff" => return diff(count, about, rng, setting),
        "json" => return json(count, rng, setting),
        "oops" => return oops(about, rng, setting),
        "doc" => return doc(count, rng, setting),
        _ => {}
    }
    let style = about.style.unwrap_or_else(|| rng.below(4));
    let searched = about.word(rng, setting);
    let mut clock = rng.between(0, 80_000);
    let rows = (0..count).map(|row| {
        clock += rng.below(9);
        match kind {
            "list" => listed(style, rng, setting),
            "grep" => found(&searched, rng, setting),
            "git" => commit(rng, setting),
            "test" => tested(rng, setting),
            "log" => logged(style, clock, rng, setting),
            "train" => trained(row, rng),
            "table" => row_of(rng, setting),
            "pods" => pod(rng, setting),
            _ => built(style, rng, setting),
        }
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn found(word: &str, rng: &mut Rng, setting: &Setting) -> String {
    let mut line = source::line(rng, setting);
    for _ in 0..8 {
        if line.contains(word) {
            break;
        }
        line = source::line(rng, setting);
    }
    format!("{}:{}:{line}", setting.file(rng), rng.between(3, 900))
}

fn listed(style: usize, rng: &mut Rng, setting: &Setting) -> String {
    let (file, size) = (setting.file(rng), rng.between(180, 48_000));
    match style {
        0 => format!("./{file}"),
        1 => format!("{size:>8} {file}"),
        2 => format!("│   ├── [{size:>7}]  {}", file.rsplit('/').next().unwrap_or_default()),
        _ => {
            let (day, hour) = (rng.between(1, 28), rng.between(7, 22));
            format!(
                "-rw-r--r--  1 dev  dev {size:>7} {} {day:>2} {hour:02}:{:02} {file}",
                rng.pick(&["Jan", "Feb", "Mar", "Apr"]),
                rng.below(60)
            )
        }
    }
}

fn commit(rng: &mut Rng, setting: &Setting) -> String {
    let (word, other) = (setting.word(rng), setting.word(rng));
    let what = match rng.below(7) {
        0 => format!("{} {word}: handle empty {other}", rng.pick(&["fix", "chore", "feat"])),
        1 => format!("Bump {word}-sdk from 2.{}.0 to 2.{}.1", rng.below(9), rng.below(30)),
        2 => format!("Merge pull request #{} from team/{word}-{other}", rng.between(100, 4000)),
        3 => format!("tests for {word} and {other}"),
        4 => format!("rename {word}_{} to {word}_{}", rng.pick(&VERBS), rng.pick(&VERBS)),
        5 => "typo".to_owned(),
        _ => format!(
            "{} the {word} {other} a bit",
            rng.pick(&["simplify", "speed up", "document", "reformat", "untangle"])
        ),
    };
    format!("{} {} {what}", rng.hex(7), rng.pick(&["mika", "jonas", "priya", "tanaka", "lea", "bot"]))
}

fn tested(rng: &mut Rng, setting: &Setting) -> String {
    let name = format!(
        "{}_{}_{}",
        rng.pick(&VERBS),
        setting.word(rng),
        rng.pick(&["empty", "twice", "roundtrip", "unicode", "limits", "happy_path", "default"])
    );
    let millis = rng.between(1, 480);
    match setting.ext.as_str() {
        "py" => {
            format!("tests/test_{}.py::test_{name} PASSED [{:>3}%]", setting.word(rng), rng.between(1, 100))
        }
        "go" => format!("--- PASS: Test_{name} (0.{millis:03}s)"),
        "rs" => format!("test {}::tests::{name} ... ok", setting.word(rng)),
        _ => format!(" ✓ {} > {} ({millis} ms)", setting.word(rng), name.replace('_', " ")),
    }
}

fn logged(style: usize, clock: usize, rng: &mut Rng, setting: &Setting) -> String {
    let time = format!("{:02}:{:02}:{:02}", clock / 3600 % 24, clock / 60 % 60, clock % 60);
    let (word, verb, millis) = (setting.word(rng), rng.pick(&VERBS), rng.between(1, 900));
    let level = if rng.chance(5) { "WARN" } else { rng.pick(&["INFO", "INFO", "INFO", "DEBUG"]) };
    if rng.chance(2) {
        return format!("{time} ERROR {word}: {verb} timed out after {millis}ms, retrying (1/3)");
    }
    match style {
        0 => {
            let id = rng.hex(12);
            format!(
                "{{\"ts\":\"{time}\",\"level\":\"{}\",\"msg\":\"{verb} {word}\",\"ms\":{millis},\"trace\":\"{id}\"}}",
                level.to_lowercase()
            )
        }
        1 => {
            let method = rng.pick(&["GET", "GET", "POST", "PUT"]);
            format!(
                "10.0.{}.{} - [{time}] \"{method} /{word}s/{} HTTP/1.1\" 200 {}",
                rng.below(256),
                rng.below(256),
                rng.digits(5),
                millis * 7
            )
        }
        2 => format!(
            "{time} {level:<5} [{}-{}] {word}: {verb} done in {millis}ms",
            rng.pick(&["worker", "main", "pool", "http"]),
            rng.below(12)
        ),
        _ => format!(
            "{time}.{millis:03} {level} {}.{verb} count={} retry=0 host=n{}",
            word,
            rng.below(5000),
            rng.below(40)
        ),
    }
}

fn trained(row: usize, rng: &mut Rng) -> String {
    let (loss, grad) = (rng.between(1100, 2900), rng.between(20, 190));
    let rate = rng.between(800, 990);
    format!(
        "step {:>6} | loss 1.{loss} | grad_norm 0.{grad:03} | lr 2.{rate}e-05 | tok/s {} | mem {}.{}G",
        row * 50 + 50,
        rng.between(9000, 14_000),
        rng.between(30, 70),
        rng.below(10)
    )
}

fn row_of(rng: &mut Rng, setting: &Setting) -> String {
    let state = rng.pick(&["active", "done", "pending", "archived", "new"]);
    format!(
        " {:>7} | {:<14} | {state:<8} | {:>9}.{:02} | 2026-0{}-{:02}",
        rng.digits(6),
        setting.word(rng),
        rng.between(1, 90_000),
        rng.below(100),
        rng.between(1, 4),
        rng.between(1, 28)
    )
}

fn pod(rng: &mut Rng, setting: &Setting) -> String {
    let name = format!("{}-{}-{}", setting.word(rng), rng.hex(9), rng.letters(b"bcdfghjklmnpqrstvwxz", 5));
    format!(
        "{name:<40} 1/1  Running  {}  {}d  10.42.{}.{}  node-{}",
        rng.below(3),
        rng.between(1, 90),
        rng.below(30),
        rng.below(256),
        rng.below(24)
    )
}

fn built(style: usize, rng: &mut Rng, setting: &Setting) -> String {
    let (word, major, minor) = (setting.word(rng), rng.between(0, 12), rng.between(0, 40));
    match style {
        0 => format!(
            "   Compiling {word}-{} v{major}.{minor}.{}",
            rng.pick(&["core", "macros", "util", "derive", "sys"]),
            rng.below(10)
        ),
        1 => format!(
            "Collecting {word}-{}=={major}.{minor}.{}  Downloading ({} kB)",
            rng.pick(&["client", "tools", "types"]),
            rng.below(9),
            rng.between(9, 900)
        ),
        2 => format!(
            "#{:>2} {}.{} CACHED [{}/14] COPY {} /app/",
            rng.between(4, 40),
            rng.below(60),
            rng.below(10),
            rng.between(1, 14),
            setting.file(rng)
        ),
        _ => format!(
            "dist/assets/{word}-{}.js  {}.{:02} kB │ gzip: {}.{:02} kB",
            rng.hex(8),
            rng.between(2, 300),
            rng.below(100),
            rng.between(1, 90),
            rng.below(100)
        ),
    }
}

fn diff(count: usize, about: &About, rng: &mut Rng, setting: &Setting) -> String {
    let file = about.file(rng, setting);
    let mut out = vec![
        format!("diff --git a/{file} b/{file}"),
        format!("index {}..{} 100644", rng.hex(7), rng.hex(7)),
        format!("--- a/{file}"),
        format!("+++ b/{file}"),
    ];
    for row in 0..count {
        if row % 14 == 0 {
            let at = rng.between(4, 600);
            out.push(format!("@@ -{at},{} +{at},{} @@", rng.between(5, 12), rng.between(5, 12)));
        }
        out.push(rng.pick(&[" ", " ", " ", "-", "+"]).to_owned() + &source::line(rng, setting));
    }
    out.join("\n")
}

fn json(count: usize, rng: &mut Rng, setting: &Setting) -> String {
    let items = (0..count.div_ceil(7)).map(|_| {
        let tags = [setting.word(rng), setting.word(rng)];
        format!(
            "    {{\n      \"id\": \"{}\",\n      \"{}\": {},\n      \"state\": \"{}\",\n      \"tags\": [\"{}\", \"{}\"],\n      \"updated\": \"2026-0{}-{:02}T{:02}:{:02}:00Z\"\n    }}",
            rng.hex(10), setting.word(rng), rng.below(9000), rng.pick(&["ok", "queued", "stale", "ready"]), tags[0], tags[1], rng.between(1, 4), rng.between(1, 28), rng.below(24), rng.below(60)
        )
    });
    let items = items.collect::<Vec<_>>().join(",\n");
    format!("{{\n  \"items\": [\n{items}\n  ],\n  \"next\": null\n}}")
}

/// The small mishaps that the next call puts right.
fn oops(about: &About, rng: &mut Rng, setting: &Setting) -> String {
    let (file, word) = (about.file(rng, setting), about.word(rng, setting));
    match rng.below(6) {
        0 => format!("cat: {file}: No such file or directory"),
        1 => format!("zsh: command not found: {word}ctl"),
        2 => format!(
            "usage: {word} [-h] [--verbose] [--limit LIMIT] path\n{word}: error: the following arguments are required: path"
        ),
        3 => format!("fatal: ambiguous argument '{word}': unknown revision or path not in the working tree."),
        4 => format!("ls: cannot access '{file}': Permission denied"),
        _ => format!("jq: error (at <stdin>:1): Cannot index string with string \"{word}\""),
    }
}

/// Running text as in a manual.
fn doc(count: usize, rng: &mut Rng, setting: &Setting) -> String {
    let mut out =
        vec![format!("# {} {}", setting.word(rng), rng.pick(&["overview", "guide", "notes", "reference"]))];
    for row in 0..count.div_ceil(2) {
        if row % 9 == 4 {
            out.push(format!(
                "\n## {} {}\n",
                rng.pick(&["Working with", "About", "How we handle", "Background:"]),
                setting.word(rng)
            ));
        }
        let (one, other, third) = (setting.word(rng), setting.word(rng), setting.word(rng));
        out.push(match rng.below(9) {
            0 => format!("A {one} belongs to exactly one {other}; it is created the first time that the {third} is opened."),
            1 => format!("Most people never look at the {one} directly, they go through the {other} page and its filters."),
            2 => format!("See `{}` for an example that walks through a {one} with two {other} entries.", setting.file(rng)),
            3 => format!("When the {one} is refreshed, every {other} below it is read again, which takes a few seconds for a large {third}."),
            4 => format!("The {one} tab lists what was changed in the {other} by whom, newest at the top."),
            5 => format!("Names of a {one} may contain letters, digits and dashes. They are shown as they were typed."),
            6 => format!("- {one}: optional, taken from the {other} if it is left out"),
            7 => format!("Historically the {one} and the {third} were one table, and some of the old names still show it."),
            _ => format!("For {one} in bulk, prepare a list with one {other} per line and drop it on the {third} panel."),
        });
    }
    out.join("\n")
}
