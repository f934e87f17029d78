//! Plays a script: puts tool calls with their outputs, remarks and small talk between its statements, and plants its facts.

use serde_json::json;

use super::super::session::{Session, plain};
use super::{
    check::Planted,
    noise::Noise,
    rng::Rng,
    script::{Call, Script, Step, unmarked},
};

/// What a call is made with: nothing, a short remark or a long one.
const ENGLISH_REMARKS: [&str; 8] = ["", "", "says", "says", "long", "long", "long", "long"];
const JAPANESE_REMARKS: [&str; 6] = ["", "", "", "says", "says", "long"];

/// One message or call of the session, before the outputs are made.
enum Beat {
    User(String),
    Assistant(String),
    Call(Call),
}

impl Beat {
    /// How many bytes are said in it.
    fn spoken(&self) -> usize {
        match self {
            Self::User(text) | Self::Assistant(text) => text.len(),
            Self::Call(call) => call.target.len() + call.says.as_ref().map_or(0, String::len) + 20,
        }
    }
}

/// The session, and where its facts stand.
pub(super) fn play(script: &Script, number: usize, seed: u64) -> (Session, Vec<Planted>) {
    let mut rng = Rng::new(seed);
    let mut noise = Noise::new(&script.topic, &mut rng);
    let beats = beats(script, &mut noise, &mut rng);
    // Few outputs are long, many are short.
    let shares: Vec<usize> = beats.iter().map(|_| *rng.one(&[25, 40, 60, 80, 100, 120, 150, 220])).collect();
    let calls = beats.iter().zip(&shares).filter(|(beat, _)| matches!(beat, Beat::Call(_)));
    let in_all: usize = calls.map(|(_, share)| share).sum();
    let whole = if script.topic.japanese { (104_000, 142_000) } else { (148_000, 185_000) };
    // Not more than nine tenths or so of the session are outputs.
    let spoken: usize = beats.iter().map(Beat::spoken).sum();
    let whole = rng.between(whole.0, whole.1).min((spoken * 17 / 2).max(whole.0));

    let mut session = Session::new(format!("{}-{number}", script.name), &script.system);
    let mut planted = Vec::new();
    for (beat, share) in beats.into_iter().zip(shares) {
        match beat {
            Beat::User(text) => {
                let text = plant(&text, session.messages.len(), &mut planted);
                session.user(&text);
            }
            Beat::Assistant(text) => {
                let text = plant(&text, session.messages.len(), &mut planted);
                session.assistant(&text);
            }
            Beat::Call(call) => {
                let at = session.messages.len();
                let says = call.says.map(|says| plant(&says, at, &mut planted));
                let target = plant(&call.target, at, &mut planted);
                let output = noise.text(&call.kind, whole * share / in_all, &call.lines, &mut rng);
                let output = plant(&output, at + 1, &mut planted);
                let arguments = json!({ argument(&call.tool): target });
                session.tool(says.as_deref(), &call.tool, &arguments, &output);
            }
        }
    }
    for Planted { mark, .. } in &planted {
        match (mark.kind, mark.old) {
            (Some(kind), Some(_)) => session.superseded(kind, mark.probe.as_str()),
            (Some(kind), None) => session.fact(kind, mark.probe.as_str()),
            (None, _) => {}
        }
    }
    (session, planted)
}

