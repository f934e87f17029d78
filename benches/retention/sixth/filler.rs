//! What happens between the facts: work with tools, side questions, pasted text, small talk. All of it is noise, made
//! of the pools of the session's language and domain.

use super::scribe::Scribe;
use super::world::Known;

/// Writes one piece of noise, of some hundred to some thousand tokens.
pub(super) fn write(scribe: &mut Scribe<'_>) {
    match scribe.world.rng.below(100) {
        0..54 => work(scribe, true),
        54..66 => work(scribe, false),
        66..78 => exchange(scribe, "side"),
        78..88 => paste(scribe),
        88..94 => exchange(scribe, "smalltalk"),
        _ => listing(scribe),
    }
}

/// The user asks for something, the assistant looks around with tools and says what it found.
fn work(scribe: &mut Scribe<'_>, asked: bool) {
    let ask = scribe.world.say(if asked { "asks" } else { "go_on" });
    scribe.user(&ask);
    look_around(scribe);
}

/// The assistant uses tools and says what it found.
pub(super) fn look_around(scribe: &mut Scribe<'_>) {
    for _ in 0..scribe.world.rng.between(1, 3) {
        act(scribe);
    }
    let answer = findings(scribe);
    scribe.assistant(&answer);
}

/// One call of a tool that fits the domain.
fn act(scribe: &mut Scribe<'_>) {
    let group = scribe.world.rng.pick(&scribe.world.script.groups).clone();
    let entry = scribe.world.rng.pick(scribe.world.pools.get(&format!("acts-{group}"))).clone();
    let entry = scribe.world.fill(&entry, &mut Known::new());
    let parts: Vec<&str> = entry.split(" ~ ").collect();
    let [name, argument, head, noise] = parts[..] else { panic!("cannot read the act {entry:?}") };
    let (key, value) = argument.split_once('=').unwrap_or(("input", argument));
    let noise: Vec<&str> = noise.split_whitespace().collect();
    let [pool, least, most] = noise[..] else { panic!("cannot read the noise of {entry:?}") };
    let (least, most) = (least.parse().unwrap_or(5), most.parse().unwrap_or(9));
    let count = scribe.world.rng.between(least, most);
    let mut output = scribe.world.noise(pool, count);
    if name == "read_file" && scribe.world.rng.chance(60) {
        let numbered = output.lines().enumerate().map(|(index, line)| format!("{:>5}\t{line}", index + 1));
        output = numbered.collect::<Vec<_>>().join("\n");
    }
    if head != "-" {
        output = format!("{}\n{output}", head.replace("\\n", "\n"));
    }
    let says = if scribe.world.rng.chance(45) { scribe.world.say("says") } else { String::new() };
    scribe.tool(&says, name, key, value, &output);
}

/// Some sentences about what was seen, sometimes with a list.
fn findings(scribe: &mut Scribe<'_>) -> String {
    let mut text = scribe.world.say("findings");
    let space = if text.is_ascii() { " " } else { "" };
    for _ in 0..scribe.world.rng.below(4) {
        text = format!("{text}{space}{}", scribe.world.say("findings"));
    }
    if scribe.world.rng.chance(35) {
        for _ in 0..scribe.world.rng.between(3, 6) {
            text = format!("{text}\n- {}", scribe.world.say("points"));
        }
    }
    if scribe.world.rng.chance(30) {
        text = format!("{text}\n\n{}", scribe.world.say("closings"));
    }
    text
}

/// A question and its answer, which have nothing to do with the work.
fn exchange(scribe: &mut Scribe<'_>, pool: &str) {
    let entry = scribe.world.say(pool);
    let (question, answer) = entry.split_once(" || ").unwrap_or((&entry, "…"));
    scribe.user(question);
    scribe.assistant(answer);
}

/// The user pastes a log, a mail or a ticket.
fn paste(scribe: &mut Scribe<'_>) {
    let intro = scribe.world.say("paste_intros");
    let text = if scribe.world.rng.chance(50) {
        let pool = scribe.world.rng.pick(scribe.world.pools.get("paste_logs")).clone();
        let count = scribe.world.rng.between(12, 34);
        format!("{intro}\n\n```\n{}\n```", scribe.world.noise(&pool, count))
    } else {
        format!("{intro}\n\n{}", scribe.world.say("letters"))
    };
    scribe.user(&text);
    if scribe.world.rng.chance(50) {
        act(scribe);
    }
    let answer = findings(scribe);
    scribe.assistant(&answer);
}

/// The assistant gives a table.
fn listing(scribe: &mut Scribe<'_>) {
    let ask = scribe.world.say("table_asks");
    scribe.user(&ask);
    act(scribe);
    let count = scribe.world.rng.between(6, 14);
    let (head, rows) = (scribe.world.say("table_heads"), scribe.world.noise("table_rows", count));
    let closing = scribe.world.say("closings");
    scribe.assistant(&format!("{head}\n|---|---|---|---|\n{rows}\n\n{closing}"));
}
