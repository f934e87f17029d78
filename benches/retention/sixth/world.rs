//! What a session's noise is made of: pools of lines and blocks, and the slots in them that are filled by chance.

use std::collections::BTreeMap;

use super::rng::Rng;
use super::script::Script;

/// Lines or blocks of text by name.
///
/// `=== name` starts a pool with an entry in each line, `=== name blocks` one whose entries end with `---`.
#[derive(Debug, Default)]
pub(super) struct Pools(BTreeMap<String, Vec<String>>);

impl Pools {
    pub(super) fn parse(texts: &[&str]) -> Self {
        let mut pools = Self::default();
        for text in texts {
            for part in format!("\n{text}").split("\n=== ").skip(1) {
                let (head, body) = part.split_once('\n').unwrap_or((part, ""));
                let entries: Vec<String> = match head.strip_suffix(" blocks") {
                    Some(_) => {
                        body.split("\n---\n").map(|entry| entry.trim_matches('\n').to_owned()).collect()
                    }
                    None => body.lines().map(|line| line.replace("\\n", "\n")).collect(),
                };
                let entries = entries.into_iter().filter(|entry| !entry.trim().is_empty());
                let name = head.trim_end_matches(" blocks").trim();
                pools.0.entry(name.to_owned()).or_default().extend(entries);
            }
        }
        pools
    }

    /// Panics if there is no such pool.
    pub(super) fn get(&self, name: &str) -> &[String] {
        self.0.get(name).unwrap_or_else(|| panic!("no pool {name:?}"))
    }
}

/// Values that slots got already, by what stands in the slot.
pub(super) type Known = BTreeMap<String, String>;

/// One session's surroundings.
#[derive(Debug)]
pub(super) struct World<'a> {
    pub(super) script: &'a Script,
    pub(super) pools: &'a Pools,
    pub(super) rng: Rng,
    /// The service that this session is about.
    service: String,
    people: Vec<String>,
    /// Seconds since midnight, for logs.
    clock: usize,
    day: usize,
    /// Entries that are not said twice in a session.
    said: BTreeMap<String, Vec<usize>>,
}

impl<'a> World<'a> {
    pub(super) fn new(script: &'a Script, pools: &'a Pools, which: usize, mut rng: Rng) -> Self {
        let mut people = pools.get("people").to_vec();
        rng.shuffle(&mut people);
        people.truncate(7);
        let service = script.services[which % script.services.len()].clone();
        let (clock, day) = (rng.between(7 * 3600, 15 * 3600), rng.between(1, 26));
        Self { script, pools, rng, service, people, clock, day, said: BTreeMap::new() }
    }

    /// An entry of a pool with its slots filled; no entry comes again before all of them were used.
    pub(super) fn say(&mut self, pool: &str) -> String {
        let pools = self.pools;
        let entries = pools.get(pool);
        if self.said.get(pool).is_none_or(Vec::is_empty) {
            let mut order: Vec<usize> = (0..entries.len()).collect();
            self.rng.shuffle(&mut order);
            self.said.insert(pool.to_owned(), order);
        }
        let next = self.said.get_mut(pool).and_then(Vec::pop).unwrap_or_default();
        self.fill(&entries[next], &mut Known::new())
    }

    /// So many entries of a pool, each with its own values.
    pub(super) fn noise(&mut self, pool: &str, count: usize) -> String {
        let pools = self.pools;
        let entries = pools.get(pool);
        let blocks = entries.iter().any(|entry| entry.contains('\n'));
        let mut last = usize::MAX;
        let mut parts = Vec::new();
        for _ in 0..count {
            let mut next = self.rng.below(entries.len());
            if next == last {
                next = self.rng.below(entries.len());
            }
            last = next;
            parts.push(self.fill(&entries[next], &mut Known::new()));
        }
        parts.join(if blocks { "\n\n" } else { "\n" })
    }

    /// A text with its slots filled. The same slot gets the same value, by way of `known`.
    pub(super) fn fill(&mut self, text: &str, known: &mut Known) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('«') {
            let (slot, after) = after.split_once('»').unwrap_or((after, ""));
            filled.push_str(before);
            let kind = slot.split(' ').next().unwrap_or(slot);
            let value = match known.get(slot) {
                Some(value) => value.clone(),
                None => self.value(kind),
            };
            // Time goes on even within one text.
            if kind != "ts" {
                known.insert(slot.to_owned(), value.clone());
            }
            filled.push_str(&value);
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn value(&mut self, kind: &str) -> String {
        if let Some(length) = kind.strip_prefix("hex").and_then(|digits| digits.parse().ok()) {
            return self.letters("0123456789abcdef", length);
        }
        if let Some(length) = kind.strip_prefix('n').and_then(|digits| digits.parse().ok()) {
            return self.digits(length);
        }
        match kind {
            "noun" => self.rng.pick(&self.script.nouns).clone(),
            "Noun" => {
                let noun: &String = self.rng.pick(&self.script.nouns);
                capital(noun)
            }
            "svc" => self.service.clone(),
            "person" => self.rng.pick(&self.people).clone(),
            "code" => self.script.code.clone(),
            "ticket" => format!("{}-{}", self.script.prefix, self.rng.between(1000, 9899)),
            "upper" => self.letters("ABCDEFGHJKLMNPQRSTUVWXYZ", 3),
            "uuid" => {
                let hex = "0123456789abcdef";
                let parts = [8, 4, 4, 4, 12].map(|length| self.letters(hex, length));
                parts.join("-")
            }
            "ip" => {
                let parts = [self.rng.below(250), self.rng.below(250), self.rng.between(2, 250)];
                format!("10.{}.{}.{}", parts[0], parts[1], parts[2])
            }
            "port" => self.rng.between(3100, 48900).to_string(),
            "date" => format!("2025-{:02}-{:02}", self.rng.between(1, 12), self.rng.between(1, 28)),
            "hm" => format!("{:02}:{:02}", self.rng.between(0, 23), self.rng.between(0, 59)),
            "pct" => format!("{}.{}", self.rng.between(1, 98), self.rng.below(10)),
            "ver" => {
                let parts = [self.rng.between(1, 9), self.rng.below(30), self.rng.below(14)];
                format!("{}.{}.{}", parts[0], parts[1], parts[2])
            }
            "ts" => self.time(),
            "file" => self.file(),
            _ => {
                let pools = self.pools;
                let entry = self.rng.pick(pools.get(kind));
                self.fill(entry, &mut Known::new())
            }
        }
    }

    fn letters(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| *self.rng.pick(&alphabet)).collect()
    }

    fn digits(&mut self, length: usize) -> String {
        let first = self.letters("123456789", 1);
        first + &self.letters("0123456789", length.saturating_sub(1))
    }

    fn time(&mut self) -> String {
        self.clock += self.rng.below(9);
        let (hour, minute, second) = (self.clock / 3600 % 24, self.clock / 60 % 60, self.clock % 60);
        format!("2025-11-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", self.day, self.rng.below(1000))
    }

    /// The path of some file of the project, of no importance.
    fn file(&mut self) -> String {
        let pools = self.pools;
        let (directory, stem) = (self.rng.pick(pools.get("dirs")), self.rng.pick(pools.get("stems")));
        let noun = self.rng.pick(&self.script.nouns);
        let ending = match self.script.code.as_str() {
            "python" => "py",
            "typescript" => "ts",
            "rust" => "rs",
            other => other,
        };
        format!("{directory}/{noun}/{noun}_{stem}.{ending}")
    }
}

fn capital(word: &str) -> String {
    let parts = word.split(['_', '-']).map(|part| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    });
    parts.collect()
}
