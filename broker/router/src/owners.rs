//! The owners of retained messages, and their quotas.

use std::collections::HashMap;
use std::num::NonZeroU64;

/// The owner of a retained message: the client that set it last, as a seeded hash of its identifier. The identifier itself may be long, and
/// would be memory that no limit of retained messages counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetainedOwner(NonZeroU64);

impl RetainedOwner {
    pub(crate) fn from_hash(hash: u64) -> RetainedOwner {
        RetainedOwner(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MAX))
    }
}

/// The quota of one owner. `usize::MAX` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedQuota {
    /// Topics.
    pub messages: usize,
    /// Bytes of topics, payloads and properties, as in the limit of all retained messages.
    pub bytes: usize,
}

impl RetainedQuota {
    /// No quota.
    pub const NONE: RetainedQuota = RetainedQuota { messages: usize::MAX, bytes: usize::MAX };

    /// Whether there is a limit at all.
    pub fn is_bounded(&self) -> bool {
        *self != RetainedQuota::NONE
    }
}

/// The owner of a message, with its quota.
#[derive(Debug, Clone, Copy)]
pub struct RetainedClaim {
    /// The owner of the message.
    pub owner: RetainedOwner,
    /// The quota for all messages of this owner.
    pub quota: RetainedQuota,
}

/// The usage of each owner. Contains only owners with messages.
#[derive(Debug, Default)]
pub(crate) struct RetainedOwners {
    held: HashMap<RetainedOwner, OwnerUsage, foldhash::fast::RandomState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OwnerUsage {
    messages: usize,
    bytes: usize,
}

/// The memory of an owner besides its messages.
const OWNER_BYTES: usize = size_of::<(RetainedOwner, OwnerUsage)>() + 8;

impl RetainedOwners {
    /// Whether a message of `bytes` stays within the quota, if it replaces one of `replaced_bytes` of the same owner.
    pub(crate) fn admit(&self, claim: &RetainedClaim, bytes: usize, replaced_bytes: Option<usize>) -> bool {
        let held = self.held.get(&claim.owner).copied().unwrap_or_default();
        let messages = held.messages - usize::from(replaced_bytes.is_some()) + 1;
        let bytes = held.bytes - replaced_bytes.unwrap_or(0) + bytes;
        messages <= claim.quota.messages && bytes <= claim.quota.bytes
    }

    /// Adds a message of an owner.
    pub(crate) fn add(&mut self, owner: RetainedOwner, bytes: usize) {
        let held = self.held.entry(owner).or_default();
        held.messages += 1;
        held.bytes += bytes;
    }

    /// Removes a message of an owner.
    pub(crate) fn remove(&mut self, owner: RetainedOwner, bytes: usize) {
        let Some(held) = self.held.get_mut(&owner) else { return };
        held.messages -= 1;
        held.bytes -= bytes;
        if held.messages == 0 {
            self.held.remove(&owner);
            if self.held.len() < self.held.capacity() / 4 {
                self.held.shrink_to(2 * self.held.len());
            }
        }
    }

    /// Returns the approximate memory of the owners in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len() * OWNER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_charged_only_for_its_messages() {
        let owner = RetainedOwner::from_hash(0);
        let other = RetainedOwner::from_hash(7);
        let claim = RetainedClaim { owner, quota: RetainedQuota { messages: 2, bytes: 100 } };
        let mut owners = RetainedOwners::default();
        assert!(owners.admit(&claim, 100, None) && !owners.admit(&claim, 101, None));
        owners.add(owner, 60);
        owners.add(other, 1_000);
        assert!(owners.admit(&claim, 40, None) && !owners.admit(&claim, 41, None));
        assert!(owners.admit(&claim, 100, Some(60)) && !owners.admit(&claim, 101, Some(60)));
        owners.add(owner, 10);
        assert!(!owners.admit(&claim, 1, None), "that would be the third");
        assert!(owners.admit(&claim, 1, Some(10)));
        owners.remove(owner, 60);
        assert!(owners.admit(&claim, 90, None));
        owners.remove(owner, 10);
        owners.remove(other, 1_000);
        assert_eq!(owners.held_bytes(), 0);
    }

    #[test]
    fn owners_without_messages_use_no_memory() {
        let mut owners = RetainedOwners::default();
        for hash in 0..10_000 {
            owners.add(RetainedOwner::from_hash(hash), 1);
        }
        assert!(owners.held.capacity() >= 10_000);
        for hash in 0..10_000 {
            owners.remove(RetainedOwner::from_hash(hash), 1);
        }
        assert_eq!(owners.held_bytes(), 0);
        assert!(owners.held.capacity() < 10, "{} places stay", owners.held.capacity());
    }
}
