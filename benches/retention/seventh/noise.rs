//! Makes the text that matters to nobody: outputs of tools, filled from templates with words of the session's topic.

use super::{rng::Rng, script::Topic};

const TEMPLATES: [&str; 4] = [
    include_str!("text/code.txt"),
    include_str!("text/logs.txt"),
    include_str!("text/data.txt"),
    include_str!("text/papers.txt"),
];
const PROSE: [&str; 2] = [include_str!("text/prose_en.txt"), include_str!("text/prose_ja.txt")];
const TALK: [&str; 2] = [include_str!("text/talk_en.txt"), include_str!("text/talk_ja.txt")];
const SAID: [&str; 2] = [include_str!("text/said_en.txt"), include_str!("text/said_ja.txt")];
const VERBS: [&str; 24] = [
    "load", "apply", "merge", "resolve", "flush", "parse", "validate", "build", "fetch", "store", "refresh",
    "split", "render", "queue", "check", "collect", "prune", "encode", "find", "update", "list", "register",
    "sync", "close",
];

/// Fills templates for one session.
pub(super) struct Noise<'a> {
    topic: &'a Topic,
    /// Seconds of the session's day, for logs that go on.
    clock: usize,
    day: usize,
    prose: Vec<&'a str>,
    /// Remarks that were made not long ago, and the topic's last noun.
    recent: Vec<&'static str>,
    noun: String,
    person: String,
}

impl<'a> Noise<'a> {
    pub(super) fn new(topic: &'a Topic, rng: &mut Rng) -> Self {
        let mut prose: Vec<&str> = PROSE[usize::from(topic.japanese)].lines().collect();
        // The topic's own sentences come up more often than the general ones.
        (0..6).for_each(|_| prose.extend(topic.prose.iter().map(String::as_str)));
        let clock = topic.clock.unwrap_or(rng.between(28_000, 50_000));
        Self {
            topic,
            clock,
            day: rng.between(1, 28),
            prose,
            recent: Vec::new(),
            noun: String::new(),
            person: String::new(),
        }
    }

    /// About so many bytes of a kind of text, with some lines in its second half.
    pub(super) fn text(&mut self, kind: &str, bytes: usize, lines: &[String], rng: &mut Rng) -> String {
        let (blocks, opening, gap) = self.section(kind);
        let mut out = opening.map(|opening| self.fill(opening, rng) + gap).unwrap_or_default();
        let split = bytes * rng.between(45, 85) / 100;
        self.add_blocks(&blocks, gap, split, &mut out, rng);
        // A line of a log that has no time of its own gets one.
        let stamp = |line: &&String| {
            if kind == "log" && line.starts_with("[[") { "{D}T{t}.{ms}Z ERROR " } else { "" }
        };
        let stamped: Vec<String> = lines.iter().map(|line| format!("{}{line}", stamp(&line))).collect();
        let filled: Vec<String> = stamped.iter().map(|line| self.fill(line, rng)).collect();
        if kind == "json" {
            // A field of the last object.
            let at = out.rfind("\n  },").unwrap_or(out.len());
            filled.iter().for_each(|line| out.insert_str(at, &format!("\n{}", line.trim_end_matches(','))));
            if !filled.is_empty() {
                out.insert(at, ',');
            }
        } else {
            filled.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        }
        self.add_blocks(&blocks, gap, bytes, &mut out, rng);
        out.truncate(out.trim_end().len());
        out
    }

    fn add_blocks(&mut self, blocks: &[&str], gap: &str, bytes: usize, out: &mut String, rng: &mut Rng) {
        let mut last = usize::MAX;
        while out.len() < bytes {
            let at = rng.between(0, blocks.len() - 1);
            if at == last && blocks.len() > 1 {
                continue;
            }
            last = at;
            out.push_str(&self.fill(blocks[at], rng));
            out.push_str(gap);
        }
    }

    /// The templates of a kind, the line that opens it, and what stands between two of them.
    fn section(&self, kind: &str) -> (Vec<&'static str>, Option<&'static str>, &'static str) {
        let kind = if kind == "code" { self.topic.ext.as_str() } else { kind };
        let own = format!("{kind}-{}", if self.topic.japanese { "ja" } else { "en" });
        let sections = || TEMPLATES.iter().flat_map(|text| text.split("\n=== ").skip(1));
        let named = |name: &str| {
            sections().find_map(|text| {
                let (head, body) = text.split_once('\n')?;
                let (first, style) = head.split_once(' ')?;
                (first == name).then_some((style, body))
            })
        };
        let (style, body) =
            named(&own).or_else(|| named(kind)).unwrap_or_else(|| panic!("no noise of kind {kind:?}"));
        let end = if style.trim() == "lines" { "\n" } else { "\n%\n" };
        let (opening, body) = match body.strip_prefix("^ ").and_then(|body| body.split_once(end)) {
            Some((opening, body)) => (Some(opening), body),
            None => (None, body),
        };
        match style.trim() {
            "lines" => (body.lines().filter(|line| !line.is_empty()).collect(), opening, "\n"),
            "tight" => (body.split("\n%\n").map(str::trim_end).collect(), opening, "\n"),
            _ => (body.split("\n%\n").map(str::trim_end).collect(), opening, "\n\n"),
        }
    }

