//! Rounds in changing order, and what is made of their figures.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// Small random numbers, good enough for an order and for letters: splitmix64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Other numbers each time.
    pub(crate) fn from_clock() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(now.as_secs() ^ (u64::from(now.subsec_nanos()) << 32))
    }

    /// A number below `end`, which is small against 2^64 and not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Has each contestant run once a round, every round in another order. Returns what came of it, for each
/// contestant by round.
///
/// # Errors
///
/// The first that a run gives.
pub(crate) fn rounds<C, F>(
    contestants: &[C],
    count: usize,
    mut run: impl FnMut(&C) -> io::Result<F>,
) -> io::Result<Vec<Vec<F>>> {
    let mut random = Random::from_clock();
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    let mut figures: Vec<Vec<F>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..count {
        random.shuffle(&mut order);
        for &index in &order {
            figures[index].push(run(&contestants[index])?);
        }
    }
    Ok(figures)
}

/// The middle one; NaN of none.
pub(crate) fn median(figures: &[f64]) -> f64 {
    percentile(figures, 50)
}

/// The figure that so many percent are not above; NaN of none.
pub(crate) fn percentile(figures: &[f64], percent: usize) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or(f64::NAN)
}

/// The median of the ratios within each round: what slowed a whole round down falls out of it.
pub(crate) fn median_ratio(figures: &[f64], reference: &[f64]) -> f64 {
    let ratios: Vec<f64> =
        figures.iter().zip(reference).map(|(figure, other)| figure / other).collect();
    median(&ratios)
}
