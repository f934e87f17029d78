//! What stands for `{…}` in the stories of the third generator. A name that was given once in a session is not given
//! again, so that a probe means one thing.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::{Language, Work};

const LIBRARIES: &[&str] = &[
    "pnpm",
    "Bazel",
    "Tailwind",
    "Prisma",
    "Drizzle",
    "Playwright",
    "Cypress",
    "esbuild",
    "Turborepo",
    "Fastify",
    "Gunicorn",
    "Uvicorn",
    "Poetry",
    "Ruff",
    "Mypy",
    "Polars",
    "DuckDB",
    "Airflow",
    "Dagster",
    "Prefect",
    "Terraform",
    "Pulumi",
    "Ansible",
    "Helm",
    "Kustomize",
    "Traefik",
    "Caddy",
    "Grafana",
    "Loki",
    "Jaeger",
    "Sentry",
    "Datadog",
    "Keycloak",
    "Okta",
    "Stripe",
    "Adyen",
    "Twilio",
    "Mailgun",
    "Snowflake",
    "BigQuery",
    "Trino",
    "Druid",
];
const WORDS: &[&str] = &[
    "otter", "plover", "marten", "heron", "badger", "lynx", "osprey", "weasel", "curlew", "bison", "gecko",
    "ibis", "jackal", "kestrel", "lemur", "mantis", "newt", "oriole", "puffin", "quail", "raccoon", "stoat",
    "tapir", "urchin", "viper", "walrus", "yak", "zebu", "civet", "dingo", "egret", "ferret",
];
const PARTS: &[&str] = &[
    "intake",
    "quota",
    "roster",
    "digest",
    "ledgerline",
    "beacon",
    "relay",
    "vault",
    "canary",
    "replay",
    "snapshot",
    "gauge",
    "courier",
    "mirror",
    "shard",
    "outbox",
    "cohort",
    "voucher",
    "banner",
    "webhook",
    "tariff",
    "manifest",
];
const ROOTS: &[&str] =
    &["cmd", "charts", "infra", "packages", "apps", "ops", "deploy", "crates", "web", "jobs"];
const ENDINGS: &[&str] = &["go", "tf", "yaml", "ts", "py", "rs", "sql", "proto", "toml", "sh"];
const MONTHS: &[&str] =
    &["January", "February", "March", "April", "May", "June", "July", "August", "October", "November"];
const WEEKDAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const WEEKDAYS_JA: &[&str] = &["月曜", "火曜", "水曜", "木曜", "金曜", "土曜", "日曜"];
const FAULTS: &[&str] =
    &["TIMEOUT", "QUOTA", "AUTH", "SCHEMA", "LOCK", "PARSE", "STATE", "RANGE", "CHECKSUM", "QUORUM"];

/// The names of one session.
pub(crate) struct Names {
    rng: Rng,
    japanese: bool,
    people: Vec<&'static str>,
    places: Vec<&'static str>,
    services: Vec<&'static str>,
    used: BTreeSet<String>,
    /// Those of the story that is told.
    story: BTreeMap<String, String>,
}

impl Names {
    pub(crate) fn new(rng: &mut Rng, language: &Language, work: &Work) -> Self {
        let mut rng = rng.fork();
        let mut shuffled = |list: &[&'static str]| {
            let mut list = list.to_vec();
            rng.shuffle(&mut list);
            list
        };
        let (people, places, services) =
            (shuffled(language.people), shuffled(language.places), shuffled(work.services));
        let japanese = language.code == "ja";
        Self { rng, japanese, people, places, services, used: BTreeSet::new(), story: BTreeMap::new() }
    }

    /// Another story begins, with names of its own.
    pub(crate) fn begin(&mut self) {
        self.story.clear();
    }

    /// A text with its names: `{port}` and `{port2}` are two ports, the same all through a story.
    pub(crate) fn fill(&mut self, text: &str) -> String {
        let mut made = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((name, after)) = behind.split_once('}').filter(|(name, _)| is_slot(name)) else {
                made.push_str(before);
                made.push('{');
                rest = behind;
                continue;
            };
            made.push_str(before);
            if !self.story.contains_key(name) {
                let value = self.fresh(name.trim_end_matches(|c: char| c.is_ascii_digit()));
                self.story.insert(name.to_owned(), value);
            }
            made.push_str(&self.story[name]);
            rest = after;
        }
        // Some services have an article of their own.
        (made + rest).replace("the the ", "the ").replace("The the ", "The ")
    }

    fn fresh(&mut self, kind: &str) -> String {
        // Of people, places and services there are only so many.
        let of_list = match kind {
            "person" => Some(&mut self.people),
            "place" => Some(&mut self.places),
            "svc" => Some(&mut self.services),
            _ => None,
        };
        if let Some(list) = of_list {
            let first = list.remove(0);
            list.push(first);
            return first.to_owned();
        }
        loop {
            let made = self.make(kind);
            if self.used.insert(made.clone()) {
                return made;
            }
        }
    }

    fn make(&mut self, kind: &str) -> String {
        let Self { rng, japanese, .. } = self;
        let word = *rng.choice(WORDS).unwrap();
        let part = *rng.choice(PARTS).unwrap();
        match kind {
            "port" => rng.u32(2100..9900).to_string(),
            "n" => rng.u32(112..990).to_string(),
            "big" => format!("{}", rng.u32(11..99) * 1000 + rng.u32(1..9) * 100),
            "ver" => format!("{}.{}.{}", rng.u32(1..9), rng.u32(1..30), rng.u32(0..12)),
            "lib" => (*rng.choice(LIBRARIES).unwrap()).to_owned(),
            "path" => {
                let (root, ending) = (rng.choice(ROOTS).unwrap(), rng.choice(ENDINGS).unwrap());
                format!("{root}/{part}/{word}.{ending}")
            }
            "dir" => format!("{}/{word}/", rng.choice(ROOTS).unwrap()),
            "host" => format!("{word}-{}.{part}.lan", rng.u32(1..40)),
            "url" => format!("https://{part}.{word}.dev/v{}", rng.u32(1..9)),
            "date" if *japanese => format!("{}月{}日", rng.u32(1..13), rng.u32(1..29)),
            "date" => format!("{} {}", rng.choice(MONTHS).unwrap(), rng.u32(1..29)),
            "day" if *japanese => format!("{}の{}時", rng.choice(WEEKDAYS_JA).unwrap(), rng.u32(6..23)),
            "day" => format!("{} at {}:{}0", rng.choice(WEEKDAYS).unwrap(), rng.u32(6..23), rng.u32(0..6)),
            "time" => format!("{:02}:{}{}", rng.u32(0..24), rng.u32(0..6), rng.u32(1..9)),
            "id" => format!("{}-{:06x}", &part[..3], rng.u32(..1 << 24)),
            "sha" => format!("{:08x}", rng.u32(0x1000_0000..)),
            "tick" => format!("{}-{}", word.to_uppercase(), rng.u32(100..9999)),
            "err" => format!("{}_{}", rng.choice(FAULTS).unwrap(), rng.u32(100..9999)),
            "flag" => format!("{word}_{part}_v{}", rng.u32(2..9)),
            "env" => format!("{}_{}", word.to_uppercase(), part.to_uppercase()),
            "bucket" => format!("s3://{word}-{part}-{}", rng.u32(10..99)),
            "branch" => format!("feat/{word}-{part}"),
            "table" => format!("{word}_{part}"),
            "size" => format!("r{}.{}xlarge", rng.u32(5..8), rng.u32(2..24)),
            other => panic!("no name is a {other}"),
        }
    }
}

fn is_slot(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}
