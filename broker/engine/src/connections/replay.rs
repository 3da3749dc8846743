//! What a new subscription is owed.

use tautwire_cluster::names::PARTITIONS;
use tautwire_cluster::record::Place;
use tautwire_memory::Charge;
use tautwire_message::{Body, Format};
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_router::Scan;

use super::load_queue::LoadQueue;

/// Retained messages that a subscription is owed, as they were when it was made.
#[derive(Debug)]
pub(crate) struct Replay {
    /// It is sent once so many messages have left the session's queue: those that were there before it (see
    /// [`tautwire_session::Outbound::left_queue`]).
    pub(crate) after: u64,
    pub(crate) scan: Scan,
    /// The next one, taken from the scan and not sent yet.
    pub(crate) next: Option<Body>,
    /// What of it has been read.
    pub(crate) load_queue: LoadQueue,
    pub(crate) qos: QoS,
    pub(crate) identifier: Option<SubscriptionId>,
    pub(crate) format: Option<Format>,
    /// From where on the log of the cluster brings the subscription its messages, in each partition. What a topic retains from there on comes
    /// by the log, and not as a retained message.
    pub(crate) live_from: Option<Box<[Place; PARTITIONS as usize]>>,
    /// There was a subscription to the same filter before, for which something may be owed too.
    pub(crate) replaces: bool,
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) charge: Charge,
}
