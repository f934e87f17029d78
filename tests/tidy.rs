//! The rules of the repository as tests: headers, sizes, layers, paths named in documents, nothing half-done.
//!
//! A rule is a function of one file. Each is tried on a planted violation, so that none can go blind.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test reads the sources of the repository"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// The crates of the server, from the top to the bottom; cargo keeps their order.
const CRATES: &[&str] = &[
    "server/src/",
    "server/app/src/",
    "server/llm/src/",
    "server/store/src/",
    "server/summarizer/src/",
    "server/policy/src/",
    "server/base/src/",
];

/// Which layer of the server may name which, within a crate or across. Everything not here is forbidden; a new layer
/// gets a row.
const LAYERS: &[(&str, &[&str])] = &[
    ("main", &["cli"]),
    ("cli", &["mask", "serve", "compress", "config", "store", "outputs", "telemetry", "model", "infra"]),
    (
        "serve",
        &["mask", "grpc", "compress", "hooks", "http", "llm", "config", "store", "context", "model", "infra"],
    ),
    (
        "grpc",
        &[
            "mask", "compress", "hooks", "llm", "config", "store", "outputs", "render", "context", "model",
            "infra",
        ],
    ),
    ("config", &["hooks", "llm", "mask", "context", "telemetry", "model", "infra"]),
    ("app", &["compress", "hooks", "llm", "store", "render", "context", "model", "infra"]),
    ("compress", &["hooks", "llm", "summarizer", "store", "outputs", "render", "context", "model", "infra"]),
    ("hooks", &["model", "infra"]),
    ("llm", &["model", "infra"]),
    ("http", &["infra"]),
    ("telemetry", &["infra"]),
    ("store", &["mask", "outputs", "log", "catalog", "render", "context", "model", "infra"]),
    ("outputs", &["log", "model", "infra"]),
    ("log", &["model", "infra"]),
    ("catalog", &["model", "infra"]),
    ("summarizer", &["context", "model"]),
    ("render", &["model"]),
    ("context", &["model"]),
    ("mask", &["model"]),
    ("model", &[]),
    ("infra", &[]),
];

/// Crates that one part of the server keeps to itself.
const KEPT: &[(&str, &[&str])] = &[
    ("rusqlite", &["server/store/src/catalog/"]),
    ("rusqlite_migration", &["server/store/src/catalog/"]),
    ("rustix", &["server/base/src/infra/", "server/store/src/catalog/"]),
    ("tonic", &["server/src/grpc/", "server/src/serve/"]),
    ("contextstore_proto", &["server/src/grpc/"]),
    ("axum", &["server/src/http/"]),
    ("reqwest", &["server/llm/src/", "server/app/src/hooks/"]),
    ("rmcp", &["server/src/cli/mcp.rs", "server/src/cli/mcp/"]),
    ("rustls", &["server/llm/src/", "server/app/src/hooks/"]),
];

/// Lines a file may have outside tests.
const MAX_LINES: usize = 500;

/// Folders at the top; a path in a document that begins with one must exist.
const TOP: &[&str] = &["proto/", "server/", "client-rs/", "clients/", "examples/", "tests/", "docs/", ".ci/"];

/// Endings by which a name in a document is taken for a file of the repository.
const ENDINGS: &[&str] = &[".rs", ".proto", ".py", ".sh", ".md", ".toml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every text file of the repository as (path, text), in order.
fn files() -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let passed_over = ["target", "node_modules", "build", "dist", "contexts", "data"]
                .contains(&name.as_str())
                || (name.starts_with('.') && name != ".ci");
            if !passed_over && entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), out);
            } else if !passed_over && entry.file_type().unwrap().is_file() {
                out.push(entry.path());
            }
        }
    }
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    paths.iter().filter_map(|path| Some((relative(path), fs::read_to_string(path).ok()?))).collect()
}

