//! Wills: what becomes of one when its client's connection ends, and when the client comes back.
//!
//! A will stays in the record of its session until it has been published. Whoever owns the session, or claims it after its owner has died, sees
//! to it: one at a time, by the CAS of the record. So that it is published once, it gets an ordinal like a QoS 2 message: who claims the session
//! of a dead node knows from the burial record whether it is in the log.

use crate::mutant::{Mutant, is};
use crate::operation::Start;
use crate::record::{DueWill, NEVER_EXPIRES, SessionRecord, Will};

/// What holds when the connection of a client ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisconnectSettings {
    /// Session Expiry Interval, in seconds. At 0, the session ends with the connection [MQTT 5.0 section 3.1.2.11.2].
    pub expiry_s: u32,
    /// What is to be published then. DISCONNECT removes it [MQTT-3.14.4-3].
    pub will: Option<Will>,
}

impl Default for DisconnectSettings {
    fn default() -> DisconnectSettings {
        DisconnectSettings { expiry_s: NEVER_EXPIRES, will: None }
    }
}

/// How long after the end of the connection a will is published: after its delay, or when the session ends [MQTT-3.1.2-8].
pub(crate) fn delay_ms(will: &Will, expiry_s: u32) -> u64 {
    if is(Mutant::PublishesWillsAtOnce) {
        return 0;
    }
    u64::from(will.delay_s.min(expiry_s)) * 1000
}

/// What the will of the last connection becomes when the client has a new one.
pub(crate) fn at_return(record: &SessionRecord, start: Start) -> Option<DueWill> {
    let will = record.will.as_ref()?;
    // Whoever comes back in time cancels a will that has a delay [MQTT-3.1.3-9]. A clean start ends the session, and that calls for the will.
    let is_due = match start {
        Start::Clean => !is(Mutant::DropsWills),
        Start::Resume => delay_ms(will, record.expiry_s) == 0 || is(Mutant::IgnoresReturn),
    };
    is_due.then(|| DueWill { will: will.clone(), intent: None })
}
