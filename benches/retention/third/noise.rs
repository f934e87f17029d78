//! What happens in the sessions of the third generator when nothing does: what tools put out by the page, files that are
//! read, chatter.

use fastrand::Rng;
use serde_json::json;

use super::super::session::Session;
use super::Language;

const NOUNS: &[&str] = &[
    "tenant", "cursor", "lease", "replica", "offset", "payload", "header", "session", "window", "bucket",
    "segment", "channel", "worker", "ticker", "claim", "scope",
];
const VERBS: &[&str] = &[
    "drain", "admit", "hydrate", "flush", "resolve", "scan", "rotate", "seal", "probe", "yield", "attach",
    "retry",
];
const STATES: &[&str] = &["Running", "Running", "Running", "Completed", "Pending"];

/// Makes the noise of one session.
pub(crate) struct Noise {
    rng: Rng,
    services: &'static [&'static str],
}

impl Noise {
    pub(crate) fn new(rng: &mut Rng, services: &'static [&'static str]) -> Self {
        Self { rng: rng.fork(), services }
    }

    fn noun(&mut self) -> &'static str {
        self.rng.choice(NOUNS).unwrap()
    }

    fn verb(&mut self) -> &'static str {
        self.rng.choice(VERBS).unwrap()
    }

    fn clock(&mut self) -> String {
        format!("{:02}:{:02}:{:02}Z", self.rng.u32(..24), self.rng.u32(..60), self.rng.u32(..60))
    }

    /// An output with a few other lines around it.
    pub(crate) fn around(&mut self, output: &str) -> String {
        let (before, behind) = (self.rng.usize(2..14), self.rng.usize(0..10));
        let (before, behind) = (self.log(before), self.log(behind));
        format!("{before}{output}\n{behind}")
    }

    fn log(&mut self, lines: usize) -> String {
        let mut text = String::new();
        for _ in 0..lines {
            let (noun, verb, clock) = (self.noun(), self.verb(), self.clock());
            let (some, more) = (self.rng.u32(1..4000), self.rng.u32(1..900));
            text.push_str(&match self.rng.u8(..5) {
                0 => format!("{clock} level=info msg=\"{verb} {noun}\" took={some}us\n"),
                1 => format!("{clock} level=debug msg=\"{noun} ok\" n={more}\n"),
                2 => format!("[{some}] {verb}: {more} {noun}s, nothing to do\n"),
                3 => format!("{{\"t\":\"{clock}\",\"{noun}\":{some},\"op\":\"{verb}\"}}\n"),
                _ => format!("{clock} GET /{noun}s/{more} 200 {some}ms\n"),
            });
        }
        text
    }

    /// A change of some lines of a program.
    pub(crate) fn patch(&mut self) -> String {
        let (noun, verb, other) = (self.noun(), self.verb(), self.verb());
        format!("-    {noun}.{verb}(ctx)\n+    if err := {noun}.{other}(ctx); err != nil {{ return err }}\n")
    }

    fn source(&mut self, lines: usize) -> String {
        let mut text = String::new();
        for _ in 0..lines {
            let (noun, verb, other) = (self.noun(), self.verb(), self.noun());
            text.push_str(&match self.rng.u8(..8) {
                0 => format!("func ({} *{noun}) {verb}(ctx context.Context) error {{\n", &noun[..1]),
                1 => format!("\tfor _, {noun} := range s.{other}s {{\n"),
                2 => format!("\t\t{noun}.{verb}({other})\n"),
                3 => format!("\t// {verb} the {noun} before the {other} goes away\n"),
                4 => "\t}\n".to_owned(),
                5 => format!("\treturn s.{other}.{verb}({noun})\n}}\n\n"),
                6 => format!("\t{noun} := make(chan {other}, {})\n", self.rng.u32(1..64)),
                _ => format!("\tif {noun}.{other} == nil {{\n\t\treturn errNo{other}\n\t}}\n"),
            });
        }
        text
    }

    fn pods(&mut self) -> String {
        let mut text = "NAME                          READY   STATUS    RESTARTS   AGE\n".to_owned();
        for _ in 0..self.rng.usize(8..30) {
            let (noun, verb) = (self.noun(), self.verb());
            let state = self.rng.choice(STATES).unwrap();
            let (hash, age) = (self.rng.u32(0x10000..0xfffff), self.rng.u32(1..60));
            text.push_str(&format!("{noun}-{verb}-{hash:05x}   1/1   {state}   0   {age}d\n"));
        }
        text
    }

    fn rows(&mut self) -> String {
        let mut text = " id | tenant | amount | state\n----+--------+--------+-------\n".to_owned();
        for at in 0..self.rng.usize(10..50) {
            let (noun, verb) = (self.noun(), self.verb());
            text.push_str(&format!(" {at} | {noun} | {}.{:02} | {verb}ed\n", self.rng.u32(1..900), at % 100));
        }
        text
    }

    fn diff(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.rng.usize(6..24) {
            let (noun, verb, other) = (self.noun(), self.verb(), self.noun());
            text.push_str(&format!("@@ -{0},7 +{0},7 @@\n", self.rng.u32(1..900)));
            text.push_str(&format!(
                "-\t{noun}.{verb}({other})\n+\t{noun}.{verb}(ctx, {other})\n \t{other}++\n"
            ));
        }
        text
    }

    /// A step on which nothing happens that anybody must remember.
    pub(crate) fn pass(&mut self, session: &mut Session, language: &Language, rng: &mut Rng) {
        let service = *rng.choice(self.services).unwrap();
        let says = match rng.u8(..6) {
            0..2 => None,
            2..4 => Some(rng.choice(language.musings).unwrap().to_string()),
            _ => {
                let space = if language.code == "ja" { "" } else { " " };
                let (first, second) = (
                    self.remark(service, language.code == "ja"),
                    self.remark(service, language.code == "ja"),
                );
                Some(format!("{first}{space}{second}"))
            }
        };
        let says = says.as_deref();
        let (noun, verb) = (self.noun(), self.verb());
        match rng.u8(..16) {
            0..5 => {
                let lines = rng.usize(25..110);
                let path = format!("internal/{noun}/{verb}.go");
                session.tool(says, "view", &json!({"file_path": path}), &self.source(lines));
            }
            5..8 => {
                let lines = rng.usize(20..80);
                let command = format!("kubectl logs deploy/{noun} --since 1h");
                session.tool(says, "shell", &json!({"cmd": command}), &self.log(lines));
            }
            8..10 => session.tool(says, "shell", &json!({"cmd": "kubectl get pods"}), &self.pods()),
            10..12 => {
                let query = format!("select * from {noun}s limit 50");
                session.tool(says, "query", &json!({"sql": query}), &self.rows());
            }
            12..14 => session.tool(says, "shell", &json!({"cmd": format!("git diff {noun}")}), &self.diff()),
            14 => {
                session.user(rng.choice(language.nods).unwrap());
                session.assistant(rng.choice(language.acks).unwrap());
            }
            _ => {
                let first = rng.choice(language.musings).unwrap();
                let second = self.remark(service, language.code == "ja");
                session.assistant(&format!("{first} {second}"));
            }
        }
    }

    /// What an assistant says about code that it reads: full of names and numbers that nobody will ask for.
    pub(crate) fn remark(&mut self, service: &str, japanese: bool) -> String {
        let (noun, verb, other) = (self.noun(), self.verb(), self.noun());
        let (line, count) = (self.rng.u32(10..900), self.rng.u32(2..40));
        let english = [
            format!("`{verb}_{noun}` is called {count} times in {service}, always with a fresh {other}."),
            format!(
                "At line {line} the {noun} is handed to `{verb}`, which checks the {other} and returns early."
            ),
            format!(
                "The {noun} struct of {service} has {count} fields, most of them optional; `{other}_id` comes first."
            ),
            format!(
                "In {service} a {noun} is created per {other}, so `{verb}()` runs about {count} times per request."
            ),
            format!(
                "The helper around line {line} only converts a {noun} into a {other} and could be inlined."
            ),
            format!("{service} imports `{noun}/{verb}` for its {other} type and nothing else."),
        ];
        let kanji = [
            format!(
                "`{verb}_{noun}`は{service}の中で{count}か所から呼ばれ、毎回新しい{other}を渡しています。"
            ),
            format!("{line}行目で{noun}が`{verb}`に渡り、{other}を調べてすぐ戻ります。"),
            format!("{service}の{noun}構造体には{count}個のフィールドがあり、ほとんどは省略できます。"),
            format!(
                "{service}では{other}ごとに{noun}を作るので、`{verb}()`は一回の要求で{count}回ほど動きます。"
            ),
            format!("{line}行目付近の補助関数は{noun}を{other}に変換するだけです。"),
        ];
        if japanese { self.rng.choice(kanji).unwrap() } else { self.rng.choice(english).unwrap() }
    }
}