/// Fails with everything a rule finds in the files that it is for.
fn hold(applies: impl Fn(&str) -> bool, rule: impl Fn(&str, &str) -> Vec<String>) {
    let files: Vec<_> = files().into_iter().filter(|(path, _)| applies(path)).collect();
    assert!(!files.is_empty(), "the rule is for no file at all");
    let problems: Vec<_> = files
        .iter()
        .flat_map(|(path, text)| {
            rule(path, text).into_iter().map(move |problem| format!("{path}: {problem}"))
        })
        .collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// TypeScript that people write.
fn is_typescript(path: &str) -> bool {
    path.ends_with(".ts") && !path.contains("/gen/")
}

/// Go that people write.
fn is_go(path: &str) -> bool {
    path.ends_with(".go") && !path.ends_with(".pb.go")
}

fn is_server(path: &str) -> bool {
    CRATES.iter().any(|start| path.starts_with(start)) && is_rust(path)
}

fn is_code(path: &str) -> bool {
    [".rs", ".proto", ".py", ".ts", ".go", ".sh", ".toml", "Makefile", ".ci/run"]
        .iter()
        .any(|end| path.ends_with(end))
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && path != "CHANGELOG.md"
}

/// The text without `//` comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What follows each occurrence of `start` that does not continue a word.
fn after<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(start)
        .filter(|(at, _)| !text[..*at].ends_with(is_word))
        .map(move |(at, _)| &text[at + start.len()..])
}

/// The first names of a path or of a braced group of paths: `{a::B, c}` gives a and c.
fn first_names(text: &str) -> Vec<&str> {
    let name = |item: &'_ str| item.trim_start().find(|c| !is_word(c)).unwrap_or(item.trim_start().len());
    let Some(group) = text.strip_prefix('{') else { return vec![&text[..name(text)]] };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = group[start..at].trim_start();
                names.push(&item[..name(item)]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn header(path: &str, text: &str) -> Vec<String> {
    let opener = if is_rust(path) { "//! " } else { "// " };
    if text.starts_with(opener) {
        vec![]
    } else {
        vec![format!("does not open with `{opener}` and what it owns")]
    }
}

fn size(_: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines <= MAX_LINES { vec![] } else { vec![format!("has {lines} lines, more than {MAX_LINES}")] }
}

fn layers(path: &str, text: &str) -> Vec<String> {
    let (start, module) = CRATES.iter().find_map(|start| Some((*start, path.strip_prefix(start)?))).unwrap();
    let module = module.trim_end_matches(".rs").trim_end_matches("/mod");
    let first = module.split('/').next().unwrap();
    // These crates are one layer each, but for two modules of the use cases.
    let is_own = ["compress", "hooks"].contains(&first);
    let whole = ["app", "llm", "summarizer"].into_iter().find(|name| start == format!("server/{name}/src/"));
    let whole = whole.filter(|_| !is_own);
    let layer = whole.unwrap_or(first);
    if first == "lib" {
        return vec![];
    }
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("the layer `{layer}` has no row in LAYERS")];
    };
    let text = code(text);
    let depth = module.split('/').count();
    // Above the root of a crate that is one layer there is nothing.
    let top = "super::".repeat(if whole.is_some() { depth + 1 } else { depth });
    ["crate::", "contextstore::", &top]
        .iter()
        .flat_map(|start| after(&text, start))
        .flat_map(first_names)
        .filter(|name| {
            LAYERS.iter().any(|(known, _)| known == name) && *name != layer && !allowed.contains(name)
        })
        .map(|name| format!("`{layer}` may not use `{name}`"))
        .collect()
}

fn kept_crates(path: &str, text: &str) -> Vec<String> {
    let text = code(text);
    KEPT.iter()
        .filter(|(_, places)| !places.iter().any(|place| path.starts_with(place)))
        .filter(|(name, _)| after(&text, name).any(|rest| !rest.starts_with(is_word)))
        .map(|(name, places)| format!("`{name}` is for {} alone", places.join(" and ")))
        .collect()
}

fn half_done(_: &str, text: &str) -> Vec<String> {
    let macros = [concat!("to", "do!"), concat!("unimple", "mented!")];
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let numbered = |line: &str| after(line, "#").any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    // What people write in texts that are tested with is no mark of ours.
    let quoted = |line: &str, rest: &str| line[..line.len() - rest.len()].matches('"').count() % 2 == 1;
    let has =
        |line: &str, mark| after(line, mark).any(|rest| !rest.starts_with(is_word) && !quoted(line, rest));
    let found = text.lines().enumerate().filter(|(_, line)| {
        macros.iter().any(|name| after(line, name).next().is_some())
            || (marks.iter().any(|mark| has(line, mark)) && !numbered(line))
    });
    found.map(|(at, line)| format!("line {}: half-done without an issue: {}", at + 1, line.trim())).collect()
}

/// Whether a name in backticks is meant as a path of the repository.
fn is_path(name: &str) -> bool {
    let plain = name.chars().all(|c| is_word(c) || "./-*{},<>".contains(c));
    let stem = |end: &str| name.strip_suffix(end).is_some_and(|stem| stem.ends_with(is_word));
    plain && (TOP.iter().any(|top| name.starts_with(top)) || ENDINGS.iter().any(|end| stem(end)))
}

