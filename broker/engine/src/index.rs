//! How connections and sessions are named within a shard, so that the two cannot be mixed up; and moments.

use std::num::{NonZeroU32, NonZeroU64};

/// A moment that takes no more room in an `Option`.
pub(crate) type NonZeroMs = NonZeroU64;

/// When the timer of a place comes up. It belongs to the place and survives who has it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimerState(Option<NonZeroMs>);

impl TimerState {
    /// Sets the timer to `at_ms`, unless it comes up sooner anyway; says whether it must be set.
    pub(crate) fn arm(&mut self, at_ms: u64) -> bool {
        let sooner = self.0.is_none_or(|armed| armed.get() > at_ms);
        if sooner {
            self.0 = NonZeroMs::new(at_ms);
        }
        sooner
    }

    /// The timer has come up; false where a sooner one has made it superfluous.
    pub(crate) fn disarm(&mut self, now_ms: u64) -> bool {
        let due = self.0.is_some_and(|armed| armed.get() <= now_ms);
        if due {
            self.0 = None;
        }
        due
    }
}

/// A connection's place in its shard. The generation tells it from a later one in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The place.
    pub index: u32,
    /// How often the place has been taken.
    pub generation: u32,
}

macro_rules! index_type {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(NonZeroU32);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.number().fmt(f)
            }
        }

        impl $name {
            /// The place with this number, from 0; `None` past the last that can be numbered.
            pub(crate) fn new(number: usize) -> Option<$name> {
                u32::try_from(number).ok()?.checked_add(1).and_then(NonZeroU32::new).map($name)
            }

            /// Its number, from 0.
            #[inline]
            pub(crate) fn number(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    };
}

index_type! {
    /// A connection's place, by those who know that the same connection is still there.
    ConnectionIndex
}

index_type! {
    /// A session's place, by those who know that the same session is still there.
    SessionIndex
}

/// Where terms are among those of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerLimitsIndex(pub(crate) u16);

impl ServerLimitsIndex {
    /// Of those who have been told nothing.
    pub(crate) const NONE: ServerLimitsIndex = ServerLimitsIndex(0);
}

/// So many bytes of address space a large table takes from the start. An allocator maps such a block by itself: pages that nobody has
/// touched take no memory, and what is larger later is mapped to another place instead of being copied. A table that grows in the heap
/// leaves the places behind where it has been.
const TABLE_RESERVED_BYTES: usize = 4 << 20;

/// How many places a large table has room for from the start.
pub const fn reserved_slots<T>() -> usize {
    TABLE_RESERVED_BYTES.div_ceil(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_numbered_from_zero_and_optional_ones_take_no_more_room() {
        assert_eq!(ConnectionIndex::new(0).map(ConnectionIndex::number), Some(0));
        assert_eq!(SessionIndex::new(u32::MAX as usize - 1).map(SessionIndex::number), Some(u32::MAX as usize - 1));
        assert_eq!(SessionIndex::new(u32::MAX as usize), None);
        assert_eq!(size_of::<Option<ConnectionIndex>>(), 4);
    }
}
