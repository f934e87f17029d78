//! Owns how a script becomes a session: its slots are filled, its facts taken out, noise put around it.
//!
//! A script is lines: `= slot value¦value` (a list, or a pattern of [`Rng::pattern`]), `U` what the user says, `A` what
//! the assistant says, `N` what it says with its next call, `T tool ¦ argument ¦ kind ¦ planted line`. `@02` before a
//! line keeps it for variants 0 and 2. `«a¦b»` is one of them, `%slot%` a slot, `[[D:text]]` a fact and `[[~D:text]]`
//! one that does not hold for long, `\n` a new line.

use serde_json::{Value, json};

use super::super::session::{Kind, Session};
use super::bulk::{Bulk, tokens};
use super::filler::Filler;
use super::rng::Rng;
use super::words::Lang;

/// A piece of work.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) lang: Lang,
    pub(super) system: &'static str,
    pub(super) script: &'static str,
}

/// One step of a session.
enum Beat {
    User(String),
    Assistant(String),
    Tool(Call),
    Edit { path: String, content: String },
}

/// A call of a tool and what is in its answer.
struct Call {
    says: Option<String>,
    tool: String,
    argument: String,
    kind: String,
    planted: Vec<String>,
}

/// The session of a variant of a scenario.
pub(super) fn session(scenario: &Scenario, variant: usize, seed: u64) -> Session {
    let lang = scenario.lang;
    let mut bulk = Bulk::new(Rng::new(seed), lang);
    let text = filled(scenario.script, variant, &mut bulk.rng);
    let mut beats = joined(beats(&text), lang);
    let total = bulk.rng.between(34_000, 51_000);
    let share = match lang {
        Lang::En => bulk.rng.between(84, 91),
        Lang::Ja => bulk.rng.between(83, 88),
    };
    pad(&mut beats, &mut bulk, total * (100 - share) / 100);
    let calls: Vec<usize> =
        beats.iter().filter(|beat| matches!(beat, Beat::Tool(_))).map(|_| bulk.rng.between(4, 16)).collect();
    let unit = total * share / 100 / calls.iter().sum::<usize>().max(1);
    let mut sizes = calls.into_iter();
    let mut session = Session::new(format!("{}-{}", scenario.name, variant + 1), scenario.system);
    let style = bulk.rng.below(3);
    for beat in beats {
        match beat {
            Beat::User(text) => {
                let text = told(&mut session, &text);
                session.user(&text);
            }
            Beat::Assistant(text) => {
                let text = told(&mut session, &text);
                session.assistant(&text);
            }
            Beat::Edit { path, content } => {
                let name =
                    ["write_file", "edit_file", "apply_patch"].get(style).copied().unwrap_or("write_file");
                let answer = bulk.fill(if lang == Lang::En {
                    "ok, $b lines written"
                } else {
                    "書き込みました（$b行）"
                });
                session.tool(None, name, &json!({"path": path, "content": content}), &answer);
            }
            Beat::Tool(call) => {
                let says = call.says.map(|says| told(&mut session, &says));
                let (name, arguments) = named(&call.tool, &told(&mut session, &call.argument), style);
                let planted: Vec<String> = call.planted.iter().map(|line| told(&mut session, line)).collect();
                let size = sizes.next().unwrap_or(4) * unit;
                let answer = bulk.output(&call.kind, size, &planted);
                session.tool(says.as_deref(), name, &arguments, &answer);
            }
        }
    }
    thinned(&mut session, bulk.rng.between(22, 26));
    session
}

/// Forgets facts of the kinds that have most, the last ones first, until so many that hold are left.
fn thinned(session: &mut Session, most: usize) {
    while session.facts.iter().filter(|fact| !fact.superseded).count() > most {
        let count = |kind| session.facts.iter().filter(|fact| !fact.superseded && fact.kind == kind).count();
        let kind = Kind::ALL.into_iter().max_by_key(|kind| count(*kind));
        let last = session.facts.iter().rposition(|fact| !fact.superseded && Some(fact.kind) == kind);
        let Some(last) = last else { break };
        session.facts.remove(last);
    }
}

