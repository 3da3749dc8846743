//! Wills: their handling when a client's connection ends and when the client returns.
//!
//! A will stays in the record of its session until it was published. The owner of the session, or the node that claims it after the owner's
//! death, publishes it: one node at a time, by a compare-and-set of the record. To be published only once, it gets an ordinal like a QoS 2
//! message: a node that claims the session of a dead node knows from the removal record whether the will is in the log.

use crate::mutant::{Mutant, is};
use crate::operation::Start;
use crate::record::{DueWill, NEVER_EXPIRES, SessionRecord, Will};

/// The settings that apply when the connection of a client ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisconnectSettings {
    /// Session Expiry Interval, in seconds. At 0, the session ends with the connection [MQTT 5.0 section 3.1.2.11.2].
    pub expiry_s: u32,
    /// The will to publish then. DISCONNECT removes it [MQTT-3.14.4-3].
    pub will: Option<Will>,
}

impl Default for DisconnectSettings {
    fn default() -> DisconnectSettings {
        DisconnectSettings { expiry_s: NEVER_EXPIRES, will: None }
    }
}

/// Returns how long after the end of the connection a will is published: after its delay, or when the session ends [MQTT-3.1.2-8].
pub(crate) fn delay_ms(will: &Will, expiry_s: u32) -> u64 {
    if is(Mutant::IgnoresWillDelay) {
        return 0;
    }
    u64::from(will.delay_s.min(expiry_s)) * 1000
}

/// Returns the will of the previous connection that is due when the client connects again.
pub(crate) fn at_return(record: &SessionRecord, start: Start) -> Option<DueWill> {
    let will = record.will.as_ref()?;
    // A client that returns in time cancels a delayed will [MQTT-3.1.3-9]. A clean start ends the session, which publishes the will.
    let is_due = match start {
        Start::Clean => !is(Mutant::DropsWills),
        Start::Resume => delay_ms(will, record.expiry_s) == 0 || is(Mutant::IgnoresReconnect),
    };
    is_due.then(|| DueWill { will: will.clone(), intent: None })
}
