//! What has been taken over, and what stays behind.

use std::collections::BTreeMap;
use std::fmt;

/// So many names are given for each reason.
const EXAMPLES_MAX: usize = 5;

/// Why something is not taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The session ends with its connection, and Mosquitto has ended all connections.
    SessionEnds,
    /// The session has expired.
    SessionExpired,
    /// The client is there already, or its identifier is no text.
    ClientWrong,
    /// Something of a client that has no session.
    NoSession,
    /// The subscription is not one by the standard.
    SubscriptionWrong,
    /// The message has expired.
    MessageExpired,
    /// The file does not have the message. Mosquitto leaves out those that have expired.
    MessageMissing,
    /// Topic, QoS or properties of the message are not those of a message by the standard.
    MessageWrong,
    /// A message with QoS 0 for a client that is away.
    AtMostOnce,
    /// A message that Mosquitto has not answered, so its publisher sends it again.
    Unanswered,
    /// How far the message is, is not known.
    StateUnknown,
    /// A part of the file that later versions may have.
    ChunkUnknown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::SessionEnds => "sessions that end with their connection",
            Reason::SessionExpired => "sessions that have expired",
            Reason::ClientWrong => "clients that are there twice, or whose identifiers are not valid",
            Reason::NoSession => "subscriptions and messages of clients without a session",
            Reason::SubscriptionWrong => "subscriptions that the standard does not allow",
            Reason::MessageExpired => "messages that have expired",
            Reason::MessageMissing => "messages that are not in the file, most likely since they have expired",
            Reason::MessageWrong => "messages that the standard does not allow",
            Reason::AtMostOnce => "messages with QoS 0 for clients that are away, which are never kept here",
            Reason::Unanswered => "messages that Mosquitto has not answered; their publishers send them again",
            Reason::StateUnknown => "messages in a state that is not known",
            Reason::ChunkUnknown => "parts of the file that are not known",
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
    left: BTreeMap<Reason, Left>,
}

/// What stays behind for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Left {
    count: u64,
    examples: Vec<String>,
}

impl Report {
    /// What stays behind: why, how much of it, and some names, which are not made safe for a terminal.
    pub fn left(&self) -> impl Iterator<Item = (Reason, u64, &[String])> {
        self.left.iter().map(|(reason, left)| (*reason, left.count, &left.examples[..]))
    }

    /// How much stays behind for that reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.left.get(&reason).map_or(0, |left| left.count)
    }

    pub(crate) fn leave(&mut self, reason: Reason, name: &[u8]) {
        let left = self.left.entry(reason).or_default();
        left.count += 1;
        if left.examples.len() < EXAMPLES_MAX {
            let name = String::from_utf8_lossy(name).into_owned();
            if !left.examples.contains(&name) {
                left.examples.push(name);
            }
        }
    }

    pub(crate) fn leave_unnamed(&mut self, reason: Reason, count: u64) {
        if count > 0 {
            self.left.entry(reason).or_default().count += count;
        }
    }
}
