use core::num::{NonZeroU16, NonZeroU32};

/// A packet identifier, never zero (section 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// Creates an identifier; `None` for zero, which is not a packet identifier `[MQTT-2.2.1-3]`.
    #[inline]
    pub const fn new(value: u16) -> Option<Self> {
        match NonZeroU16::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number on the wire, 1 to 65,535.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

/// A subscription identifier: 1 to 268,435,455 (section 3.8.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(NonZeroU32);

impl SubscriptionId {
    /// The largest subscription identifier: the maximum of a variable byte integer.
    pub const MAX: u32 = crate::wire::MAX_VARIABLE_BYTE_INTEGER;

    /// Creates an identifier; `None` for zero and above [`Self::MAX`].
    #[inline]
    pub const fn new(value: u32) -> Option<Self> {
        match NonZeroU32::new(value) {
            Some(value) if value.get() <= Self::MAX => Some(Self(value)),
            _ => None,
        }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}
