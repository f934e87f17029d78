//! Owns tool calls and their outputs: which tool, which arguments, and lines that look like work but say nothing that
//! matters, with a planted text among them.

use serde_json::{Value, json};

use super::dice::Dice;
use super::{forms, minutes, prose, source};

/// The words of a piece of work.
pub(super) struct Kit<'a> {
    pub(super) ja: bool,
    pub(super) lang: &'a str,
    pub(super) nouns: Vec<&'a str>,
    /// The nouns of Japanese prose.
    pub(super) words: Vec<&'a str>,
    pub(super) dirs: Vec<&'a str>,
    pub(super) services: Vec<&'a str>,
    pub(super) kinds: Vec<&'a str>,
}

impl Kit<'_> {
    /// How much a text counts: characters in Japanese, bytes in English.
    pub(super) fn weight(&self, text: &str) -> usize {
        if self.ja { text.chars().count() } else { text.len() }
    }
}

/// A call of a tool.
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) result: String,
}

const VERBS: [&str; 14] = [
    "load", "build", "merge", "resolve", "check", "apply", "collect", "render", "parse", "select", "update", "flush",
    "attach", "split",
];
const PEOPLE_EN: [&str; 8] = ["ajones", "mkowalski", "tbrandt", "s.osei", "lfern", "dvega", "rpatel", "nhansen"];
const PEOPLE_JA: [&str; 8] = ["h-tanaka", "y.sato", "k-mori", "m.abe", "t-ueda", "r.kondo", "s-hara", "n.ogawa"];

/// Fills a template: `$n` and `$m` are the same two nouns all over it, `$N` and `$M` with a capital, `$v` its verb,
/// `$o` and `$u` a new noun and verb each time, `$1` to `$6` a number of so many digits, `$h` hexadecimal digits,
/// `$j`, `$k` and `$l` are nouns as people say them, `$s` a service, `$d` a folder, `$p` a person, `$c` a comment, `$t` a time, `$e` the ending of source files.
pub(super) fn fill(template: &str, dice: &mut Dice, kit: &Kit<'_>) -> String {
    let (first, second, verb) = (dice.pick(&kit.nouns), dice.pick(&kit.nouns), dice.pick(&VERBS));
    let words = if kit.ja { &kit.words } else { &kit.nouns };
    let (topic, other) = (dice.pick(words), dice.pick(words));
    let mut out = String::new();
    let mut parts = template.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut rest = part.chars();
        let sign = rest.next().unwrap_or('$');
        match sign {
            'n' => out.push_str(first),
            'm' => out.push_str(second),
            'N' => out.push_str(&capital(first)),
            'M' => out.push_str(&capital(second)),
            'v' => out.push_str(verb),
            'j' => out.push_str(topic),
            'k' => out.push_str(other),
            'l' => out.push_str(dice.pick(words)),
            'o' => out.push_str(dice.pick(&kit.nouns)),
            'u' => out.push_str(dice.pick(&VERBS)),
            '1'..='6' => {
                let digits = usize::try_from(sign.to_digit(10).unwrap_or(1)).unwrap_or(1);
                out.push_str(&dice.pattern(&"#".repeat(digits)));
            }
            'h' => out.push_str(&dice.pattern("%%%%%%%%")),
            's' => out.push_str(dice.pick(&kit.services)),
            'd' => out.push_str(dice.pick(&kit.dirs)),
            'p' => out.push_str(dice.pick(if kit.ja { &PEOPLE_JA } else { &PEOPLE_EN })),
            'c' => {
                let comment = dice.pick(forms::comments(kit.ja));
                out.push_str(&fill(comment, dice, kit));
            }
            't' => {
                let (hour, minute, second) = (dice.below(24), dice.below(60), dice.below(60));
                out.push_str(&format!("{hour:02}:{minute:02}:{second:02}"));
            }
            'e' => out.push_str(kit.lang),
            other => {
                out.push('$');
                out.push(other);
            }
        }
        out.push_str(rest.as_str());
    }
    out
}

