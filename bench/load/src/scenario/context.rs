//! The context of a run.

use crate::broker::Broker;
use crate::mqtt::ProtocolVersion;
use crate::system::Placement;

/// The number of file descriptors for everything other than connections, in each process.
pub(super) const RESERVED_DESCRIPTORS: u64 = 100;

/// The broker and the run, for every scenario.
pub(crate) struct Context<'a> {
    pub broker: &'a Broker,
    pub version: ProtocolVersion,
    pub placement: &'a Placement,
    /// Stamped into every payload, so that strays of another run show.
    pub run: u32,
}
