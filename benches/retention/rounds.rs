//! Coding sessions of six requests, each with as much work as the window has room for, compressed after each.
//!
//! After each round the view must still have the goal, the request that is worked on, and every instruction of the
//! user that holds. The sessions are scripts (`rounds/*.txt`, see [`super::scripted::script`]); the work between what
//! people say is noise.

use serde_json::{Map, Value};

use super::door::{self, Door};
use super::score::Way;
use super::scripted::noise;
use super::scripted::rng::Rng;
use super::scripted::script::{self, Beat, Script, Who};
use super::scripted::talk::Talk;
use super::session::{Fact, Kind, Session, plain, text_of};
use super::state::State;

/// Windows that are measured, in tokens.
pub(crate) const WINDOWS: [u64; 4] = [8_000, 16_000, 32_000, 128_000];
const ROUNDS: usize = 6;
/// A round ends when the view has this share of the window, in percent.
const FULL: u64 = 80;

const SCRIPTS: &[&str] = &[
    include_str!("rounds/en_search.txt"),
    include_str!("rounds/en_flags.txt"),
    include_str!("rounds/en_billing.txt"),
    include_str!("rounds/en_parser.txt"),
    include_str!("rounds/en_deploy.txt"),
    include_str!("rounds/ja_orders.txt"),
    include_str!("rounds/ja_auth.txt"),
    include_str!("rounds/ja_batch.txt"),
];

/// How often something was looked for, and how often it was not there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) of: u32,
    pub(crate) lost: u32,
}

impl Tally {
    fn add(&mut self, is_kept: bool) {
        self.of += 1;
        self.lost += u32::from(!is_kept);
    }

    pub(crate) fn kept_percent(self) -> f64 {
        100.0 * f64::from(self.of - self.lost) / f64::from(self.of.max(1))
    }
}

/// What one way lost of all sessions at one window.
#[derive(Debug)]
pub(crate) struct Losses {
    pub(crate) way: Way,
    pub(crate) window: u64,
    pub(crate) goals: Tally,
    pub(crate) requests: Tally,
    pub(crate) instructions: Tally,
    /// Views that are larger than the window.
    pub(crate) over: u32,
    /// What was lost, and where.
    pub(crate) wrong: Vec<String>,
}

impl Losses {
    pub(crate) fn cell(&self) -> String {
        format!("{}, {}, {}", self.goals.lost, self.requests.lost, self.instructions.lost)
    }
}

/// Returns the scripts of the sessions, each of six rounds.
pub(crate) fn scripts() -> Vec<Script> {
    let scripts: Vec<Script> = SCRIPTS.iter().map(|source| script::parse(source, 'a')).collect();
    for script in &scripts {
        let count = script.beats.iter().filter(|beat| matches!(beat.who, Who::Request)).count();
        assert!(count == ROUNDS, "{}: {count} rounds", script.name);
    }
    scripts
}

/// Runs every session at one window.
pub(crate) fn measure(door: &Door, way: Way, window: u64) -> Losses {
    let (goals, requests, instructions) = Default::default();
    let mut losses = Losses { way, window, goals, requests, instructions, over: 0, wrong: Vec::new() };
    for (number, script) in (0..).zip(scripts()) {
        let mut rng = Rng::new(number + 20_011);
        let talk = Talk::new(&script.world, &mut rng);
        let session = Session::new(script.name.clone(), &script.system);
        let player = Player { script: &script, rng, talk, session, window };
        player.play(door, way, &mut losses);
    }
    losses
}

/// Plays one session.
struct Player<'a> {
    script: &'a Script,
    rng: Rng,
    talk: Talk,
    session: Session,
    window: u64,
}