/// The script of a variant, with its slots and choices filled in.
fn filled(script: &str, variant: usize, rng: &mut Rng) -> String {
    let mut slots: Vec<(String, String)> = Vec::new();
    let mut text = String::new();
    for (number, line) in script.lines().map(str::trim).enumerate() {
        let line = match line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            Some((variants, _)) if !variants.contains(&variant.to_string()) => continue,
            Some((_, rest)) => rest,
            None => line,
        };
        if let Some((name, values)) = line.strip_prefix("= ").and_then(|rest| rest.split_once(' ')) {
            let values: Vec<&str> = values.split('¦').collect();
            let value = chosen(&values, variant + number);
            slots.push((format!("%{name}%"), rng.pattern(&value)));
        } else if !line.is_empty() {
            text.push_str(&choices(line, variant + number));
            text.push('\n');
        }
    }
    // Twice, since a slot may stand in the value of another one.
    for (name, value) in slots.iter().chain(&slots) {
        text = text.replace(name, value);
    }
    text
}

fn chosen(values: &[&str], at: usize) -> String {
    values.get(at % values.len().max(1)).map(|value| value.trim().to_owned()).unwrap_or_default()
}

/// A line with one of each of its choices.
fn choices(line: &str, at: usize) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('«') {
        let (choice, after) = after.split_once('»').unwrap_or((after, ""));
        let values: Vec<&str> = choice.split('¦').collect();
        text.push_str(before);
        text.push_str(&chosen(&values, at));
        rest = after;
    }
    text + rest
}

fn beats(text: &str) -> Vec<Beat> {
    let mut beats = Vec::new();
    let mut says = None;
    for line in text.lines() {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.replace("\\n", "\n");
        match what {
            "U" => beats.push(Beat::User(rest)),
            "A" => beats.push(Beat::Assistant(rest)),
            "N" => says = Some(rest),
            _ => {
                let mut parts = rest.split('¦').map(|part| part.trim().to_owned());
                let mut next = || parts.next().unwrap_or_default();
                let (tool, argument, kind) = (next(), next(), next());
                beats.push(Beat::Tool(Call {
                    says: says.take(),
                    tool,
                    argument,
                    kind,
                    planted: parts.collect(),
                }));
            }
        }
    }
    beats
}

/// What the assistant says right before a call becomes part of it, and it answers before the user speaks again.
fn joined(beats: Vec<Beat>, lang: Lang) -> Vec<Beat> {
    let mut done: Vec<Beat> = Vec::new();
    for beat in beats {
        match (done.pop(), beat) {
            (Some(Beat::Assistant(text)), Beat::Tool(call)) if call.says.is_none() => {
                done.push(Beat::Tool(Call { says: Some(text), ..call }));
            }
            (Some(Beat::Tool(call)), Beat::User(text)) => {
                let answer = Filler::answer(lang, done.len());
                done.extend([Beat::Tool(call), Beat::Assistant(answer), Beat::User(text)]);
            }
            (last, beat) => {
                done.extend(last);
                done.push(beat);
            }
        }
    }
    done
}

