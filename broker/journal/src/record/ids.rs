//! Subscription Identifiers in records, from memory or in stored form.

use std::fmt;

use tautwire_protocol::SubscriptionId;

/// The Subscription Identifiers of a delivery.
#[derive(Clone, Copy)]
pub enum Ids<'a> {
    /// In memory.
    Given(&'a [SubscriptionId]),
    /// Four bytes for each, already validated.
    Stored(StoredIds<'a>),
}

/// Subscription Identifiers in stored form. Only decoding creates them.
#[derive(Clone, Copy)]
pub struct StoredIds<'a>(&'a [u8]);

impl<'a> Ids<'a> {
    /// The empty list.
    pub const NONE: Ids<'static> = Ids::Given(&[]);

    pub(super) fn stored(bytes: &'a [u8]) -> Option<Ids<'a>> {
        let ids = StoredIds(bytes);
        let (whole, rest) = bytes.as_chunks::<4>();
        let are_valid = whole.iter().all(|id| SubscriptionId::new(u32::from_le_bytes(*id)).is_some());
        (are_valid && rest.is_empty()).then_some(Ids::Stored(ids))
    }

    /// Returns the number of identifiers.
    pub fn len(&self) -> usize {
        match self {
            Ids::Given(ids) => ids.len(),
            Ids::Stored(StoredIds(bytes)) => bytes.len() / 4,
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the identifiers.
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
