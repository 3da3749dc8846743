//! What a new subscription is owed.

use std::fmt::Debug;

use tautwire_memory::Charge;
use tautwire_message::{Body, Format, MessageId};
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_router::Scan;

use super::load_queue::LoadQueue;

/// Where a subscription began, among messages that are retained by another way than the one by which subscribers get them.
pub(crate) trait LiveStart: Debug + Send {
    /// Whether the subscription gets a message, which its topic retains now, as it is published.
    fn delivers(&self, retained: MessageId) -> bool;
}

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
    /// From where on the subscription gets messages as they are published: they are not sent as retained ones, too.
    pub(crate) live_from: Option<Box<dyn LiveStart>>,
    /// There was a subscription to the same filter before, for which something may be owed too.
    pub(crate) replaces: bool,
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) charge: Charge,
}
