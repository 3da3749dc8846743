//! The identity of a message in its payload.

/// The identity of a message, in every payload, so that each one is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PayloadStamp {
    pub seq: u64,
    pub publisher: u32,
    /// Distinguishes the messages of this run from strays of another.
    pub run: u32,
}