/// The paths a document names: in backticks outside of code blocks, and as the targets of links.
fn named_paths(text: &str) -> Vec<(String, bool)> {
    let mut fenced = false;
    let mut paths = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        paths.extend(
            line.split('`').skip(1).step_by(2).filter(|name| is_path(name)).map(|n| (n.to_owned(), false)),
        );
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let ours = targets.filter(|target| !target.is_empty() && !target.contains(':'));
        paths.extend(ours.map(|target| (target.to_owned(), true)));
    }
    paths
}

/// `exists` answers for paths from the top. A name may also be meant from a crate's `src` or from the document;
/// of one with a placeholder (`*`, `{…}`, `<…>`) only the folder before it is looked for.
fn paths_exist(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let here = path.rsplit_once('/').map_or(String::new(), |(dir, _)| format!("{dir}/"));
    let found = |(name, is_link): &(String, bool)| {
        let fixed = match name.find(['*', '{', '<']) {
            Some(at) => name[..at].rsplit_once('/').map_or("", |(dir, _)| dir),
            None => name,
        };
        exists(&format!("{here}{fixed}"))
            || (!is_link && (exists(fixed) || CRATES.iter().any(|start| exists(&format!("{start}{fixed}")))))
    };
    let missing = named_paths(text).into_iter().filter(|named| !found(named));
    missing.map(|(name, _)| format!("names `{name}`, which does not exist")).collect()
}

#[test]
fn every_file_opens_with_what_it_owns() {
    assert_eq!(header("a.rs", "//! Owns a.\n"), [""; 0]);
    assert_eq!(header("a.rs", "use std::fs;\n").len(), 1);
    assert_eq!(header("a.rs", "//!\n").len(), 1);
    assert_eq!(header("a.ts", "// Owns a.\n"), [""; 0]);
    assert_eq!(header("a.ts", "import a;\n").len(), 1);
    hold(|path| is_rust(path) || is_typescript(path) || is_go(path), header);
}

#[test]
fn no_file_is_too_long_to_read() {
    assert_eq!(size("a.rs", &"\n".repeat(MAX_LINES)), [""; 0]);
    assert_eq!(size("a.rs", &"\n".repeat(MAX_LINES + 1)).len(), 1);
    let is_long_by_nature = |path: &str| path.starts_with("tests/") || path.ends_with("tests.rs");
    hold(|path| (is_rust(path) || is_typescript(path) || is_go(path)) && !is_long_by_nature(path), size);
}

#[test]
fn layers_use_only_those_below() {
    let fine = "use crate::model::{TaskId, StoreError};\nuse crate::{infra::fs, model};\n// crate::store\n";
    assert_eq!(layers("server/store/src/log/fold.rs", fine), [""; 0]);
    assert_eq!(
        layers("server/store/src/log/mod.rs", "use super::model::TaskId;\nuse crate::log::fold;"),
        [""; 0]
    );
    assert_eq!(
        layers("server/base/src/infra/fs/disk.rs", "use super::super::clock;\nuse super::path;"),
        [""; 0]
    );
    assert_eq!(layers("server/src/lib.rs", "pub mod store;\npub use crate::store::Store;"), [""; 0]);

    let up = |path, text| assert_eq!(layers(path, text).len(), 1, "{path}: {text}");
    up("server/store/src/log/fold.rs", "use crate::store::Store;");
    up("server/store/src/log/fold.rs", "use crate::{model::{A, B}, catalog::Catalog};");
    up("server/store/src/log/fold.rs", "fn f() { super::super::catalog::open() }");
    up("server/store/src/catalog/mod.rs", "use super::log;");
    up("server/base/src/model/ids.rs", "fn f(clock: &crate::infra::clock::SystemClock) {}");
    up("server/base/src/infra/clock.rs", "use crate::model::TaskId;");
    up("server/src/main.rs", "use contextstore::{cli, store};");
    up("server/src/web/mod.rs", "");
    hold(is_server, layers);
}

#[test]
fn the_table_of_layers_has_no_circle() {
    let row = |layer: &str| LAYERS.iter().position(|(name, _)| *name == layer).unwrap();
    for (at, (layer, below)) in LAYERS.iter().enumerate() {
        assert!(below.iter().all(|name| row(name) > at), "{layer} must stand above all that it uses");
    }
}

