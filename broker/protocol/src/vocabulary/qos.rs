/// Quality of service of a message or a subscription (section 4.3). Ordered from weakest to strongest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: delivered once or not at all.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: delivered once or more often.
    AtLeastOnce = 1,
    /// QoS 2: delivered once.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS of the two bits on the wire; `None` for 3 and above.
    #[inline]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The value on the wire: 0, 1 or 2.
    #[inline]
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// The lower of the two, as a server computes it from a message and a granted subscription `[MQTT-3.8.4-8]`.
    #[inline]
    pub const fn min(self, other: Self) -> Self {
        if (self as u8) < (other as u8) { self } else { other }
    }
}
