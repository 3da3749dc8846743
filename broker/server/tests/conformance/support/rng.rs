//! Reproducible pseudo-random numbers.

/// A generator, determined by its seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn byte(&mut self) -> u8 {
        (self.next() & 0xff) as u8
    }

    /// A number from 0 up to, not including, `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
