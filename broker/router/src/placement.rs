//! The placement of clients on shards.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::ShardIndex;

/// Places clients on shards by a hash of their identifier. The hash is seeded, so that attackers cannot target one shard. It never changes
/// between versions of the broker: after a crash, the log identifies the placement by seed and number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The number of shards.
    shards: u8,
    seed: u64,
}

impl Placement {
    /// Creates a placement on `shards` shards, 1 to [`crate::SHARDS_MAX`].
    ///
    /// # Panics
    /// If `shards` is out of range.
    pub fn new(shards: usize, seed: u64) -> Placement {
        assert!((1..=crate::SHARDS_MAX).contains(&shards), "a set of shards is the bits of a word");
        Placement { shards: shards as u8, seed }
    }

    /// Like [`Placement::new`], for values from outside: returns `None` if the number of shards is out of range.
    pub fn checked(shards: usize, seed: u64) -> Option<Placement> {
        (1..=crate::SHARDS_MAX).contains(&shards).then(|| Placement::new(shards, seed))
    }

    /// Returns the number of shards.
    #[inline]
    pub fn shards(&self) -> usize {
        usize::from(self.shards)
    }

    /// Returns the seed, a secret random number.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the shard that owns the session of `client_id`.
    pub fn owner(&self, client_id: &str) -> ShardIndex {
        if self.shards == 1 {
            return ShardIndex(0);
        }
        ShardIndex((self.hash(client_id) % u64::from(self.shards)) as u8)
    }

    /// Returns an unpredictable hash of a client.
    pub(crate) fn hash(&self, client_id: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.seed, 0);
        hasher.write(client_id.as_bytes());
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placement_of_clients_is_stable() {
        let placement = Placement::new(5, 0x0123_4567_89ab_cdef);
        let owners = ["", "a", "sensor-17", "ü"].map(|client_id| placement.owner(client_id).0);
        assert_eq!(owners, [0, 3, 0, 3], "logs that are on disk would be read wrongly");
    }

    #[test]
    fn clients_are_distributed_over_all_shards() {
        let placement = Placement::new(4, 1);
        let mut counts = [0; 4];
        for number in 0..4_000 {
            counts[usize::from(placement.owner(&format!("client-{number}")).0)] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }
}