fn capital(word: &str) -> String {
    let mut rest = word.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

/// A call of the tool for this kind of output, about `size` long, with the planted text in it.
pub(super) fn call(dice: &mut Dice, kit: &Kit<'_>, kind: &str, path: Option<&str>, planted: &str, size: usize) -> Call {
    let path = path.map_or_else(|| fill("$d/$n_$m.$e", dice, kit), str::to_owned);
    let service = dice.pick(&kit.services);
    let (tool, arguments, form) = match kind {
        "code" => ("read_file", json!({"path": path}), source::code(kit.lang)),
        "yaml" => ("read_file", json!({"path": path.replace(kit.lang, "yaml")}), forms::yaml()),
        "log" => {
            let command = dice.pick(&[
                "journalctl -u $s --since today",
                "tail -n 300 /var/log/$s/current.log",
                "docker logs --tail 200 $s",
                "zgrep -h . /var/log/$s/*.gz | tail -200",
            ]);
            ("bash", json!({"command": command.replace("$s", service)}), forms::log(kit.ja))
        }
        "test" => ("bash", json!({"command": forms::test_command(kit.lang)}), forms::test(kit.lang)),
        "build" => (
            "bash",
            json!({"command": dice.pick(&["make build 2>&1", "./ci/build.sh", "docker build ."])}),
            forms::build(),
        ),
        "ls" => ("bash", json!({"command": fill("ls -la $d", dice, kit)}), forms::listing()),
        "json" => (
            "http_get",
            json!({"url": fill("https://$s.internal/api/v2/$n?limit=50", dice, kit)}),
            forms::records(kit.ja),
        ),
        "sql" => (
            "query",
            json!({"sql": fill("SELECT id, $n, status, amount, updated_at FROM $m ORDER BY id LIMIT 60",
            dice, kit)}),
            forms::rows(),
        ),
        "trace" => ("bash", json!({"command": fill("./run.sh $n --verbose", dice, kit)}), forms::trace(kit.lang)),
        "diff" => ("bash", json!({"command": fill("git diff HEAD~$1 -- $d", dice, kit)}), forms::diff(kit.lang)),
        "git" => ("bash", json!({"command": "git log --oneline -40"}), forms::history(kit.ja)),
        "grep" => ("grep", json!({"pattern": fill("$v_$n", dice, kit), "path": "."}), forms::hits()),
        "table" => (
            "bash",
            json!({"command": dice.pick(&["kubectl get pods -A", "df -h && ps aux | head -60",
            "./status --all"])}),
            forms::table(),
        ),
        "csv" => ("bash", json!({"command": fill("head -60 exports/$n_$m.csv", dice, kit)}), forms::csv()),
        "minutes" => ("read_file", json!({"path": fill("notes/$n-$m-$3.md", dice, kit)}), minutes::minutes(kit.ja)),
        _ => ("fetch_page", json!({"url": fill("https://docs.example.org/$n/$m-$v", dice, kit)}), prose::page(kit.ja)),
    };
    let mut blocks = Vec::new();
    let mut length = kit.weight(planted) + kit.weight(form.foot);
    if !form.head.is_empty() {
        blocks.push(fill(form.head, dice, kit));
    }
    while length < size || blocks.len() < 3 {
        let block = fill(dice.pick(form.blocks), dice, kit);
        length += kit.weight(&block) + 1;
        blocks.push(block);
    }
    if !planted.is_empty() {
        let low = if form.late { blocks.len() * 3 / 4 } else { 1 };
        let at = dice.range(low.max(1), blocks.len().max(2)).min(blocks.len());
        let planted = if kind == "log" { fill("2024-11-0$1 $t ", dice, kit) + planted } else { planted.to_owned() };
        blocks.insert(at, planted);
    }
    if kind == "log" {
        // By their times.
        blocks.sort();
    }
    if !form.foot.is_empty() {
        blocks.push(fill(form.foot, dice, kit));
    }
    Call { tool, arguments, result: blocks.join("\n") }
}
