//! Checks that the planted facts are labelled right: where they stand, how often, and what supersedes them.

use super::super::session::{Kind, Session, plain, spaced};
use super::{engine::share_of_tools, script::Mark};

/// A mark and the number of the message it stands in.
pub(super) struct Planted {
    pub(super) mark: Mark,
    pub(super) at: usize,
}

/// What is wrong with a session, in words.
pub(super) fn problems(session: &Session, planted: &[Planted]) -> Vec<String> {
    let texts: Vec<String> = session.messages.iter().map(|message| plain(message)).collect();
    let mut found = Vec::new();
    let mut say = |what: String| found.push(format!("{}: {what}", session.name));
    for Planted { mark, at } in planted {
        for label in mark.replaces.chars() {
            let olds = planted.iter().filter(|one| one.mark.old == Some(label)).count();
            if olds != 1 {
                say(format!("{olds} facts have the label {label}"));
            }
        }
        if mark.kind.is_none() {
            continue;
        }
        let probe = spaced(&mark.probe);
        let places: Vec<usize> = (0..texts.len()).filter(|&here| texts[here].contains(&probe)).collect();
        if at * 10 > texts.len() * 9 {
            say(format!("{probe:?} is planted late, at {at} of {}", texts.len()));
        }
        let Some(label) = mark.old else {
            if places != [*at] {
                say(format!("{probe:?} stands in {places:?}, not only in {at}"));
            }
            continue;
        };
        let newer = planted.iter().filter(|one| one.mark.replaces.contains(label)).map(|one| one.at).min();
        let Some(newer) = newer else {
            say(format!("nothing supersedes {probe:?}"));
            continue;
        };
        if newer <= *at || places.iter().any(|&place| place < *at || place >= newer) {
            say(format!("{probe:?} is at {at}, stands in {places:?} and is superseded at {newer}"));
        }
    }
    let superseded = session.facts.iter().filter(|fact| fact.superseded).count();
    let holding = session.facts.len() - superseded;
    if !(20..=26).contains(&holding) || !(3..=5).contains(&superseded) {
        say(format!("{holding} facts hold, {superseded} are superseded"));
    }
    for kind in Kind::ALL {
        let of_kind = session.facts.iter().filter(|fact| fact.kind == kind && !fact.superseded).count();
        if of_kind < 2 {
            say(format!("{of_kind} {}", kind.as_str()));
        }
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    let japanese = session.name.starts_with("ja-");
    let wanted = if japanese { 100_000..=200_000 } else { 150_000..=250_000 };
    if !wanted.contains(&bytes) || !(80..=200).contains(&texts.len()) {
        say(format!("{bytes} bytes in {} messages", texts.len()));
    }
    let share = share_of_tools(session);
    if !(79..=91).contains(&share) {
        say(format!("{share} % are outputs of tools"));
    }
    found
}
