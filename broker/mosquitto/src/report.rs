//! What was imported, and what was skipped.

use std::collections::BTreeMap;
use std::fmt;

/// The maximum number of examples for each reason.
const EXAMPLES_MAX: usize = 5;

/// Why an item is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The session ends with its connection, and Mosquitto has closed all connections.
    CleanSession,
    /// The session has expired.
    SessionExpired,
    /// The client occurs twice, or its identifier is not valid.
    InvalidClient,
    /// An item of a client that has no session.
    SessionMissing,
    /// The subscription is not valid by the standard.
    InvalidSubscription,
    /// The message has expired.
    MessageExpired,
    /// The message is not in the file. Mosquitto omits expired messages.
    MessageMissing,
    /// Topic, QoS or properties of the message are not valid by the standard.
    InvalidMessage,
    /// A QoS 0 message for an offline client.
    AtMostOnce,
    /// A message that Mosquitto has not acknowledged, so its publisher retransmits it.
    Unacknowledged,
    /// The state of the delivery is unknown.
    UnknownState,
    /// A chunk of an unknown kind, perhaps of a later version.
    UnknownChunk,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::CleanSession => "sessions that end with their connection",
            Reason::SessionExpired => "sessions that have expired",
            Reason::InvalidClient => "clients that occur twice or have an invalid identifier",
            Reason::SessionMissing => "subscriptions and messages of clients without a session",
            Reason::InvalidSubscription => "subscriptions that the standard does not allow",
            Reason::MessageExpired => "messages that have expired",
            Reason::MessageMissing => "messages that are not in the file, most likely because they have expired",
            Reason::InvalidMessage => "messages that the standard does not allow",
            Reason::AtMostOnce => "QoS 0 messages for offline clients, which this broker never stores",
            Reason::Unacknowledged => "messages that Mosquitto has not acknowledged; their publishers retransmit them",
            Reason::UnknownState => "messages in an unknown state",
            Reason::UnknownChunk => "parts of the file of an unknown kind",
        })
    }
}

/// What was imported, and what was skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions.
    pub sessions: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Queued messages; one in several queues counts for each.
    pub queued: u64,
    /// Messages that have been sent and not fully acknowledged.
    pub in_flight: u64,
    /// QoS 2 messages from clients that have not sent PUBREL yet.
    pub unreleased: u64,
    /// Retained messages.
    pub retained: u64,
    skipped: BTreeMap<Reason, SkippedItems>,
}

/// The items that are skipped for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SkippedItems {
    count: u64,
    examples: Vec<String>,
}

impl Report {
    /// The skipped items: reason, number and some names, which are not escaped for a terminal.
    pub fn skipped(&self) -> impl Iterator<Item = (Reason, u64, &[String])> {
        self.skipped.iter().map(|(reason, skipped)| (*reason, skipped.count, &skipped.examples[..]))
    }

    /// The number of items that are skipped for this reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.skipped.get(&reason).map_or(0, |skipped| skipped.count)
    }

    pub(crate) fn skip(&mut self, reason: Reason, name: &[u8]) {
        let skipped = self.skipped.entry(reason).or_default();
        skipped.count += 1;
        if skipped.examples.len() < EXAMPLES_MAX {
            let name = String::from_utf8_lossy(name).into_owned();
            if !skipped.examples.contains(&name) {
                skipped.examples.push(name);
            }
        }
    }

    pub(crate) fn skip_unnamed(&mut self, reason: Reason, count: u64) {
        if count > 0 {
            self.skipped.entry(reason).or_default().count += count;
        }
    }
}
