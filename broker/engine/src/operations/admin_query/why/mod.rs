//! Explains whether a message on a topic would reach a client now, and why not.

mod steps;

use std::sync::Arc;

use tautwire_contracts::OnViolation;
use tautwire_message::Format;
use tautwire_protocol::{QoS, RetainHandling};
use tautwire_router::SessionKey;
use tautwire_session::SubscriptionRecord;

use crate::operations::refusal::{HypotheticalPublish, PublishDecision, PublishRefusal};
use crate::session::drops::DropEvent;
use crate::session::slow_consumer::SlowConsumer;

/// The maximum number of similar filters that are reported if none matches.
const NEAREST_MAX: usize = 3;

/// A query whether a message would reach a client.
#[derive(Debug, Clone)]
pub struct WhyQuery {
    /// The name of the client's session.
    pub name: Box<str>,
    /// The message, shared because its payload may be large.
    pub message: Arc<HypotheticalPublish>,
}

/// What would happen to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The client gets it immediately.
    Arrives,
    /// It is queued, and the client gets it later.
    Queued,
    /// One member of a shared subscription gets it; the client is a member.
    OneOfMany,
    /// The client does not get it.
    DoesNotArrive,
    /// Unknown here: another node of the cluster may serve the client.
    Elsewhere,
}

impl DeliveryOutcome {
    /// The code for operators, which never changes.
    pub fn code(self) -> &'static str {
        match self {
            DeliveryOutcome::Arrives => "arrives",
            DeliveryOutcome::Queued => "queued",
            DeliveryOutcome::OneOfMany => "shared",
            DeliveryOutcome::DoesNotArrive => "does_not_arrive",
            DeliveryOutcome::Elsewhere => "other_node",
        }
    }
}

/// A fact that affects the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryResult {
    /// The client has no session.
    NoSession,
    /// This broker of a cluster does not serve the client's session. Another one may, or it is in the store.
    NotServedHere,
    /// The broker refuses the message.
    Refused(PublishRefusal),
    /// The queue of a session is full, and reading from the publisher is paused until it has room.
    PublisherPaused,
    /// The given publisher is not connected here, so its permissions are not known.
    NoPublisher,
    /// The client is refused for a time, because it reconnects too often.
    BlockedForFlapping,
    /// No subscription matches; these filters are the most similar.
    NotSubscribed(Vec<Box<str>>),
    /// The access rules would refuse a subscription to the topic.
    NotAllowed,
    /// A subscription matches.
    Subscribed {
        /// Its filter, mount point included.
        filter: Box<str>,
        /// The granted QoS, and the other options.
        record: SubscriptionRecord,
    },
    /// A shared subscription matches: each message goes to one member.
    Shared {
        /// The filter with its group.
        filter: Box<str>,
        /// Granted QoS.
        qos: QoS,
        /// All members, this client included.
        members: usize,
        /// Connected members.
        connected: usize,
    },
    /// Messages of the group are queued, because no member has room for them; the next one is queued behind them.
    SharedQueue {
        /// The filter with its group.
        filter: Box<str>,
        /// The number of messages.
        messages: usize,
        /// Their size in bytes.
        bytes: usize,
    },
    /// The recent messages of the group on this topic, by receiver.
    SharedDispatches {
        /// The filter with its group.
        filter: Box<str>,
        /// For this client: the number, and the time of the last one.
        own: Option<(usize, u64)>,
        /// For other members.
        others: Option<OtherDispatches>,
    },
    /// The client's own messages are not sent to it.
    NoLocal,
    /// The granted QoS is lower than that of the message.
    QoSReduced(QoS),
    /// The topic is outside of the client's mount point.
    OutsideMount(Box<str>),
    /// Payloads of the topic's contract cannot be converted to the requested format.
    CannotTranscode(Format),
    /// The client is offline; its session expires at this time.
    Offline(Option<u64>),
    /// The client is offline, and messages of QoS 0 are not queued.
    OfflineAtMostOnce,
    /// The client's queue is full.
    QueueFull {
        /// The limit that was reached.
        limit: QueueLimit,
        /// What happens to the message.
        policy: SlowConsumer,
    },
    /// This many messages are queued before it.
    Behind(usize),
    /// This many messages are unacknowledged, which is the maximum that the client or a limit allows.
    WindowFull(usize),
    /// This many bytes of output are pending, which is the maximum.
    OutputFull(usize),
    /// Some output is pending, and there is room for more.
    OutputPending {
        /// Pending bytes.
        pending_bytes: usize,
        /// The largest message of QoS 0 that fits.
        left_bytes: usize,
    },
    /// There is no memory for more output of QoS 0.
    NoMemoryForOutput,
    /// Packets larger than that are not sent to the client.
    PacketLimit(u32),
    /// The message is larger than the client accepts.
    TooLarge,
    /// The contract of the topic, and the action for payloads that violate it.
    Contract(Box<str>, OnViolation),
    /// The topic has a retained message, which a new subscription gets.
    Retained,
    /// The Retain Handling of the matching subscriptions, which do not always get the retained message; `None` if they are shared.
    RetainHandling(Option<RetainHandling>),
}

