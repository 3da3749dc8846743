//! Replays of retained messages for new subscriptions.

use std::fmt::Debug;

use tautwire_memory::Charge;
use tautwire_message::{Body, Format, MessageId};
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_router::Scan;

use super::load_queue::LoadQueue;

/// Where the live messages of a subscription begin, if retained messages arrive by another path than live ones.
pub(crate) trait LiveStart: Debug + Send {
    /// Whether the subscription gets this message, which its topic retains now, as a live message.
    fn delivers(&self, retained: MessageId) -> bool;
}

/// The retained messages to send for a subscription, as of when it was made.
#[derive(Debug)]
pub(crate) struct Replay {
    /// It starts once this many messages have left the session's queue, which are those from before the subscription (see
    /// [`tautwire_session::Outbound::left_queue`]).
    pub(crate) after: u64,
    pub(crate) scan: Scan,
    /// The next message, taken from the scan and not sent yet.
    pub(crate) next: Option<Body>,
    /// The messages that are loaded for it.
    pub(crate) load_queue: LoadQueue,
    pub(crate) qos: QoS,
    pub(crate) identifier: Option<SubscriptionId>,
    pub(crate) format: Option<Format>,
    /// Where live messages begin, which are not sent as retained ones too.
    pub(crate) live_from: Option<Box<dyn LiveStart>>,
    /// Whether it replaces a subscription to the same filter, which may have a replay too.
    pub(crate) replaces: bool,
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) charge: Charge,
}