/// Adds talk, edits and calls that do not matter, until the talk has about so many tokens.
fn pad(beats: &mut Vec<Beat>, bulk: &mut Bulk, talk: usize) {
    let mut filler = Filler::new(bulk);
    let kinds: Vec<String> = beats.iter().filter_map(kind).collect();
    let mut length: usize = beats.iter().map(size).sum();
    let mut gaps: Vec<Vec<Beat>> = beats.iter().map(|_| Vec::new()).collect();
    for round in 0..400 {
        if length >= talk && round >= 40 {
            break;
        }
        // Some of them near the end, so that what is corrected late is not in the last messages.
        let low = if round % 6 == 0 { beats.len() * 9 / 10 } else { 1 };
        let at = bulk.rng.between(low, beats.len().saturating_sub(2));
        let (Some(last), Some(gap)) = (beats.get(at), gaps.get_mut(at)) else {
            continue;
        };
        let before = gap.len();
        match last {
            Beat::Assistant(text) if gap.is_empty() && !text.ends_with(['?', '？']) => {
                let Some((question, answer)) = filler.chat(bulk) else {
                    continue;
                };
                gap.push(Beat::User(question));
                if matches!(beats.get(at + 1), Some(Beat::User(_))) {
                    gap.push(Beat::Assistant(answer));
                }
            }
            Beat::Tool(_) if gap.len() < 3 && round % 2 == 0 => {
                let drawn = bulk.rng.below(kinds.len());
                let (tool, argument, kind) =
                    Filler::call(bulk, kinds.get(drawn).map_or("log", String::as_str));
                let says = filler.note(bulk);
                gap.push(Beat::Tool(Call { says, tool, argument, kind, planted: Vec::new() }));
            }
            Beat::Tool(_) if gap.len() < 4 && length < talk => {
                let (path, content) = Filler::edit(bulk, &kinds);
                gap.push(Beat::Edit { path, content });
            }
            Beat::User(_) | Beat::Assistant(_) | Beat::Tool(_) | Beat::Edit { .. } => {}
        }
        length += gap.iter().skip(before).map(size).sum::<usize>();
    }
    let old = std::mem::take(beats);
    for (beat, gap) in old.into_iter().zip(gaps) {
        beats.push(beat);
        beats.extend(gap);
    }
    for beat in beats {
        if let Beat::Tool(call) = beat
            && call.says.is_none()
            && bulk.rng.below(3) > 0
        {
            call.says = filler.note(bulk);
        }
    }
}

/// What kind of output a step has.
fn kind(beat: &Beat) -> Option<String> {
    if let Beat::Tool(call) = beat { Some(call.kind.clone()) } else { None }
}

/// How many tokens of talk a step has.
fn size(beat: &Beat) -> usize {
    match beat {
        Beat::User(text) | Beat::Assistant(text) => tokens(text),
        Beat::Tool(call) => tokens(call.says.as_deref().unwrap_or("")) + tokens(&call.argument) + 4,
        Beat::Edit { path, content } => tokens(path) + tokens(content) + 4,
    }
}

/// The text without its marks; its facts are planted.
fn told(session: &mut Session, text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[[") {
        let (mark, after) = after.split_once("]]").unwrap_or((after, ""));
        let (kind, probe) = mark.split_once(':').unwrap_or(("C", mark));
        match kind.strip_prefix('~') {
            Some(kind) => session.superseded(kind_of(kind), probe),
            None => session.fact(kind_of(kind), probe),
        }
        clean.push_str(before);
        clean.push_str(probe);
        rest = after;
    }
    clean + rest
}

fn kind_of(sign: &str) -> Kind {
    match sign {
        "D" => Kind::Decision,
        "P" => Kind::Path,
        "E" => Kind::Error,
        "I" => Kind::Id,
        _ => Kind::Constraint,
    }
}

/// The name of a tool and its arguments, as one of three agents spells them.
fn named(tool: &str, argument: &str, style: usize) -> (&'static str, Value) {
    let (names, field): ([&'static str; 3], &str) = match tool {
        "read" => (["read_file", "view_file", "cat_file"], "path"),
        "grep" => (["grep", "search_code", "ripgrep"], "pattern"),
        "sql" => (["run_sql", "query_database", "sql"], "query"),
        "web" => (["fetch_url", "open_page", "web_get"], "url"),
        _ => (["bash", "run_shell", "execute_command"], "command"),
    };
    (names.get(style).copied().unwrap_or("bash"), json!({field: argument}))
}
