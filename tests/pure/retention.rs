//! The generators of the retention benchmark: what their sessions must obey, so that what is counted means something.
//! What the sessions say is not printed: a generator may be the judge, which is not to be looked at.

#[path = "../../benches/retention/eighth/mod.rs"]
mod eighth;
#[path = "../../benches/retention/fifth/mod.rs"]
mod fifth;
#[path = "../../benches/retention/first/mod.rs"]
mod first;
#[path = "../../benches/retention/fourth/mod.rs"]
mod fourth;
#[path = "../../benches/retention/second/mod.rs"]
mod second;
#[allow(dead_code, reason = "the benchmark uses more of it")]
#[path = "../../benches/retention/session.rs"]
mod session;
#[path = "../../benches/retention/seventh/mod.rs"]
mod seventh;
#[path = "../../benches/retention/sixth/mod.rs"]
mod sixth;
#[path = "../../benches/retention/third/mod.rs"]
mod third;

use session::{Session, plain, spaced};

/// A generator: its name, and what makes its sessions.
type Generator = (&'static str, fn() -> Vec<Session>);

const GENERATORS: &[Generator] = &[
    ("first", first::sessions),
    ("second", second::sessions),
    ("third", third::sessions),
    ("fourth", fourth::sessions),
    ("fifth", fifth::sessions),
    ("sixth", sixth::sessions),
    ("seventh", seventh::sessions),
    ("eighth", eighth::sessions),
];

/// Returns the generators that are checked: two at push size, as they check the benchmark and not the product.
fn generators() -> &'static [Generator] {
    &GENERATORS[..test_support::sized(2, GENERATORS.len())]
}

/// The number of a session, without what it says.
fn place(generator: &str, at: usize) -> String {
    format!("session {at} of the {generator} generator")
}

#[test]
fn sessions_are_the_same_each_time() {
    for &(name, sessions) in generators() {
        for (at, (one, other)) in sessions().iter().zip(sessions()).enumerate() {
            assert!(one.messages == other.messages, "{}", place(name, at));
            let probes = |session: &Session| -> Vec<(String, bool)> {
                session.facts.iter().map(|fact| (fact.probe.clone(), fact.superseded)).collect()
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
        assert!(sessions.len() >= 40, "{name}: {}", sessions.len());
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
                session.facts.iter().map(|fact| (spaced(&fact.probe), fact.superseded)).collect();
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
                let late = fact.superseded && at_all(&texts[tail..]);
                assert!(!late, "{}: fact {here} is superseded, but said again", place(name, at));
            }
        }
    }
}

/// Where a generator tells of the old and then of the new, the old one is not said after the new one.
#[test]
fn old_values_are_said_before_the_new_ones() {
    for (name, sessions) in [GENERATORS[0], GENERATORS[2]].into_iter().take(test_support::sized(1, 2)) {
        for (at, session) in sessions().iter().enumerate() {
            let texts: Vec<String> = session.messages.iter().map(|message| plain(message)).collect();
            let places = |probe: &str| -> Vec<usize> {
                let probe = spaced(probe);
                (0..texts.len()).filter(|at| texts[*at].contains(&probe)).collect()
            };
            for (here, fact) in session.facts.iter().enumerate().filter(|(_, fact)| fact.superseded) {
                let old = places(&fact.probe);
                let later = session.facts[here + 1..].iter().filter(|fact| !fact.superseded);
                let new = later.map(|fact| places(&fact.probe)).find(|new| new[0] > old[0]);
                let before = new.is_none_or(|new| old[old.len() - 1] < new[0]);
                assert!(before, "{}: {} is said again", place(name, at), fact.probe);
            }
        }
    }
}
