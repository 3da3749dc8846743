//! Lists in records, from memory or as they are stored.

use std::fmt;

use tautwire_protocol::SubscriptionId;

use crate::numbers::SessionId;
use crate::record::Member;
use crate::record::decode::Cursor;

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

/// Members of shared subscriptions that a message was given to.
#[derive(Clone, Copy)]
pub enum Members<'a> {
    /// In memory.
    Given(&'a [Member<'a>]),
    /// As they are stored.
    Stored(StoredMembers<'a>),
}

/// Members as they are stored. Only decoding makes them.
#[derive(Clone, Copy)]
pub struct StoredMembers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Members<'a> {
    /// None at all.
    pub const NONE: Members<'static> = Members::Given(&[]);

    pub(super) fn stored(count: usize, bytes: &'a [u8]) -> Members<'a> {
        Members::Stored(StoredMembers { count, bytes })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Members::Given(members) => members.len(),
            Members::Stored(stored) => stored.count,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let (given, stored): (&[Member<'a>], &[u8]) = match self {
            Members::Given(members) => (members, &[]),
            Members::Stored(stored) => (&[], stored.bytes),
        };
        let mut cursor = Cursor::new(stored);
        given.iter().copied().chain(std::iter::from_fn(move || member(&mut cursor)))
    }
}

/// The next member, if there is one. It has been decoded once before, so nothing can be wrong.
fn member<'a>(cursor: &mut Cursor<'a>) -> Option<Member<'a>> {
    if cursor.is_at_end() {
        return None;
    }
    let session: SessionId = cursor.session().ok()?;
    Some(Member { session, share: cursor.text().ok()? })
}

impl PartialEq for Ids<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Ids<'_> {}

impl PartialEq for Members<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Members<'_> {}

impl fmt::Debug for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for StoredIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Debug for StoredMembers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} members", self.count)
    }
}
