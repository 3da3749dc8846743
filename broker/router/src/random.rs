//! Numbers that nobody can foretell.

use std::hash::{BuildHasher as _, RandomState};

/// A number that nobody can foretell, whatever numbers they have seen. The system's source of randomness seeds those of a thread.
pub fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn numbers_differ() {
        assert_eq!((0..1_000).map(|_| super::random()).collect::<HashSet<_>>().len(), 1_000);
    }
}