/// The script's steps with the work between them.
fn beats(script: &Script, noise: &mut Noise<'_>, rng: &mut Rng) -> Vec<Beat> {
    let mut beats = Vec::new();
    let last = script.steps.len() - 1;
    let asked = script.steps.iter().filter(|step| matches!(step, Step::User { works: true, .. })).count();
    // Long scripts need less between their statements.
    let (high, small_talk) = if asked > 15 { (3, 32) } else { (4, 45) };
    for (at, step) in script.steps.iter().enumerate() {
        match step {
            Step::User { text, works } => {
                beats.push(Beat::User(text.clone()));
                if *works {
                    work(script, 1, high, noise, rng, &mut beats);
                }
            }
            Step::Assistant(text) => {
                let follows = matches!(beats.last(), Some(Beat::Assistant(_)));
                if follows {
                    work(script, 1, 2, noise, rng, &mut beats);
                }
                let aside = if text.len() > 70 && rng.chance(75) {
                    format!("\n\n{}", noise.talk("aside", rng))
                } else {
                    String::new()
                };
                beats.push(Beat::Assistant(format!("{text}{aside}")));
                let user_next = matches!(script.steps.get(at + 1), Some(Step::User { .. }));
                if user_next && at < last && rng.chance(small_talk) {
                    let kind = if rng.chance(50) { "paste" } else { "user" };
                    beats.push(Beat::User(noise.talk(kind, rng)));
                    work(script, 1, 2, noise, rng, &mut beats);
                    let kind = if rng.chance(70) { "long" } else { "report" };
                    beats.push(Beat::Assistant(noise.talk(kind, rng)));
                }
            }
            Step::Call(call) => beats.push(Beat::Call(call.clone())),
        }
    }
    beats.push(Beat::User(script.end.clone()));
    // What is planted stands in the first nine tenths.
    while messages(&beats[last_fact(&beats)..]) * 100 < messages(&beats) * 11 {
        work(script, 2, 3, noise, rng, &mut beats);
        beats.push(Beat::Assistant(noise.talk("report", rng)));
        beats.push(Beat::User(noise.talk("user", rng)));
    }
    work(script, 1, 2, noise, rng, &mut beats);
    beats.push(Beat::Assistant(noise.talk("report", rng)));
    beats
}

fn messages(beats: &[Beat]) -> usize {
    beats.iter().map(|beat| if matches!(beat, Beat::Call(_)) { 2 } else { 1 }).sum()
}

/// Where the last mark stands.
fn last_fact(beats: &[Beat]) -> usize {
    let marked = |beat: &Beat| match beat {
        Beat::User(text) | Beat::Assistant(text) => text.contains("[["),
        Beat::Call(call) => call.lines.iter().any(|line| line.contains("[[")),
    };
    beats.iter().rposition(marked).unwrap_or_default()
}

/// Some calls drawn from the script's pool, with or without a remark.
fn work(
    script: &Script,
    low: usize,
    high: usize,
    noise: &mut Noise<'_>,
    rng: &mut Rng,
    beats: &mut Vec<Beat>,
) {
    for _ in 0..rng.between(low, high) {
        let mut call = rng.one(&script.pool).clone();
        call.target = noise.fill(&call.target, rng);
        let kinds: &[&str] = if script.topic.japanese { &JAPANESE_REMARKS } else { &ENGLISH_REMARKS };
        let kind = *rng.one(kinds);
        call.says = (!kind.is_empty()).then(|| noise.talk(kind, rng));
        beats.push(Beat::Call(call));
    }
}

/// Takes the marks out of a text and notes in which message they stand.
fn plant(text: &str, at: usize, planted: &mut Vec<Planted>) -> String {
    let (text, marks) = unmarked(text);
    planted.extend(marks.into_iter().map(|mark| Planted { mark, at }));
    text
}

/// What the one argument of a tool is called.
fn argument(tool: &str) -> &'static str {
    match tool {
        "bash" | "shell" => "command",
        "read_file" | "list_dir" | "open_document" => "path",
        "http_get" | "fetch_page" => "url",
        "sql" => "statement",
        "read_mail" | "read_thread" => "thread",
        _ => "query",
    }
}

/// How many bytes of the session's text are outputs of tools, in percent.
pub(super) fn share_of_tools(session: &Session) -> usize {
    let size = |only_tools: bool| -> usize {
        let wanted = |text: &&String| !only_tools || text.contains("\"role\":\"tool\"");
        session.messages.iter().filter(wanted).map(|text| plain(text).len()).sum()
    };
    100 * size(true) / size(false)
}
