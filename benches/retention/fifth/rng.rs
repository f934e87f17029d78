//! Owns the small seeded generator of random numbers that makes the sessions the same each time.

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, zero if there is none.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(1).max(1);
        usize::try_from(self.bits() % limit).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// One of the items.
    pub(super) fn pick(&mut self, items: &[&'static str]) -> &'static str {
        let at = self.below(items.len());
        items.get(at).copied().unwrap_or_default()
    }

    /// The items in another order.
    pub(super) fn shuffled(&mut self, items: &[&'static str]) -> Vec<&'static str> {
        let mut left = items.to_vec();
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let at = self.below(left.len());
            order.push(left.swap_remove(at));
        }
        order
    }

    /// A pattern filled in: `#` a digit, `?` a hexadecimal digit, `^` a capital letter.
    pub(super) fn pattern(&mut self, pattern: &str) -> String {
        pattern
            .chars()
            .map(|sign| match sign {
                '#' => self.letter("0123456789"),
                '?' => self.letter("0123456789abcdef"),
                '^' => self.letter("ABCDEFGHJKLMNPQRSTUVWXYZ"),
                other => other,
            })
            .collect()
    }

    fn letter(&mut self, letters: &str) -> char {
        let at = self.below(letters.len());
        letters.chars().nth(at).unwrap_or('0')
    }
}
