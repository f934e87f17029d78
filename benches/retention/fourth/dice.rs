//! Owns chance: a seeded SplitMix64, the same numbers on every machine.

/// A seeded source of choices.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, 0 if there is none.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(1).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// A number from `low` up to and without `high`.
    pub(super) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low))
    }

    /// True in `percent` of 100 cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the texts, an empty one if there is none.
    pub(super) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let at = self.below(of.len());
        of.get(at).copied().unwrap_or_default()
    }

    /// A pattern with its signs filled in: `#` a digit, `%` a hexadecimal digit, `@` a capital letter.
    pub(super) fn pattern(&mut self, pattern: &str) -> String {
        let mut out = String::new();
        for sign in pattern.chars() {
            let (from, low) = match sign {
                '#' => ("0123456789", usize::from(!out.ends_with(|c: char| c.is_ascii_digit()))),
                '%' => ("0123456789abcdef", 0),
                '@' => ("ABCDEFGHJKLMNPQRSTUVWXYZ", 0),
                _ => {
                    out.push(sign);
                    continue;
                }
            };
            let at = self.range(low, from.len());
            out.extend(from.chars().nth(at));
        }
        out
    }
}
