//! The contents of one simulated file: the pages in the cache, and the old pages on the disk.
//!
//! Only changed pages are kept twice. A page without an old copy is the same on the disk, filled with zeros, so the
//! cost of a sync depends on the changes since the last one and not on the length of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;

const PAGE: usize = 4096;

/// A page as it is on the disk.
#[derive(Debug)]
struct OldPage {
    /// The bytes, which may be shorter than a page; the rest is zeros.
    bytes: Vec<u8>,
    /// True if a failed sync marked it as clean: later syncs skip it, unless it changes again.
    lost: bool,
}

/// The bytes of a file.
#[derive(Debug, Default)]
pub(super) struct Pages {
    data: Vec<u8>,
    durable_len: usize,
    old: BTreeMap<usize, OldPage>,
}

impl Pages {
    /// Creates a file that is durable.
    pub(super) fn durable(data: Vec<u8>) -> Self {
        Self { durable_len: data.len(), data, old: BTreeMap::new() }
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.durable_len != self.data.len() || self.old.values().any(|page| !page.lost)
    }

    /// Writes at an offset, which may be beyond the end.
    pub(super) fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        self.keep_old(at..end);
        if end > self.data.len() {
            self.data.resize(end, 0);
        }
        self.data[at..end].copy_from_slice(bytes);
    }

    pub(super) fn resize(&mut self, len: usize) {
        self.keep_old(len..self.data.len());
        self.data.resize(len, 0);
    }

    pub(super) fn sync(&mut self) {
        self.old.retain(|_, page| page.lost);
        self.durable_len = self.data.len();
    }

    /// Simulates a failed write-back of Linux: the pages stay readable and are never written again.
    pub(super) fn fail_sync(&mut self) {
        for page in self.old.values_mut() {
            page.lost = true;
        }
    }

    /// Returns the contents after a power cut: of every changed page the old or the new version, and any length
    /// between.
    pub(super) fn survivor(&self, rng: &mut Rng) -> Vec<u8> {
        let (short, long) = (self.durable_len.min(self.data.len()), self.durable_len.max(self.data.len()));
        let keep = likelihood(rng);
        let mut image = self.data.clone();
        image.resize(long, 0);
        for (page, old) in &self.old {
            let range = page * PAGE..((page + 1) * PAGE).min(long);
            // A page that was cut off was not written, only forgotten.
            let cut_off = range.start >= self.data.len();
            let kept = rng.f64() < keep;
            if range.is_empty() || (kept && !old.lost && !cut_off) {
                continue;
            }
            let here = &mut image[range];
            here.fill(0);
            let part = old.bytes.len().min(here.len());
            here[..part].copy_from_slice(&old.bytes[..part]);
        }
        let len = match rng.u8(..5) {
            0 | 1 => self.durable_len,
            2 | 3 => self.data.len(),
            _ => rng.usize(short..=long),
        };
        image.truncate(len);
        image
    }

    fn keep_old(&mut self, bytes: Range<usize>) {
        if bytes.is_empty() {
            return;
        }
        for page in bytes.start / PAGE..=(bytes.end - 1) / PAGE {
            let end = ((page + 1) * PAGE).min(self.data.len());
            let data = self.data.get(page * PAGE..end).unwrap_or_default();
            self.old.entry(page).or_insert_with(|| OldPage { bytes: data.to_vec(), lost: false }).lost =
                false;
        }
    }
}

/// Returns the probability that a change survives: often one half, at times close or equal to 0 or 1.
pub(super) fn likelihood(rng: &mut Rng) -> f64 {
    [0.0, 0.5, 0.5, 0.5, 0.9, 1.0][rng.usize(..6)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn survivors(pages: &Pages) -> BTreeSet<Vec<u8>> {
        (0..500).map(|seed| pages.survivor(&mut Rng::with_seed(seed))).collect()
    }

    #[test]
    fn a_power_cut_keeps_synced_pages_only() {
        let mut pages = Pages::default();
        pages.write(&[7; 3 * PAGE], 0);
        pages.sync();
        pages.write(&[8; 10], 2 * PAGE);
        pages.resize(PAGE + 1);
        pages.write(&[9; 5], 2 * PAGE);
        pages.sync();
        assert!(!pages.is_dirty());
        assert_eq!(survivors(&pages), BTreeSet::from([pages.data().to_vec()]));
    }

    #[test]
    fn changed_pages_survive_in_any_combination() {
        let mut pages = Pages::durable(vec![b'-'; 3 * PAGE]);
        pages.write(&[b'+'; 3 * PAGE], 0);
        let seen: BTreeSet<String> = survivors(&pages)
            .iter()
            .map(|bytes| bytes.chunks(PAGE).map(|page| char::from(page[PAGE / 2])).collect())
            .collect();
        let all = ["+++", "++-", "+-+", "+--", "-++", "-+-", "--+", "---"];
        assert_eq!(seen, all.map(str::to_owned).into());
    }

    #[test]
    fn an_unsynced_tail_survives_or_is_zeros_or_is_lost_without_touching_synced_bytes() {
        let mut pages = Pages::durable(vec![b'-'; 100]);
        pages.write(&[b'+'; PAGE], 100);
        let seen = survivors(&pages);
        assert!(seen.iter().all(|bytes| bytes.len() >= 100 && bytes[..100] == [b'-'; 100]));
        assert!(seen.iter().any(|bytes| bytes.len() == 100));
        assert!(seen.contains(pages.data()));
        let full = |first, second| {
            move |bytes: &&Vec<u8>| bytes.len() == 100 + PAGE && bytes[100] == first && bytes[PAGE] == second
        };
        for (first, second) in [(0, 0), (0, b'+'), (b'+', 0)] {
            assert!(seen.iter().any(|bytes| full(first, second)(&bytes)), "{first} {second}");
        }
        assert!(seen.iter().any(|bytes| bytes.len() > 100 && bytes.len() < 100 + PAGE), "in between");
    }

    #[test]
    fn an_unsynced_truncation_may_be_undone() {
        let mut pages = Pages::durable((0..3 * PAGE).map(|at| (at / PAGE) as u8 + 1).collect());
        pages.resize(10);
        let seen = survivors(&pages);
        assert!(seen.contains(&vec![1; 10]));
        let mut whole = seen.iter().filter(|bytes| bytes.len() == 3 * PAGE).peekable();
        assert!(whole.peek().is_some());
        assert!(whole.all(|bytes| bytes[PAGE] == 2 && bytes[2 * PAGE] == 3));
        pages.resize(3 * PAGE);
        let mut expected = vec![0; 3 * PAGE];
        expected[..10].fill(1);
        assert_eq!(pages.data(), expected);
        pages.sync();
        assert_eq!(survivors(&pages), BTreeSet::from([expected]));
    }

    #[test]
    fn a_later_sync_does_not_write_the_pages_of_a_failed_one() {
        let mut pages = Pages::durable(vec![b'-'; 10]);
        pages.write(b"+", 0);
        pages.fail_sync();
        assert_eq!(pages.data()[0], b'+');
        pages.sync();
        assert_eq!(survivors(&pages), BTreeSet::from([vec![b'-'; 10]]));
        pages.write(b"+", 0);
        pages.sync();
        assert_eq!(survivors(&pages), BTreeSet::from([b"+---------".to_vec()]));
    }

    #[test]
    fn the_cost_of_a_sync_depends_on_the_changes() {
        let mut pages = Pages::durable(vec![0; 1000 * PAGE]);
        pages.write(b"x", 999 * PAGE);
        assert_eq!(pages.old.len(), 1);
    }
}
