//! What fills sessions: code, greps, logs, listings, and the names that stand for `{…}` in what is said.

use fastrand::Rng;

/// Makes filler of one session. Names that it gave once are not given again.
pub(crate) struct Filler {
    rng: Rng,
    japanese: bool,
    components: Vec<&'static str>,
    spoken: Vec<String>,
    used: Vec<String>,
    paths: Vec<String>,
}

/// One set of names for all parts of an entry.
pub(crate) struct Names(Vec<(&'static str, String)>);

impl Names {
    /// A text with its names.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }
}

const FOLDERS: &[&str] = &["src", "lib", "app", "core", "internal", "pkg", "services", "modules"];
const AREAS: &[&str] = &[
    "billing", "ledger", "orders", "catalog", "search", "session", "profile", "report", "export", "import",
    "queue", "mailer", "audit", "pricing", "shipping", "tax", "notify", "upload", "render", "schedule",
];
const AREAS_JA: &[&str] = &[
    "請求", "台帳", "注文", "商品", "検索", "会員", "帳票", "出力", "取込", "通知", "監査", "料金", "配送",
    "税率", "予約", "添付", "描画", "在庫",
];
const STEMS_JA: &[&str] = &[
    "ハンドラー",
    "モデル",
    "ストア",
    "クライアント",
    "ルーター",
    "ワーカー",
    "スキーマ",
    "キャッシュ",
    "インデックス",
    "ローダー",
    "アダプター",
    "ポリシー",
    "バッファ",
    "カーソル",
    "プランナー",
    "フィルター",
];
const STEMS: &[&str] = &[
    "handler", "model", "store", "client", "router", "worker", "schema", "parser", "cache", "index",
    "loader", "writer", "adapter", "policy", "mapper", "state", "buffer", "cursor", "planner", "filter",
];
const ENDINGS: &[&str] = &["py", "rs", "ts", "go", "java", "sql", "yaml", "toml", "tsx", "kt"];
const TOOLS: &[&str] = &[
    "Redis",
    "Kafka",
    "SQLite",
    "RabbitMQ",
    "Memcached",
    "DynamoDB",
    "Elasticsearch",
    "NATS",
    "MinIO",
    "ClickHouse",
    "Celery",
    "Temporal",
    "Envoy",
    "HAProxy",
    "Vault",
    "Consul",
    "Protobuf",
    "Avro",
    "Parquet",
    "MessagePack",
];
const WORDS: &[&str] = &[
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "indigo", "juniper", "krill",
    "lumen", "maple", "nectar", "onyx", "pewter", "quartz", "raven", "sable", "tundra", "umber", "velvet",
    "willow", "yarrow", "zephyr",
];
const VERBS: &[&str] =
    &["load", "save", "merge", "parse", "apply", "count", "split", "check", "fetch", "build", "trim", "emit"];
const NOUNS: &[&str] = &[
    "item", "row", "entry", "node", "value", "field", "batch", "page", "token", "frame", "chunk", "slot",
    "range", "label",
];
const MONTHS: &[&str] =
    &["January", "February", "March", "April", "May", "June", "July", "September", "October", "November"];

impl Filler {
    pub(crate) fn new(rng: &mut Rng, components: &[&'static str], japanese: bool) -> Self {
        Self {
            rng: rng.fork(),
            japanese,
            components: components.to_vec(),
            spoken: Vec::new(),
            used: Vec::new(),
            paths: Vec::new(),
        }
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        self.rng.choice(list).unwrap()
    }

    /// Something that was not there before.
    fn fresh(&mut self, make: impl Fn(&mut Self) -> String) -> String {
        loop {
            let made = make(self);
            if !self.used.contains(&made) {
                self.used.push(made.clone());
                return made;
            }
        }
    }

    /// New names.
    pub(crate) fn names(&mut self) -> Names {
        // Some are spoken of again and again.
        let again = !self.spoken.is_empty() && self.rng.u8(..3) == 0;
        let component = match self.components.len() {
            _ if again => self.rng.choice(&self.spoken).unwrap().clone(),
            0 if self.japanese => {
                self.fresh(|this| format!("{}{}", this.pick(AREAS_JA), this.pick(STEMS_JA)))
            }
            0 => self.fresh(|this| format!("the {} {}", this.pick(AREAS), this.pick(STEMS))),
            count => self.components.remove(self.rng.usize(..count)).to_owned(),
        };
        self.spoken.push(component.clone());
        let mut tools: Vec<&str> = TOOLS.to_vec();
        self.rng.shuffle(&mut tools);
        let number = |this: &mut Self| this.rng.u32(120..980).to_string();
        let port = |this: &mut Self| this.rng.u32(3100..9800).to_string();
        let letters =
            |this: &mut Self, count: usize| -> String { (0..count).map(|_| this.rng.uppercase()).collect() };
        let word = self.fresh(|this| this.pick(WORDS).to_owned() + "-" + this.pick(NOUNS));
        Names(vec![
            ("component", component),
            ("tool", tools[0].to_owned()),
            ("tool2", tools[1].to_owned()),
            ("n", self.fresh(number)),
            ("n2", self.fresh(number)),
            ("port", self.fresh(port)),
            ("port2", self.fresh(port)),
            ("code", self.fresh(|this| format!("{}-{}", letters(this, 3), this.rng.u32(1000..9999)))),
            ("ecode", self.fresh(|this| format!("E{}", this.rng.u32(1000..9999)))),
            ("ticket", self.fresh(|this| format!("{}-{}", letters(this, 4), this.rng.u32(100..9999)))),
            ("id", self.fresh(|this| format!("{}_{:08x}", this.pick(NOUNS), this.rng.u32(..)))),
            ("hash", self.fresh(|this| format!("{:010x}", this.rng.u64(..1 << 40)))),
            ("path", self.fresh(Self::path)),
            ("path2", self.fresh(Self::path)),
            ("dir", self.fresh(|this| format!("{}/{}/", this.pick(FOLDERS), this.pick(WORDS)))),
            ("host", self.fresh(|this| format!("{}-{:02}.internal", this.pick(WORDS), this.rng.u32(1..99)))),
            (
                "url",
                self.fresh(|this| format!("https://{}.example.com/{}", this.pick(WORDS), this.pick(AREAS))),
            ),
            ("name", word),
            (
                "setting",
                self.fresh(|this| format!("{}_{}", this.pick(AREAS), this.pick(STEMS)).to_uppercase()),
            ),
            ("date", self.fresh(|this| format!("{} {}", this.rng.u32(1..29), this.pick(MONTHS)))),
            ("date2", self.fresh(|this| format!("{} {}", this.rng.u32(1..29), this.pick(MONTHS)))),
            ("day", self.fresh(|this| format!("{}月{}日", this.rng.u32(1..13), this.rng.u32(1..29)))),
            ("day2", self.fresh(|this| format!("{}月{}日", this.rng.u32(1..13), this.rng.u32(1..29)))),
        ])
    }

    /// A text with new names.
    pub(crate) fn fill(&mut self, text: &str) -> String {
        self.names().fill(text)
    }

    fn path(this: &mut Self) -> String {
        let (folder, area, stem, ending) =
            (this.pick(FOLDERS), this.pick(AREAS), this.pick(STEMS), this.pick(ENDINGS));
        format!("{folder}/{area}/{}_{stem}.{ending}", this.pick(WORDS))
    }

    /// A file that does not matter, sometimes one that was looked at before.
    pub(crate) fn other_path(&mut self) -> String {
        if self.paths.len() > 12 || !self.paths.is_empty() && self.rng.bool() {
            return self.rng.choice(&self.paths).unwrap().clone();
        }
        let path = self.fresh(|this| {
            let (folder, area, stem, ending) =
                (this.pick(FOLDERS), this.pick(AREAS), this.pick(STEMS), this.pick(ENDINGS));
            format!("{folder}/{area}/{stem}.{ending}")
        });
        self.paths.push(path.clone());
        path
    }

    pub(crate) fn folder(&mut self) -> String {
        format!("{}/{}", self.pick(FOLDERS), self.pick(AREAS))
    }

    /// Lines of a program.
    pub(crate) fn code(&mut self, lines: usize) -> String {
        let mut text = String::new();
        for _ in 0..lines {
            let (verb, noun, other, stem) =
                (self.pick(VERBS), self.pick(NOUNS), self.pick(NOUNS), self.pick(STEMS));
            let line = match self.rng.u8(..10) {
                0 => format!("def {verb}_{noun}(self, {other}):"),
                1 => format!("    {noun} = self.{stem}.{verb}({other})"),
                2 => format!("    if not {noun}:\n        raise ValueError(\"no {noun} in {other}\")"),
                3 => format!("    for {noun} in {other}s:"),
                4 => format!("        {other}s.append({verb}_{noun}({noun}, limit={}))", self.rng.u32(1..50)),
                5 => format!("    # {verb} each {noun} once, the {stem} does the rest"),
                6 => format!("    return {{\"{noun}\": {noun}.{verb}(), \"{other}\": len({other}s)}}"),
                7 => format!("    log.debug(\"{verb} %s of %s\", {noun}, {other})"),
                8 => format!("class {}{}:", capital(noun), capital(stem)),
                _ => String::new(),
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// A pattern and its hits.
    pub(crate) fn grep(&mut self) -> (String, String) {
        let pattern = format!("{}_{}", self.pick(VERBS), self.pick(NOUNS));
        let mut hits = String::new();
        for _ in 0..self.rng.usize(8..40) {
            let (path, noun) = (self.other_path(), self.pick(NOUNS));
            let line = self.rng.u32(1..900);
            hits.push_str(&format!(
                "{path}:{line}:        {noun} = {pattern}({noun}, {})\n",
                self.pick(NOUNS)
            ));
        }
        (pattern, hits)
    }

    pub(crate) fn command(&mut self) -> String {
        let area = self.pick(AREAS);
        match self.rng.u8(..6) {
            0 => format!("pytest -q tests/{area}"),
            1 => format!("cargo test -p {area}"),
            2 => "npm test".to_owned(),
            3 => format!("go test ./{area}/..."),
            4 => format!("make {area}"),
            _ => format!("docker compose logs --tail 60 {area}"),
        }
    }

    /// A log with a line in it that matters, perhaps.
    pub(crate) fn log(&mut self, planted: Option<&str>) -> String {
        let count = self.rng.usize(15..60);
        let place = self.rng.usize(..count);
        let mut log = String::new();
        for at in 0..count {
            if at == place
                && let Some(line) = planted
            {
                log.push_str(line);
                log.push('\n');
            }
            let (verb, noun, area) = (self.pick(VERBS), self.pick(NOUNS), self.pick(AREAS));
            let (minute, second, milli) = (self.rng.u32(..60), self.rng.u32(..60), self.rng.u32(..1000));
            log.push_str(&match self.rng.u8(..5) {
                0 => format!("tests/{area}/test_{verb}.py::test_{verb}_{noun} PASSED\n"),
                1 => format!(
                    "10:{minute:02}:{second:02}.{milli:03} INFO  {area}: {verb} {noun} in {milli} ms\n"
                ),
                2 => format!(
                    "10:{minute:02}:{second:02}.{milli:03} DEBUG {area}: {noun} {milli} of {}\n",
                    milli + second
                ),
                3 => format!("   Compiling {area}-{noun} v0.{minute}.{second}\n"),
                _ => format!("10:{minute:02}:{second:02}.{milli:03} WARN  {area}: slow {noun}, {milli} ms\n"),
            });
        }
        if planted.is_none() {
            log.push_str(&format!("{count} passed in {}.{} s\n", self.rng.u32(1..90), self.rng.u32(..10)));
        }
        log
    }

    pub(crate) fn listing(&mut self) -> String {
        let mut text = format!("total {}\n", self.rng.u32(40..400));
        for _ in 0..self.rng.usize(10..40) {
            let (size, stem, noun, ending) =
                (self.rng.u32(100..90_000), self.pick(STEMS), self.pick(NOUNS), self.pick(ENDINGS));
            text.push_str(&format!("-rw-r--r-- 1 dev dev {size:>6} Mar 12 10:02 {noun}_{stem}.{ending}\n"));
        }
        text
    }
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}
