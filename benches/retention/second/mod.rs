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