#[test]
fn one_place_knows_sqlite_and_one_the_system_calls() {
    assert_eq!(kept_crates("server/store/src/catalog/mod.rs", "use rusqlite::Connection;"), [""; 0]);
    assert_eq!(kept_crates("server/store/src/log/mod.rs", "// as rusqlite does\nlet rustixy = 1;"), [""; 0]);
    assert_eq!(kept_crates("server/store/src/store/mod.rs", "use rusqlite::Connection;").len(), 1);
    assert_eq!(kept_crates("server/store/src/store/mod.rs", "use rusqlite_migration as m;").len(), 1);
    assert_eq!(kept_crates("server/store/src/log/mod.rs", "rustix::fs::fsync(f)?;").len(), 1);
    hold(is_server, kept_crates);
}

#[test]
fn nothing_is_half_done() {
    let (mark, stub) = (concat!("TO", "DO"), concat!("to", "do!()"));
    assert_eq!(half_done("a.rs", &format!("// {mark}(#12): later\nfn {}() {{}}", "mytodo")), [""; 0]);
    assert_eq!(half_done("a.rs", &format!("// {mark}: later")).len(), 1);
    assert_eq!(half_done("a.rs", &format!("let said = \"{mark}: later\";")), [""; 0]);
    assert_eq!(half_done("a.rs", &format!("let said = \"\"; // {mark}: later")).len(), 1);
    assert_eq!(half_done("a.rs", &format!("fn f() {{ {stub} }}")).len(), 1);
    assert_eq!(half_done("a.rs", concat!("unimple", "mented!(\"#3\")")).len(), 1);
    hold(is_code, half_done);
}

#[test]
fn documents_name_only_paths_that_exist() {
    let there = ["docs", "docs/A.md", "server/store/src/log/fold.rs", "tests/data"];
    let check = |text| paths_exist("docs/B.md", text, |path| there.contains(&path));
    assert_eq!(
        check("`docs/A.md`, `log/fold.rs`, `A.md`, `tests/data/v*/`, [a](A.md#x), [b](https://b.c)"),
        [""; 0]
    );
    assert_eq!(check("`make test`, `tasks.db`, `running/{uuid}/x.json`, `a.b()`, `*.rs`"), [""; 0]);
    assert_eq!(check("```\n`docs/gone.md`\n```\n"), [""; 0]);
    for gone in ["`docs/gone.md`", "`log/gone.rs`", "`tests/gone/*.json`", "[a](gone.md)", "`server/gone/`"] {
        assert_eq!(check(gone).len(), 1, "{gone}");
    }
    hold(is_document, |path, text| paths_exist(path, text, |name| root().join(name).exists()));
}

#[test]
fn no_test_and_no_proto_is_forgotten() {
    let unlisted = |list: &str, path: &str, name: &str| {
        let listed = list.contains(&format!("\"{name}\""));
        if listed { vec![] } else { vec![format!("{path} is not listed as \"{name}\"")] }
    };
    assert_eq!(unlisted("path = \"../tests/a.rs\"", "tests/a.rs", "../tests/a.rs"), [""; 0]);
    assert_eq!(unlisted("path = \"../tests/a.rs\"", "tests/b.rs", "../tests/b.rs").len(), 1);

    // A program is listed in the manifest, and a file or folder of a program is one of its modules.
    for (owner, program) in
        [("server", "service"), ("server/store", "store"), ("server", "pure"), ("server", "long")]
    {
        let manifest = format!("{owner}/Cargo.toml");
        let text = fs::read_to_string(root().join(&manifest)).unwrap();
        let main = format!("tests/{program}/main.rs");
        let up = "../".repeat(owner.split('/').count());
        assert_eq!(unlisted(&text, &manifest, &format!("{up}{main}")), [""; 0]);
        let main = fs::read_to_string(root().join(main)).unwrap();
        let module = |path: &str| {
            let rest = path.strip_prefix(&format!("tests/{program}/"))?;
            let name = rest.split('/').next()?.trim_end_matches(".rs");
            (is_rust(path) && name != "main").then(|| name.to_owned())
        };
        hold(
            |path| module(path).is_some(),
            |path, _| {
                let listed = main.contains(&format!("\nmod {};", module(path).unwrap()));
                if listed { vec![] } else { vec![format!("is not a module of tests/{program}/main.rs")] }
            },
        );
    }

    let build = fs::read_to_string(root().join("build.rs")).unwrap();
    hold(
        |path| path.starts_with("proto/") && path.ends_with(".proto"),
        |path, _| unlisted(&build, "build.rs", path.trim_start_matches("proto/")),
    );
}
