//! Indices of connections and sessions within a shard, as distinct types; and times.

use std::num::{NonZeroU32, NonZeroU64};

/// A time in milliseconds; an `Option` of it takes no more space.
pub(crate) type NonZeroMs = NonZeroU64;

/// The deadline of a slot's timer, if it is armed. The slot keeps it when its occupant changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimerState(Option<NonZeroMs>);

impl TimerState {
    /// Arms the timer for `at_ms` unless it fires sooner. Returns whether the timer wheel must be set.
    pub(crate) fn arm(&mut self, at_ms: u64) -> bool {
        let sooner = self.0.is_none_or(|armed| armed.get() > at_ms);
        if sooner {
            self.0 = NonZeroMs::new(at_ms);
        }
        sooner
    }

    /// Disarms the timer when it fires. Returns false for a timer that an earlier one has replaced.
    pub(crate) fn disarm(&mut self, now_ms: u64) -> bool {
        let due = self.0.is_some_and(|armed| armed.get() <= now_ms);
        if due {
            self.0 = None;
        }
        due
    }
}

/// A connection's slot in its shard, and a generation that tells the slot's occupants apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The index of the slot.
    pub index: u32,
    /// How often the slot has been used.
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
            /// The slot with this number, from 0. Returns `None` above the largest number.
            pub(crate) fn new(number: usize) -> Option<$name> {
                u32::try_from(number).ok()?.checked_add(1).and_then(NonZeroU32::new).map($name)
            }

            /// The slot's number, from 0.
            #[inline]
            pub(crate) fn number(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    };
}

index_type! {
    /// A connection's slot. Valid only while the same connection is known to be in it.
    ConnectionIndex
}

index_type! {
    /// A session's slot. Valid only while the same session is known to be in it.
    SessionIndex
}

/// The index of an entry in a shard's table of server limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerLimitsIndex(pub(crate) u16);

impl ServerLimitsIndex {
    /// For connections that have not received CONNACK.
    pub(crate) const NONE: ServerLimitsIndex = ServerLimitsIndex(0);
}

/// Bytes of address space that a large table reserves from the start. The allocator maps a block of this size by itself: untouched pages
/// take no memory, and a larger block is remapped instead of copied. A table that grows in the heap would leave its old blocks behind.
const TABLE_RESERVED_BYTES: usize = 4 << 20;

/// How many slots a large table reserves from the start.
pub const fn reserved_slots<T>() -> usize {
    TABLE_RESERVED_BYTES.div_ceil(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_start_at_zero_and_optional_ones_have_the_same_size() {
        assert_eq!(ConnectionIndex::new(0).map(ConnectionIndex::number), Some(0));
        assert_eq!(SessionIndex::new(u32::MAX as usize - 1).map(SessionIndex::number), Some(u32::MAX as usize - 1));
        assert_eq!(SessionIndex::new(u32::MAX as usize), None);
        assert_eq!(size_of::<Option<ConnectionIndex>>(), 4);
    }
}
