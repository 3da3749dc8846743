//! The counters of a client.

use crate::machine::MachineCounters;

/// The counters of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The counters of the protocol machine.
    pub machine: MachineCounters,
    /// QoS 0 messages that were dropped because a stream was full.
    pub dropped_full: u64,
    /// Messages without a stream.
    pub unrouted: u64,
    /// Responses that arrived too late, twice, or for no request of this client.
    pub responses_dropped: u64,
    /// QoS 1 and 2 messages that were acknowledged and dropped because no stream claimed them.
    pub unclaimed_dropped: u64,
    /// How often reading was paused because a stream was full.
    pub reading_held_up: u64,
    /// Failed attempts to connect, and lost connections.
    pub disconnections: u64,
}
