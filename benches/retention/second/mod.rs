//! The second generator of sessions for the retention benchmark: owns its own scripts, noise and small talk, and
//! knows nothing of the summariser or of the first generator.
//!
//! A session is a hand-written script (what is said and done that matters, with the facts marked in it) that is
//! blown up with generated everyday noise: listings, logs, code, diffs, small talk. Each script gives [`VARIANTS`]
//! sessions that differ in values, in wording where the script says so, and in all of the noise.

mod english_apps;
mod english_data;
mod english_ops;
mod japanese_apps;
mod japanese_data;
mod japanese_ops;
mod noise;
mod script;
mod source;
mod talk;

use super::session::{Fact, Kind, Session};
use script::Built;

/// Sessions per script.
const VARIANTS: usize = 2;

/// All sessions, the same ones each time.
pub(crate) fn sessions() -> Vec<Session> {
    built().into_iter().map(|built| built.session).collect()
}

fn built() -> Vec<Built> {
    let scripts = [
        english_apps::SCRIPTS,
        english_data::SCRIPTS,
        english_ops::SCRIPTS,
        japanese_apps::SCRIPTS,
        japanese_data::SCRIPTS,
        japanese_ops::SCRIPTS,
    ];
    let scripts = scripts.into_iter().flatten();
    scripts.flat_map(|script| (0..VARIANTS).map(|variant| script::build(script, variant))).collect()
}

/// A small seeded generator of numbers (splitmix64).
struct Rng(u64);

