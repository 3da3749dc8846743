//! Unpredictable random numbers.

use std::hash::{BuildHasher as _, RandomState};

/// Returns an unpredictable random number. Threads are seeded from the system's randomness.
pub fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn random_numbers_differ() {
        assert_eq!((0..1_000).map(|_| super::random()).collect::<HashSet<_>>().len(), 1_000);
    }
}
