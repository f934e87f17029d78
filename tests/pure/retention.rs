//! The generators of the retention benchmark: what their sessions must obey, so that what is counted means something.
//! What the sessions say is not printed: a generator may be the judge, which is not to be looked at.

#[path = "../../benches/retention/generators.rs"]
mod generators;
#[allow(dead_code, reason = "the benchmark uses more of it")]
#[path = "../../benches/retention/scripted/mod.rs"]
mod scripted;
#[allow(dead_code, reason = "the benchmark uses more of it")]
#[path = "../../benches/retention/session.rs"]
mod session;
#[path = "../../benches/retention/state.rs"]
mod state;

use session::{Fact, Kind, Session, plain, spaced};
use state::State;

/// A generator: its name, and what makes its sessions.
type Generator = (&'static str, fn() -> Vec<Session>);

const GENERATORS: &[Generator] = &[("tuning", generators::tuning), ("judge", generators::judge)];

/// Returns the generators that are checked: one at push size, as they check the benchmark and not the product.
fn generators() -> &'static [Generator] {
    &GENERATORS[..test_support::sized(1, GENERATORS.len())]
}

/// Returns the number of a session, without what it says.
fn place(generator: &str, at: usize) -> String {
    format!("session {at} of the {generator} generator")
}

#[test]
fn sessions_are_the_same_each_time() {
    for &(name, sessions) in generators() {
        for (at, (one, other)) in sessions().iter().zip(sessions()).enumerate() {
            assert!(one.messages == other.messages, "{}", place(name, at));
            let probes = |session: &Session| -> Vec<(String, bool)> {
                session.facts.iter().map(|fact| (fact.probe.clone(), fact.holds())).collect()
            };
            assert!(probes(one) == probes(&other), "{}", place(name, at));
        }
    }
}

#[test]
fn there_are_enough_of_both_languages() {
    for &(name, sessions) in generators() {
        let sessions = sessions();
        let is_japanese = |session: &&Session| {
            let text = session.messages.iter().map(|message| plain(message)).collect::<String>();
            text.chars().any(|c| ('\u{3041}'..='\u{3096}').contains(&c))
        };
        let japanese = sessions.iter().filter(is_japanese).count();
        assert!(sessions.len() >= 28, "{name}: {}", sessions.len());
        assert!(
            japanese * 10 >= sessions.len() * 4 && japanese * 10 <= sessions.len() * 6,
            "{name}: {japanese}"
        );
    }
}

/// A fact is looked for by a text of its own, and the old one is not in the new one.
#[test]
fn probes_tell_facts_apart() {
    for &(name, sessions) in generators() {
        for (at, session) in sessions().iter().enumerate() {
            let probes: Vec<(String, bool)> =
                session.facts.iter().map(|fact| (spaced(&fact.probe), !fact.holds())).collect();
            for (here, (probe, superseded)) in probes.iter().enumerate() {
                assert!(probe.chars().count() >= 4, "{}: fact {here} is found by chance", place(name, at));
                let again = probes[here + 1..].iter().any(|(other, _)| other == probe);
                assert!(!again, "{}: fact {here} is planted twice", place(name, at));
                let in_new = |(other, gone): &(String, bool)| !gone && other.contains(probe.as_str());
                assert!(
                    !superseded || !probes.iter().any(in_new),
                    "{}: fact {here} is in a newer one",
                    place(name, at)
                );
            }
        }
    }
}

/// A fact is there, not in the system prompt, and what was superseded is not said again at the end.
#[test]
fn facts_are_where_they_belong() {
    for &(name, sessions) in generators() {
        for (at, session) in sessions().iter().enumerate() {
            let texts: Vec<String> = session.messages.iter().map(|message| plain(message)).collect();
            let tail = texts.len() - texts.len() / 10;
            for (here, fact) in session.facts.iter().enumerate() {
                let probe = spaced(&fact.probe);
                let at_all = |texts: &[String]| texts.iter().any(|text| text.contains(&probe));
                assert!(at_all(&texts[1..]), "{}: fact {here} is nowhere", place(name, at));
                assert!(!at_all(&texts[..1]), "{}: fact {here} is in the system prompt", place(name, at));
                let late = !fact.holds() && at_all(&texts[tail..]);
                assert!(!late, "{}: fact {here} is superseded, but said again", place(name, at));
            }
        }
    }
}

/// A model reads in order: an old value before the newer one is no loss, behind it it is.
#[test]
fn a_fact_is_kept_if_its_newest_value_stands_last() {
    let fact = |probe: &str, newer: &[&str]| Fact {
        kind: Kind::Id,
        probe: probe.to_owned(),
        newer: newer.iter().map(|newer| (*newer).to_owned()).collect(),
    };
    let facts = [
        fact("port 5432", &["port 6543"]),
        fact("port 6543", &[]),
        fact("retry twice", &["no retries, please"]),
    ];
    let states = |text: &str| facts.each_ref().map(|fact| State::of(fact, &facts, text));
    use State::{Contradicted, Harmless, Kept, Lost, Stale};
    assert_eq!(states("use port 6543"), [Harmless, Kept, Harmless]);
    assert_eq!(states("port 5432 at first, then port 6543"), [Harmless, Kept, Harmless]);
    assert_eq!(states("port 6543, and port 5432"), [Harmless, Contradicted, Harmless]);
    assert_eq!(states("port 5432"), [Harmless, Lost, Harmless]);
    assert_eq!(states("retry twice"), [Harmless, Lost, Stale]);
    assert_eq!(states("retry twice; no retries, please"), [Harmless, Lost, Harmless]);
    assert_eq!(states("no retries, please; retry twice"), [Harmless, Lost, Stale]);
}