impl Rng {
    /// Seeded by a text, so that a session does not change when others are added.
    fn new(seed: &str) -> Self {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(seed.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, but not including, `end`.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// From `low` to `high`, both included.
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn letters(&mut self, alphabet: &[u8], count: usize) -> String {
        (0..count).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn hex(&mut self, count: usize) -> String {
        self.letters(b"0123456789abcdef", count)
    }

    /// A number of so many digits, the first one not 0.
    fn digits(&mut self, count: usize) -> String {
        self.letters(b"123456789", 1) + &self.letters(b"0123456789", count.saturating_sub(1))
    }

    fn uuid(&mut self) -> String {
        let parts = [8, 4, 3, 3, 12].map(|count| self.hex(count));
        format!("{}-{}-4{}-a{}-{}", parts[0], parts[1], parts[2], parts[3], parts[4])
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::{plain, spaced};
    use super::*;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::LazyLock;

    /// Made once for all tests.
    static BUILT: LazyLock<Vec<Built>> = LazyLock::new(built);

    fn all() -> impl Iterator<Item = &'static Session> {
        BUILT.iter().map(|built| &built.session)
    }

    fn parsed(session: &Session) -> Vec<Value> {
        session.messages.iter().map(|message| serde_json::from_str(message).unwrap()).collect()
    }

    fn is_japanese(letter: char) -> bool {
        matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}')
    }

    /// Tokens, roughly: four ASCII characters or one other.
    fn tokens(session: &Session) -> usize {
        let text: String = session.messages.iter().map(|message| plain(message)).collect();
        let ascii = text.chars().filter(char::is_ascii).count();
        ascii / 4 + (text.chars().count() - ascii)
    }

    #[test]
    fn sessions_are_the_same_each_time() {
        let again = sessions();
        assert_eq!(again.len(), BUILT.len());
        for (one, other) in all().zip(&again) {
            assert_eq!(one.name, other.name);
            assert_eq!(one.messages, other.messages);
            assert_eq!(format!("{:?}", one.facts), format!("{:?}", other.facts));
        }
    }

    #[test]
    fn there_are_enough_and_they_are_long() {
        let sessions: Vec<_> = all().collect();
        assert!(sessions.len() >= 40, "{}", sessions.len());
        let names: BTreeSet<_> = sessions.iter().map(|session| &session.name).collect();
        assert_eq!(names.len(), sessions.len());
        for session in sessions {
            let (name, count, tokens) = (&session.name, session.messages.len(), tokens(session));
            assert!((60..=200).contains(&count), "{name}: {count} messages");
            assert!((15_000..=60_000).contains(&tokens), "{name}: {tokens} tokens");
            let facts = session.facts.len();
            assert!((12..=25).contains(&facts), "{name}: {facts} facts");
            let superseded = session.facts.iter().filter(|fact| fact.superseded).count();
            assert!(superseded >= 2, "{name}: {superseded} superseded");
        }
    }

    #[test]
    fn messages_are_valid_and_calls_have_results() {
        for session in all() {
            let name = &session.name;
            let mut open: Vec<String> = Vec::new();
            let mut seen = BTreeSet::new();
            let mut last = String::new();
            for (at, message) in parsed(session).iter().enumerate() {
                let role = message["role"].as_str().unwrap().to_owned();
                assert_eq!(role == "system", at == 0, "{name}: message {at}");
                if role == "tool" {
                    let id = message["tool_call_id"].as_str().unwrap();
                    assert_eq!(open.first().map(String::as_str), Some(id), "{name}: message {at}");
                    open.remove(0);
                } else {
                    assert!(open.is_empty(), "{name}: message {at} comes before a result");
                    let turn = role == "assistant" || role != last;
                    assert!(turn, "{name}: message {at} is a second {role} message in a row");
                }
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let id = call["id"].as_str().unwrap().to_owned();
                    assert!(seen.insert(id.clone()), "{name}: {id} twice");
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                    assert_eq!(call["type"], "function");
                    open.push(id);
                }
                let says = message["tool_calls"].is_array()
                    || message["content"].is_string()
                    || message["content"].is_array();
                assert!(says, "{name}: message {at} is empty");
                last = role;
            }
            assert!(open.is_empty(), "{name}: a call without result");
        }
    }

    #[test]
    fn probes_are_found_only_where_they_were_planted() {
        for Built { session, marks, replaced } in BUILT.iter() {
            session.check();
            let name = &session.name;
            let texts: Vec<String> = session.messages.iter().map(|message| plain(message)).collect();
            let found = |probe: &str| -> BTreeSet<usize> {
                let probe = spaced(probe);
                (0..texts.len()).filter(|&at| texts[at].contains(&probe)).collect()
            };
            let mut planted: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
            for (probe, at) in marks {
                planted.entry(probe).or_default().insert(*at);
            }
            for Fact { probe, .. } in &session.facts {
                assert_eq!(found(probe), planted[probe.as_str()], "{name}: {probe:?}");
                let last = *planted[probe.as_str()].last().unwrap();
                assert!(last + 10 < texts.len(), "{name}: {probe:?} is in the last ten messages");
                for other in &session.facts {
                    let inside = other.probe != *probe && other.probe.contains(probe.as_str());
                    assert!(!inside, "{name}: {probe:?} is part of {:?}", other.probe);
                }
            }
            let probes: BTreeSet<_> = session.facts.iter().map(|fact| &fact.probe).collect();
            assert_eq!(probes.len(), session.facts.len(), "{name}: a probe twice");
            let old = session.facts.iter().filter(|fact| fact.superseded).count();
            assert_eq!(replaced.len(), old, "{name}: superseded facts without a newer one");
            for (old, new) in replaced {
                let (last, first) = (found(old).into_iter().next_back(), found(new).into_iter().next());
                assert!(last < first, "{name}: {old:?} is still said with or after {new:?}");
            }
        }
    }

    #[test]
    fn facts_are_spread_over_the_session() {
        for Built { session, marks, .. } in BUILT.iter() {
            for third in 0..3 {
                let len = session.messages.len();
                let count = marks.iter().filter(|(_, at)| at * 3 / len == third).count();
                assert!(count >= 2, "{}: {count} facts in third {third}", session.name);
            }
        }
    }

    #[test]
    fn half_of_them_are_in_japanese() {
        let sessions: Vec<_> = all().collect();
        let share = |session: &Session| {
            let spoken = parsed(session)
                .into_iter()
                .filter(|message| message["role"] == "user" || message["role"] == "assistant");
            let text: String =
                spoken.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect();
            let japanese = text.chars().filter(|&letter| is_japanese(letter)).count();
            japanese * 100 / text.chars().count().max(1)
        };
        let japanese = sessions.iter().filter(|session| session.name.starts_with("ja-")).count();
        assert_eq!(japanese * 2, sessions.len());
        for session in sessions {
            let share = share(session);
            let expected = if session.name.starts_with("ja-") { 45..=100 } else { 0..=0 };
            assert!(expected.contains(&share), "{}: {share} % Japanese", session.name);
        }
    }

    /// Not a check: what there is, for a look with `--nocapture`.
    #[test]
    fn counts() {
        let sessions: Vec<_> = all().collect();
        let messages: usize = sessions.iter().map(|session| session.messages.len()).sum();
        let text = |session: &Session| {
            session.messages.iter().map(|message| plain(message).chars().count()).sum::<usize>()
        };
        let sizes: Vec<usize> = sessions.iter().copied().map(text).collect();
        let total: usize = sizes.iter().sum();
        println!("{} sessions, {messages} messages, {total} characters", sessions.len());
        println!("characters from {:?} to {:?}", sizes.iter().min(), sizes.iter().max());
        for kind in Kind::ALL {
            let of = |superseded: bool| {
                let facts = sessions.iter().flat_map(|session| &session.facts);
                facts.filter(|fact| fact.kind == kind && fact.superseded == superseded).count()
            };
            println!("{}: {} and {} superseded", kind.as_str(), of(false), of(true));
        }
        for (session, size) in sessions.iter().zip(&sizes) {
            let (facts, count) = (session.facts.len(), session.messages.len());
            println!(
                "{}: {count} messages, {size} characters, {} tokens, {facts} facts",
                session.name,
                tokens(session)
            );
        }
    }
}
