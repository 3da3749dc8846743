//! Sources of the decisions in a simulation.

/// A source of decisions.
pub(crate) trait Choices {
    /// A number below `bound`, which must not be 0.
    fn below(&mut self, bound: usize) -> usize;

    /// Returns true with a probability of `percent`.
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which must not be empty.
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Pseudorandom decisions from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same decisions.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }
}

impl Choices for Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Decisions under which nothing is split or delayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoDelays;

impl Choices for NoDelays {
    fn below(&mut self, bound: usize) -> usize {
        bound - 1
    }
}
