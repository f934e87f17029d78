//! Owns the language of the scripts, and how a script becomes a session: beats, alternatives, slots, facts, and the
//! tool outputs that lie between them.
//!
//! A script opens with a header of `name: value` lines. After it every line is a beat:
//! `U` (user), `A` (assistant), `T kind[@path] [~ words of the assistant] ⇒ what the output holds`. A `+` before the
//! letter lets nothing lie between it and the beat before; `?` makes the beat optional, `?1` together with all of `?1`.
//!
//! In a text: `‹a¦b›` is one of them, `«name=pattern»` a value that stays the same in the session, `⟪log⟫` a pasted
//! output, `⟦C words⟧` a fact (C, D, P, E, I), `⟦C-1 words⟧` one that will be superseded, by `⟦C=1 words⟧`.

use std::collections::BTreeMap;

use super::super::session::{Kind, Session, plain, spaced};

use super::chat;
use super::dice::Dice;
use super::noise::{self, Kit};

/// A session as it is being made.
struct Stage<'a> {
    dice: Dice,
    kit: Kit<'a>,
    style: &'a str,
    slots: BTreeMap<String, String>,
    session: Session,
    /// Probes that wait for what supersedes them, by their key.
    open: BTreeMap<String, String>,
    /// Superseded probes, with the message that superseded them.
    closed: Vec<(usize, String)>,
    /// Probes which superseded something.
    newer: Vec<String>,
}

/// What a line of a script says.
struct Beat<'a> {
    attached: bool,
    role: char,
    text: &'a str,
}

/// Plays a script.
pub(super) fn play(script: &str, number: usize, seed: u64) -> Session {
    let header = |name: &str| {
        let line = script.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default()
    };
    let ja = header("speaks") == "ja";
    let name = format!("{}4-{}-{number}", if ja { "ja" } else { "en" }, header("work"));
    // Japanese work has more prose in it.
    let prose =
        ["minutes", "page", "minutes", "page", "minutes", "page"].into_iter().take(if ja { 6 } else { 1 });
    let mut stage = Stage {
        dice: Dice::new(seed),
        kit: Kit {
            ja,
            lang: header("lang"),
            nouns: header("nouns").split(' ').collect(),
            dirs: header("dirs").split(' ').collect(),
            services: header("services").split(' ').collect(),
            words: header("words").split(' ').collect(),
            kinds: header("kinds").split(' ').chain(prose).collect(),
        },
        style: header("style"),
        slots: BTreeMap::new(),
        session: Session::new(name, header("system")),
        open: BTreeMap::new(),
        closed: Vec::new(),
        newer: Vec::new(),
    };
    let beats = stage.beats(script);
    let target = if ja { stage.dice.range(62_000, 90_000) } else { stage.dice.range(122_000, 168_000) };
    let gaps = beats.iter().filter(|beat| !beat.attached).count() + 4;
    let said: usize = beats.iter().map(|beat| stage.kit.weight(beat.text)).sum();
    let outputs = beats.iter().filter(|beat| beat.role == 'T').count() * if ja { 1_500 } else { 2_500 };
    let gap = target.saturating_sub(said + outputs) / gaps;
    for (at, beat) in beats.iter().enumerate() {
        if !beat.attached && at > 0 {
            stage.gap(gap);
        }
        stage.beat(beat);
    }
    stage.gap(gap);
    stage.end();
    stage.gap(gap * 3);
    stage.finish()
}