/// The limit that a full queue has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// The limit of the session, in messages or bytes.
    Session,
    /// The memory limit of the session.
    Memory,
    /// The limit of all sessions of its user.
    User,
}

/// Messages of a group that other members got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherDispatches {
    /// The number of messages.
    pub count: usize,
    /// The time of the last one, in milliseconds since the Unix epoch.
    pub last_ms: u64,
    /// The member that got it.
    pub member: SessionKey,
    /// The name of the member's session; `None` until its shard was queried (see [`AdminQuery::Name`](super::AdminQuery::Name)), and if it
    /// has ended.
    pub name: Option<Box<str>>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What would happen to the message.
    pub outcome: DeliveryOutcome,
    /// The reasons, the decisive one first.
    pub findings: Vec<QueryResult>,
    /// Messages that the client did not get, the latest last.
    pub drops: Vec<DropEvent>,
}

/// A scan of the client's subscriptions.
#[derive(Debug)]
pub(crate) struct SubscriptionScan {
    query: WhyQuery,
    after: Box<str>,
    is_done: bool,
    matching: Vec<(Box<str>, SubscriptionRecord)>,
    nearest: Vec<(usize, Box<str>)>,
}

impl Explanation {
    /// Adds the decision about publishing the message.
    #[must_use]
    pub fn after(mut self, decision: PublishDecision) -> Explanation {
        match decision {
            PublishDecision::Accepted => {}
            PublishDecision::Refused(refusal) => {
                self.outcome = DeliveryOutcome::DoesNotArrive;
                self.findings.insert(0, QueryResult::Refused(refusal));
            }
            PublishDecision::PublisherPaused => {
                self.outcome =
                    if self.outcome == DeliveryOutcome::Arrives { DeliveryOutcome::Queued } else { self.outcome };
                self.findings.insert(0, QueryResult::PublisherPaused);
            }
            PublishDecision::NoPublisher => self.findings.push(QueryResult::NoPublisher),
        }
        self
    }
}

/// How similar a filter is to one that matches the topic.
fn similarity(filter: &str, topic: &str) -> usize {
    let levels = filter.split('/').zip(topic.split('/'));
    let alike = |level: &str, name: &str| level == "+" || level == "#" || level.eq_ignore_ascii_case(name);
    let first = levels.clone().take_while(|(level, name)| alike(level, name)).count();
    // Other levels at the same position count less than a common prefix.
    4 * first + levels.filter(|(level, name)| alike(level, name)).count()
}

fn insert_nearest(nearest: &mut Vec<(usize, Box<str>)>, similarity: usize, filter: &str) {
    let at = nearest.partition_point(|(other, _)| *other >= similarity);
    if at < NEAREST_MAX {
        nearest.insert(at, (similarity, filter.into()));
        nearest.truncate(NEAREST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_filters_have_the_longest_match() {
        let mut nearest = Vec::new();
        for filter in ["z/y", "a/+/x", "a/B/d", "b/b/c", "q"] {
            insert_nearest(&mut nearest, similarity(filter, "a/b/c"), filter);
        }
        let filters: Vec<&str> = nearest.iter().map(|(_, filter)| &**filter).collect();
        assert_eq!(filters, ["a/+/x", "a/B/d", "b/b/c"]);
    }
}
