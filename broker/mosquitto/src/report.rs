//! What has been taken over, and what stays behind.

use std::collections::BTreeMap;
use std::fmt;

/// So many names are given for each reason.
const EXAMPLES_MAX: usize = 5;

/// Why something is not taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The session ends with its connection, and Mosquitto has ended all connections.
    CleanSession,
    /// The session has expired.
    SessionExpired,
    /// The client is there already, or its identifier is no text.
    InvalidClient,
    /// Something of a client that has no session.
    SessionMissing,
    /// The subscription is not one by the standard.
    InvalidSubscription,
    /// The message has expired.
    MessageExpired,
    /// The file does not have the message. Mosquitto leaves out those that have expired.
    MessageMissing,
    /// Topic, QoS or properties of the message are not those of a message by the standard.
    InvalidMessage,
    /// A message with QoS 0 for a client that is away.
    AtMostOnce,
    /// A message that Mosquitto has not answered, so its publisher sends it again.
    Unacknowledged,
    /// How far the message is, is not known.
    UnknownState,
    /// A part of the file that later versions may have.
    UnknownChunk,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::CleanSession => "sessions that end with their connection",
            Reason::SessionExpired => "sessions that have expired",
            Reason::InvalidClient => "clients that are there twice, or whose identifiers are not valid",
            Reason::SessionMissing => "subscriptions and messages of clients without a session",
            Reason::InvalidSubscription => "subscriptions that the standard does not allow",
            Reason::MessageExpired => "messages that have expired",
            Reason::MessageMissing => "messages that are not in the file, most likely since they have expired",
            Reason::InvalidMessage => "messages that the standard does not allow",
            Reason::AtMostOnce => "messages with QoS 0 for clients that are away, which are never kept here",
            Reason::Unacknowledged => "messages that Mosquitto has not answered; their publishers send them again",
            Reason::UnknownState => "messages in a state that is not known",
            Reason::UnknownChunk => "parts of the file that are not known",
        })
    }
}

/// What has been taken over, and what stays behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions.
    pub sessions: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Messages that wait in queues; one that waits in several counts for each.
    pub queued: u64,
    /// Messages that have been sent and not acknowledged to the end.
    pub in_flight: u64,
    /// QoS 2 messages from clients whose PUBREL has not come.
    pub unreleased: u64,
    /// Retained messages.
    pub retained: u64,
    skipped: BTreeMap<Reason, SkippedItems>,
}

/// What stays behind for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SkippedItems {
    count: u64,
    examples: Vec<String>,
}

impl Report {
    /// What stays behind: why, how much of it, and some names, which are not made safe for a terminal.
    pub fn skipped(&self) -> impl Iterator<Item = (Reason, u64, &[String])> {
        self.skipped.iter().map(|(reason, skipped)| (*reason, skipped.count, &skipped.examples[..]))
    }

    /// How much stays behind for that reason.
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
