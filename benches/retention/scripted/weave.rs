//! Weaves the beats of a script into a session: calls of tools whose output matters to nobody, progress reports and
//! small talk stand between them. Panics if a fact is told where it should not be.

use serde_json::{Map, Value};

use super::super::session::{Fact, Session, plain, spaced};
use super::noise;
use super::rng::Rng;
use super::script::{Beat, Mark, Script, Who, World};
use super::talk::Talk;

enum Step {
    User(String),
    Model(String),
    Call {
        says: Option<String>,
        name: String,
        arguments: Vec<(String, String)>,
        noise: String,
        planted: String,
    },
}

struct Weaver<'a> {
    rng: &'a mut Rng,
    world: &'a World,
    talk: Talk,
    steps: Vec<Step>,
    /// Calls between beats, in per cent of the usual.
    density: usize,
    /// How often there is one more, for scripts with few beats.
    more: usize,
    /// Calls since the last report.
    quiet: usize,
}

pub(super) fn weave(script: &Script, number: usize) -> Session {
    let seed = u64::try_from(number).unwrap_or(0) + 8_131;
    let mut rng = Rng::new(seed);
    let world = &script.world;
    let talk = Talk::new(world, &mut rng);
    let density = rng.range(85, 130);
    let more = if world.japanese { 0 } else { 42_usize.saturating_sub(script.beats.len()) * 5 };
    let mut weaver = Weaver { rng: &mut rng, world, talk, steps: Vec::new(), density, more, quiet: 0 };
    let mut before = None;
    for beat in &script.beats {
        weaver.between(before, &beat.who);
        weaver.beat(beat);
        before = Some(&beat.who);
    }
    weaver.ending();
    let steps = weaver.steps;
    let marks: Vec<&Mark> = script.beats.iter().flat_map(|beat| &beat.marks).collect();
    let session = write(script, number, steps, &marks, &mut rng);
    verify(&session, &marks);
    session
}

impl Weaver<'_> {
    fn beat(&mut self, beat: &Beat) {
        let text = beat.text.clone();
        let step = match &beat.who {
            Who::User | Who::Request => Step::User(text),
            Who::Model => Step::Model(text),
            Who::Tool { name, arguments, noise } => Step::Call {
                says: self.says(70, None),
                name: name.clone(),
                arguments: arguments.clone(),
                noise: noise.clone(),
                planted: text,
            },
        };
        self.steps.push(step);
    }

    /// What comes between two beats, so that each turn is one that could be.
    fn between(&mut self, before: Option<&Who>, next: &Who) {
        match (before, next) {
            (None, _) | (Some(Who::Model), Who::User | Who::Request) => {}
            // The first answer says what the model is going to do.
            (Some(Who::User | Who::Request), Who::Model) if self.steps.len() == 1 => {}
            (Some(Who::User | Who::Request | Who::Tool { .. }), Who::User | Who::Request) => {
                self.calls(2, 5);
                self.report();
            }
            (Some(Who::Model), Who::Model) => self.calls(2, 3),
            (Some(Who::User | Who::Request), Who::Model) if self.rng.chance(50) => {
                // Small talk before the answer, so that what follows the answer is about the answer.
                self.calls(1, 2);
                self.report();
                self.small_talk();
                self.calls(2, 3);
            }
            (Some(Who::User | Who::Request), Who::Model) => self.calls(3, 5),
            (Some(Who::Tool { .. }), Who::Model) => self.calls(1, 2),
            (Some(_), Who::Tool { .. }) => self.calls(1, 3),
        }
    }

    fn after_model(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Model(_)))
    }

    fn says(&mut self, percent: usize, of: Option<&str>) -> Option<String> {
        // A model's text that stands right before a call is what it says with the call.
        let start = matches!(self.steps.last(), Some(Step::User(_)));
        (!self.after_model() && self.rng.chance(percent))
            .then(|| self.talk.remark(self.rng, self.world, of, start))
    }

    fn calls(&mut self, low: usize, high: usize) {
        let mut count = self.rng.range(low, high);
        if count > low && !self.rng.chance(self.density) {
            count -= 1;
        }
        count += usize::from(self.rng.chance(self.more));
        for _ in 0..count {
            let noise = self.rng.pick(&self.world.kinds).clone();
            let (name, arguments) = noise::call(&noise, self.rng, self.world);
            let is_file = name == "read_file" || name == "read_document";
            self.quiet += 1;
            let after_call = matches!(self.steps.last(), Some(Step::Call { .. }));
            let says = if after_call && self.quiet > 3 && self.rng.chance(60) {
                self.quiet = 0;
                Some(self.talk.report(self.rng, self.world))
            } else {
                self.says(88, arguments.first().filter(|_| is_file).map(|(_, value)| value.as_str()))
            };
            self.steps.push(Step::Call { says, name, arguments, noise, planted: String::new() });
        }
    }

    fn report(&mut self) {
        self.quiet = 0;
        let report = self.talk.report(self.rng, self.world);
        self.steps.push(Step::Model(report));
    }

    fn small_talk(&mut self) {
        if let Some((question, answer)) = self.talk.chat(self.rng, self.world) {
            self.steps.push(Step::User(question));
            self.steps.push(Step::Model(answer));
        }
    }

    /// The last tenth and a bit more, where nothing is planted.
    fn ending(&mut self) {
        let before = messages(&self.steps);
        self.calls(1, 2);
        self.report();
        while (messages(&self.steps) - before) * 8 < before {
            let (question, answer) = self.talk.ending(self.rng, self.world);
            self.steps.push(Step::User(question));
            self.calls(1, 2);
            self.steps.push(Step::Model(answer));
        }
    }
}