impl Stage<'_> {
    /// The beats of a script which this session has.
    fn beats<'b>(&mut self, script: &'b str) -> Vec<Beat<'b>> {
        let mut groups: BTreeMap<char, bool> = BTreeMap::new();
        let mut beats = Vec::new();
        for line in script.lines() {
            let mut rest = line;
            if let Some(optional) = line.strip_prefix('?') {
                let group = optional.chars().next().filter(char::is_ascii_digit);
                let kept = self.dice.chance(72);
                let kept = group.map_or(kept, |group| *groups.entry(group).or_insert(kept));
                if !kept {
                    continue;
                }
                rest = optional.trim_start_matches(|c: char| c.is_ascii_digit());
            }
            let attached = rest.starts_with('+');
            let rest = rest.trim_start_matches('+');
            let Some((role, text)) = rest.split_once(' ') else { continue };
            if let "U" | "A" | "T" = role {
                beats.push(Beat { attached, role: role.chars().next().unwrap_or('A'), text });
            }
        }
        beats
    }

    /// One beat, said.
    fn beat(&mut self, beat: &Beat<'_>) {
        let at = self.session.messages.len();
        match beat.role {
            'U' => {
                let text = self.render(beat.text, at);
                let text = if self.dice.chance(22) { self.wrapped_user(&text) } else { text };
                self.session.user(&text);
            }
            'A' => {
                let text = self.render(beat.text, at);
                let text = if self.dice.chance(40) { self.wrapped_assistant(&text) } else { text };
                self.session.assistant(&text);
            }
            _ => self.output(beat.text, at),
        }
    }

    fn wrapped_user(&mut self, text: &str) -> String {
        let filler = chat::user(&mut self.dice, &self.kit, self.style);
        if self.dice.chance(50) { format!("{filler}\n{text}") } else { format!("{text}\n{filler}") }
    }

    fn wrapped_assistant(&mut self, text: &str) -> String {
        let before = chat::finding(&mut self.dice, &self.kit);
        let after = chat::step(&mut self.dice, &self.kit);
        match self.dice.below(3) {
            0 => format!("{before}\n\n{text}"),
            1 => format!("{before}{}{text}{}{after}", self.joint(), self.joint()),
            _ => format!("{text}\n\n{after}"),
        }
    }

    fn joint(&mut self) -> &'static str {
        if self.dice.chance(30) {
            "\n"
        } else if self.kit.ja {
            ""
        } else {
            " "
        }
    }

    /// A tool call whose output holds something that matters.
    fn output(&mut self, text: &str, at: usize) {
        let (head, planted) = text.split_once('⇒').unwrap_or((text, ""));
        let (kind, says) = head.split_once('~').map_or((head, None), |(kind, says)| (kind, Some(says)));
        let kind = self.render(kind.trim(), at);
        let (kind, path) =
            kind.split_once('@').map_or((kind.as_str(), None), |(kind, path)| (kind, Some(path)));
        let says = says.map(|says| self.render(says.trim(), at));
        let planted = self.render(planted.trim(), at + 1);
        let size = if self.kit.ja { self.dice.range(600, 2_400) } else { self.dice.range(900, 4_200) };
        let call = noise::call(&mut self.dice, &self.kit, kind, path, &planted, size);
        self.session.tool(says.as_deref(), call.tool, &call.arguments, &call.result);
    }

    /// What lies between two beats: outputs of about `size`, and talk that says nothing.
    fn gap(&mut self, size: usize) {
        let mut left = size * self.dice.range(55, 146) / 100;
        while left > 200 {
            if self.dice.chance(9) {
                let text = chat::user(&mut self.dice, &self.kit, self.style);
                self.session.user(&text);
            }
            let most = if self.kit.ja { 3_200 } else { 6_400 };
            let size = self.dice.range(most / 8, most).min(left);
            let kinds = self.kit.kinds.clone();
            let kind = self.dice.pick(&kinds);
            let call = noise::call(&mut self.dice, &self.kit, kind, None, "", size);
            let says = self.dice.chance(65).then(|| chat::step(&mut self.dice, &self.kit));
            self.session.tool(says.as_deref(), call.tool, &call.arguments, &call.result);
            left = left.saturating_sub(self.kit.weight(&call.result));
            if self.dice.chance(76) {
                let text = chat::finding(&mut self.dice, &self.kit);
                self.session.assistant(&text);
            }
        }
    }

    /// Talk near the end.
    fn end(&mut self) {
        let text = chat::user(&mut self.dice, &self.kit, self.style);
        self.session.user(&text);
        let text = chat::finding(&mut self.dice, &self.kit);
        self.session.assistant(&text);
    }

    /// A text with its marks resolved, said in message `at`. Plants its facts.
    fn render(&mut self, text: &str, at: usize) -> String {
        let mut text = text.replace("\\n", "\n");
        while let Some((before, inner, after)) = marked(&text, '‹', '›') {
            let options: Vec<&str> = inner.split('¦').collect();
            text = format!("{before}{}{after}", self.dice.pick(&options));
        }
        while let Some((before, inner, after)) = marked(&text, '«', '»') {
            let value = self.slot(inner);
            text = format!("{before}{value}{after}");
        }
        while let Some((before, inner, after)) = marked(&text, '⟦', '⟧') {
            let (mark, probe) = inner.split_once(' ').unwrap_or(("D", inner));
            self.plant(mark, probe, at);
            text = format!("{before}{probe}{after}");
        }
        while let Some((before, kind, after)) = marked(&text, '⟪', '⟫') {
            let size = if self.kit.ja { 700 } else { 1_400 };
            let call = noise::call(&mut self.dice, &self.kit, kind, None, "", size);
            text = format!("{before}{}{after}", call.result);
        }
        text
    }

    /// The value of a slot: `name`, or `name=pattern` where it is first told.
    fn slot(&mut self, slot: &str) -> String {
        let (name, spec) = slot.split_once('=').unwrap_or((slot, ""));
        if let Some(value) = self.slots.get(name) {
            return value.clone();
        }
        assert!(!spec.is_empty(), "{}: slot {name} has no value", self.session.name);
        let value = if spec.contains(',') {
            let options: Vec<&str> = spec.split(',').collect();
            let option = self.dice.pick(&options);
            self.dice.pattern(option)
        } else if let Some((low, high)) = spec.split_once("..") {
            self.dice.range(low.parse().unwrap_or(1), high.parse().unwrap_or(9)).to_string()
        } else {
            self.dice.pattern(spec)
        };
        self.slots.insert(name.to_owned(), value.clone());
        value
    }

    fn plant(&mut self, mark: &str, probe: &str, at: usize) {
        let kind = match mark.chars().next() {
            Some('C') => Kind::Constraint,
            Some('P') => Kind::Path,
            Some('E') => Kind::Error,
            Some('I') => Kind::Id,
            _ => Kind::Decision,
        };
        if let Some((_, key)) = mark.split_once('-') {
            self.open.insert(key.to_owned(), probe.to_owned());
            self.session.superseded(kind, probe);
            return;
        }
        if let Some((_, key)) = mark.split_once('=') {
            let old = self.open.remove(key);
            assert!(old.is_some(), "{}: nothing for {probe:?} to supersede", self.session.name);
            self.closed.extend(old.map(|old| (at, old)));
            self.newer.push(probe.to_owned());
        }
        self.session.fact(kind, probe);
    }

    /// Asks for at most 26 facts that hold: of the others it is only said what was said.
    fn thin(&mut self) {
        let most = self.dice.range(21, 27);
        loop {
            let facts = &self.session.facts;
            let holding = facts.iter().filter(|fact| !fact.superseded).count();
            let plain = |at: &usize| {
                facts.get(*at).is_some_and(|fact| !fact.superseded && !self.newer.contains(&fact.probe))
            };
            let spare: Vec<usize> = (0..facts.len()).filter(plain).collect();
            // Rather late ones.
            let at = (0..3).map(|_| self.dice.below(spare.len())).max().unwrap_or(0);
            let chosen = spare.get(at).copied();
            let Some(chosen) = chosen.filter(|_| holding > most) else { return };
            self.session.facts.remove(chosen);
        }
    }

    /// The session. Panics if something superseded is told after what superseded it.
    fn finish(mut self) -> Session {
        self.thin();
        assert!(self.open.is_empty(), "{}: {:?} are not superseded", self.session.name, self.open);
        let texts: Vec<String> = self.session.messages.iter().map(|message| plain(message)).collect();
        for (at, old) in &self.closed {
            let old = spaced(old);
            let again = texts.iter().skip(*at).any(|text| text.contains(&old));
            assert!(!again, "{}: {old:?} is told again", self.session.name);
        }
        self.session
    }
}

/// The first text between two marks, with what stands before and after it.
fn marked(text: &str, open: char, close: char) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(open)?;
    let (inner, after) = rest.split_once(close)?;
    Some((before, inner, after))
}
