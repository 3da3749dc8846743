//! What a new subscription is owed.

use tautwire_memory::Charge;
use tautwire_message::{Body, Format};
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_router::Scan;

use super::read_back::ReadBack;

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
    pub(crate) read_back: ReadBack,
    pub(crate) qos: QoS,
    pub(crate) identifier: Option<SubscriptionId>,
    pub(crate) format: Option<Format>,
    /// There was a subscription to the same filter before, for which something may be owed too.
    pub(crate) replaces: bool,
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) charge: Charge,
}
