//! Subscription Identifiers in records, from memory or as they are stored.

use std::fmt;

use tautwire_protocol::SubscriptionId;

/// Subscription Identifiers of a delivery.
#[derive(Clone, Copy)]
pub enum Ids<'a> {
    /// In memory.
    Given(&'a [SubscriptionId]),
    /// Four bytes for each, which have been looked at.
    Stored(StoredIds<'a>),
}

/// Subscription Identifiers as they are stored. Only decoding makes them.
#[derive(Clone, Copy)]
pub struct StoredIds<'a>(&'a [u8]);

impl<'a> Ids<'a> {
    /// None at all.
    pub const NONE: Ids<'static> = Ids::Given(&[]);

    pub(super) fn stored(bytes: &'a [u8]) -> Option<Ids<'a>> {
        let ids = StoredIds(bytes);
        let (whole, rest) = bytes.as_chunks::<4>();
        let are_valid = whole.iter().all(|id| SubscriptionId::new(u32::from_le_bytes(*id)).is_some());
        (are_valid && rest.is_empty()).then_some(Ids::Stored(ids))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Ids::Given(ids) => ids.len(),
            Ids::Stored(StoredIds(bytes)) => bytes.len() / 4,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = SubscriptionId> + use<'a> {
        let (given, stored): (&[SubscriptionId], &[u8]) = match self {
            Ids::Given(ids) => (ids, &[]),
            Ids::Stored(StoredIds(bytes)) => (&[], bytes),
        };
        let stored = stored.as_chunks::<4>().0.iter();
        given.iter().copied().chain(stored.filter_map(|id| SubscriptionId::new(u32::from_le_bytes(*id))))
    }
}

impl PartialEq for Ids<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Ids<'_> {}

impl fmt::Debug for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for StoredIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