impl Player<'_> {
    fn play(mut self, door: &Door, way: Way, losses: &mut Losses) {
        let mut task = door.append(&self.session.messages, self.window);
        let mut view = self.session.messages.clone();
        let starts =
            self.script.beats.iter().enumerate().filter(|(_, beat)| matches!(beat.who, Who::Request));
        let mut ends: Vec<usize> = starts.map(|(at, _)| at).skip(1).collect();
        ends.push(self.script.beats.len());
        let mut start = 0;
        for (round, end) in ends.into_iter().enumerate() {
            let before = self.session.messages.len();
            let room = (self.window * FULL / 100).saturating_sub(door::tokens(&view));
            self.round(&self.script.beats[start..end], room);
            let new = &self.session.messages[before..];
            if way == Way::DropOldest {
                view.extend_from_slice(new);
                view = door::newest(&view, self.window / 2);
            } else {
                task.append(new);
                if let Err(reason) = task.compress(way, None) {
                    losses.wrong.push(format!("{}, round {}: {reason}", self.script.name, round + 1));
                }
                view = task.read();
            }
            self.check(round, end, &view, losses);
            start = end;
        }
    }

    /// Appends what is said in a round, and work until it has so many tokens.
    fn round(&mut self, beats: &[Beat], room: u64) {
        if self.session.messages.len() > 1 {
            let report = self.talk.report(&mut self.rng, &self.script.world);
            self.session.assistant(&report);
        }
        let before = self.session.messages.len();
        let mut used = 0;
        let mut counted = before;
        for (at, beat) in beats.iter().enumerate() {
            if at > 0 && beat.who_is_user() {
                let report = self.talk.report(&mut self.rng, &self.script.world);
                self.session.assistant(&report);
            }
            match beat.who {
                Who::Model => self.session.assistant(&beat.text),
                Who::User | Who::Request | Who::Tool { .. } => self.session.user(&beat.text),
            }
            // The work after each of them has the same share of the room.
            let share = room * (at as u64 + 1) / beats.len() as u64;
            loop {
                self.call();
                used += door::tokens(&self.session.messages[counted..]);
                counted = self.session.messages.len();
                if used >= share {
                    break;
                }
            }
        }
    }

    /// Appends a call of a tool whose output matters to nobody.
    fn call(&mut self) {
        let world = &self.script.world;
        let kind = self.rng.pick(&world.kinds).clone();
        let (name, arguments) = noise::call(&kind, &mut self.rng, world);
        let says = self.rng.chance(60).then(|| self.talk.remark(&mut self.rng, world, None, false));
        // From some hundred bytes to a sixteenth of the window.
        let most = usize::try_from(self.window).unwrap_or(0).min(32_000) / 4;
        let size = self.rng.range(300, most);
        let output = noise::output(&kind, &mut self.rng, world, &arguments, size, "");
        let pairs = arguments.into_iter().map(|(key, value)| (key, Value::String(value)));
        let arguments = Value::Object(pairs.collect::<Map<_, _>>());
        self.session.tool(says.as_deref(), &name, &arguments, &output);
    }

    /// Looks for what must be known after a round.
    fn check(&self, round: usize, end: usize, view: &[String], losses: &mut Losses) {
        let name = format!("{} at {}k, round {}", self.script.name, self.window / 1000, round + 1);
        let text = text_of(view);
        let facts = facts(&self.script.beats[..end]);
        losses.over += u32::from(door::tokens(view) > self.window);
        let mut wrong = Vec::new();
        let is_kept = |fact: &&Fact| State::of(fact, &facts, &text) == State::Kept;
        let (mut goal, mut request) = (true, true);
        for fact in facts.iter().filter(|fact| fact.holds()) {
            let kept = is_kept(&fact);
            match fact.kind {
                Kind::Goal => goal &= kept,
                Kind::Request => request &= kept,
                Kind::Constraint | Kind::Decision | Kind::Path | Kind::Error | Kind::Id => {
                    losses.instructions.add(kept);
                }
            }
            if !kept {
                wrong.push(format!("{}: {}", fact.kind.as_str(), fact.probe));
            }
        }
        let said = self.session.messages.iter().rev().find(|message| message.contains("\"role\":\"user\""));
        let said = said.map(|message| plain(message)).unwrap_or_default();
        if !view.iter().any(|message| message.contains("\"role\":\"user\"") && plain(message).contains(&said))
        {
            request = false;
            wrong.push(format!("not verbatim: {said}"));
        }
        losses.goals.add(goal);
        losses.requests.add(request);
        losses.wrong.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
    }
}

/// Returns what was said so far: the instructions, the newest goal and the newest request.
fn facts(beats: &[Beat]) -> Vec<Fact> {
    let newest =
        |kind: Kind| beats.iter().rposition(|beat| beat.marks.iter().any(|mark| mark.kind == Some(kind)));
    let (goal, request) = (newest(Kind::Goal), newest(Kind::Request));
    let marks: Vec<_> = beats.iter().flat_map(|beat| &beat.marks).collect();
    let mut facts = Vec::new();
    for (at, beat) in beats.iter().enumerate() {
        for mark in &beat.marks {
            let Some(kind) = mark.kind else { continue };
            let is_past =
                (kind == Kind::Goal && Some(at) != goal) || (kind == Kind::Request && Some(at) != request);
            if is_past {
                continue;
            }
            let newer = marks.iter().filter(|newer| mark.old.is_some() && newer.new == mark.old);
            let newer =
                newer.map(|newer| newer.kind.map_or(&newer.sentence, |_| &newer.probe).clone()).collect();
            facts.push(Fact { kind, probe: mark.probe.clone(), newer });
        }
    }
    facts
}