    /// A remark that matters to nobody.
    pub(super) fn talk(&mut self, kind: &str, rng: &mut Rng) -> String {
        self.one_of(TALK, kind, rng).replace("\\n", "\n")
    }

    /// A line of a section of the texts in both languages, filled.
    fn one_of(&mut self, texts: [&'static str; 2], section: &str, rng: &mut Rng) -> String {
        let text = texts[usize::from(self.topic.japanese)];
        let lines = text.split("=== ").find_map(|part| part.strip_prefix(section)).unwrap();
        let lines: Vec<&str> = lines.lines().filter(|line| !line.trim().is_empty()).collect();
        let fresh: Vec<&str> = lines.iter().filter(|line| !self.recent.contains(line)).copied().collect();
        let line = *rng.one(if fresh.is_empty() { &lines } else { &fresh });
        self.recent.push(line);
        if self.recent.len() > 40 {
            self.recent.remove(0);
        }
        self.fill(line, rng)
    }

    /// The template with its `{slots}` filled.
    pub(super) fn fill(&mut self, template: &str, rng: &mut Rng) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let slot = after.split_once('}').filter(|(name, _)| name.len() < 4);
            match slot.and_then(|(name, after)| Some((self.slot(name, rng)?, after))) {
                Some((value, after)) => {
                    out.push_str(&value);
                    rest = after;
                }
                None => {
                    out.push('{');
                    rest = after;
                }
            }
        }
        out + rest
    }

    fn slot(&mut self, name: &str, rng: &mut Rng) -> Option<String> {
        let topic = self.topic;
        Some(match name {
            "w" => rng.one(&topic.words).clone(),
            "W" => pascal(rng.one(&topic.words).as_str()),
            "U" => rng.one(&topic.words).to_uppercase(),
            "v" => (*rng.one(&VERBS)).to_owned(),
            "n" => {
                self.noun = other_than(&self.noun, &topic.nouns, rng);
                self.noun.clone()
            }
            "p" => {
                self.person = other_than(&self.person, &topic.people, rng);
                self.person.clone()
            }
            "k" => rng.between(2, 60).to_string(),
            "kk" => rng.between(101, 2900).to_string(),
            "K" => rng.between(10_000, 990_000).to_string(),
            "x" => format!("{}.{:02}", rng.between(0, 99), rng.between(0, 99)),
            "h" => format!("{:08x}", rng.next() & 0xffff_ffff),
            "u" => {
                let (high, low) = (rng.next(), rng.next());
                let (one, two, last) = (high >> 32, high & 0xffff, low >> 16);
                format!("{one:08x}-{two:04x}-4{:03x}-a{:03x}-{last:012x}", low & 0xfff, high >> 16 & 0xfff)
            }
            "ip" => format!("10.{}.{}.{}", rng.between(0, 80), rng.between(0, 255), rng.between(1, 254)),
            "D" => format!("2026-05-{:02}", self.day),
            "d" => format!("2026-{:02}-{:02}", rng.between(1, 6), rng.between(1, 28)),
            "t" => {
                self.clock += rng.between(0, 9);
                let of_day = self.clock % 86_400;
                format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
            }
            "ms" => format!("{:03}", rng.between(0, 999)),
            "l" => {
                (*rng.one(&["INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"])).to_owned()
            }
            "st" => (*rng.one(&["open", "closed", "in_review", "done", "waiting", "draft"])).to_owned(),
            "f" => format!("{}/{}.{}", rng.one(&topic.dirs), self.stem(rng), topic.ext),
            "g" => rng.one(&topic.dirs).clone(),
            "s" => {
                let template = *rng.one(&self.prose);
                sentence(&self.fill(template, rng))
            }
            // What a person or the model might remark, and what a comment in code might say.
            "r" => sentence(&self.one_of(SAID, "remarks", rng)),
            "c" => self.one_of(SAID, "comments", rng),
            "ss" | "rr" => {
                let count = rng.between(2, 5);
                let gap = if topic.japanese { "" } else { " " };
                (0..count).filter_map(|_| self.slot(&name[1..], rng)).collect::<Vec<_>>().join(gap)
            }
            _ => return None,
        })
    }

    fn stem(&self, rng: &mut Rng) -> String {
        let word = rng.one(&self.topic.words);
        match rng.between(0, 3) {
            0 => word.clone(),
            1 => format!("{word}_{}", rng.one(&VERBS)),
            2 => format!("{}_{word}", rng.one(&VERBS)),
            _ => format!("{word}_{}", rng.one(&self.topic.words)),
        }
    }
}

/// One of them, but not the same twice.
fn other_than(last: &str, of: &[String], rng: &mut Rng) -> String {
    let others: Vec<&String> = of.iter().filter(|one| *one != last).collect();
    (*rng.one(&others)).clone()
}

/// With a capital at its start.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    // Japanese sentences that begin with a Latin word stay as they are.
    if !text.is_ascii() {
        return text.to_owned();
    }
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn pascal(word: &str) -> String {
    word.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}