fn messages(steps: &[Step]) -> usize {
    steps.iter().map(|step| if matches!(step, Step::Call { .. }) { 2 } else { 1 }).sum()
}

/// Gives every call an output of its share of the bytes, and the steps as messages.
fn write(script: &Script, number: usize, steps: Vec<Step>, marks: &[&Mark], rng: &mut Rng) -> Session {
    let world = &script.world;
    let name = format!("{}-{number}", script.name);
    let mut session = Session::new(name, &script.system);
    let target = if world.japanese { rng.range(114_000, 156_000) } else { rng.range(153_000, 176_000) };
    let said = |step: &Step| match step {
        Step::User(text) | Step::Model(text) => text.len(),
        Step::Call { says, planted, .. } => says.as_ref().map_or(0, String::len) + planted.len() + 90,
    };
    let room = target.saturating_sub(steps.iter().map(said).sum());
    let shares: Vec<usize> = steps.iter().map(|_| rng.range(2, 10) * rng.range(3, 10)).collect();
    let is_call = |step: &&Step| matches!(step, Step::Call { .. });
    let all: usize =
        steps.iter().zip(&shares).filter(|(step, _)| is_call(step)).map(|(_, share)| share).sum();
    let mut pending: Option<String> = None;
    for (step, share) in steps.into_iter().zip(shares) {
        match step {
            Step::User(text) => {
                if let Some(text) = pending.take() {
                    session.assistant(&text);
                }
                session.user(&text);
            }
            Step::Model(text) => {
                if let Some(text) = pending.replace(text) {
                    session.assistant(&text);
                }
            }
            Step::Call { says, name, arguments, noise, planted } => {
                let size = (room * share / all).max(300);
                let output = noise::output(&noise, rng, world, &arguments, size, &planted);
                let pairs = arguments.into_iter().map(|(key, value)| (key, Value::String(value)));
                let arguments = Value::Object(pairs.collect::<Map<_, _>>());
                let says = pending.take().or(says);
                session.tool(says.as_deref(), &name, &arguments, &output);
            }
        }
    }
    if let Some(text) = pending {
        session.assistant(&text);
    }
    for mark in marks {
        let Some(kind) = mark.kind else { continue };
        let newer = marks.iter().filter(|newer| mark.old.is_some() && newer.new == mark.old);
        // What is only withdrawn is followed by the sentence that withdraws it.
        let newer = newer.map(|newer| newer.kind.map_or(&newer.sentence, |_| &newer.probe).clone());
        session.facts.push(Fact { kind, probe: mark.probe.clone(), newer: newer.collect() });
    }
    session
}

/// Panics unless each fact is told where the script tells it, and nowhere else.
fn verify(session: &Session, marks: &[&Mark]) {
    let name = &session.name;
    let texts: Vec<String> = session.messages.iter().map(|message| plain(message)).collect();
    let places = |probe: &str| -> Vec<usize> {
        let probe = spaced(probe);
        texts.iter().enumerate().filter(|(_, text)| text.contains(&probe)).map(|(at, _)| at).collect()
    };
    for mark in marks {
        let at = if mark.kind.is_some() { places(&mark.probe) } else { Vec::new() };
        if mark.kind.is_some() {
            let first = at.first().unwrap_or_else(|| panic!("{name}: {:?} is nowhere", mark.probe));
            assert!(first * 10 < texts.len() * 9, "{name}: {:?} comes late", mark.probe);
        }
        assert!(at.len() <= 1, "{name}: {:?} stands in {at:?}", mark.probe);
        let Some(label) = &mark.old else { continue };
        let newer: Vec<usize> =
            (0..marks.len()).filter(|&at| marks[at].new.as_ref() == Some(label)).collect();
        assert!(!newer.is_empty(), "{name}: nothing supersedes {:?}", mark.probe);
        for new in newer.iter().map(|&at| marks[at]) {
            let replaced = places(&new.sentence)[0];
            assert!(
                at.iter().all(|&at| at < replaced),
                "{name}: {:?} is said after {:?}",
                mark.probe,
                new.sentence
            );
        }
    }
    let old = marks.iter().filter(|mark| mark.old.is_some()).count();
    let all = marks.iter().filter(|mark| mark.kind.is_some()).count();
    let sums = format!("{name}: {} hold, {old} superseded", all - old);
    assert!((20..=26).contains(&(all - old)) && (3..=5).contains(&old), "{sums}");
    let bytes: usize = texts.iter().map(String::len).sum();
    assert!((80..=270).contains(&texts.len()), "{name}: {} messages", texts.len());
    assert!((100_000..=250_000).contains(&bytes), "{name}: {bytes} bytes");
}
