//! Would a message on a topic reach a client now, and why not?

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

/// Subscriptions that do not match, and look most like it, which are told of.
const NEAREST_MAX: usize = 3;

/// What is asked.
#[derive(Debug, Clone)]
pub struct WhyQuery {
    /// The name of the client's session.
    pub name: Box<str>,
    /// The message. Its payload may be large, so nobody copies it.
    pub message: Arc<HypotheticalPublish>,
}

/// What would become of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The client gets it at once.
    Arrives,
    /// It waits, and the client gets it later.
    Queued,
    /// One member of a shared subscription gets it, and the client is one of them.
    OneOfMany,
    /// The client does not get it.
    DoesNotArrive,
    /// Another node of the cluster knows: this one does not serve the client.
    Elsewhere,
}

impl DeliveryOutcome {
    /// What operators call it. Never changes.
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

/// Something that bears on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryResult {
    /// There is no session of that client.
    NoSession,
    /// The broker is one of several, and does not serve the client's session. Another one may, or it waits in the store.
    NotServedHere,
    /// The broker refuses the message.
    Refused(PublishRefusal),
    /// The queue of a session is full, and the publisher is not read from until it has room.
    PublisherWaits,
    /// The publisher that was named is not connected here, so it is not known whether it may publish the message.
    NoPublisher,
    /// The client's connections break off too often, so it is not let in for a time.
    HeldBack,
    /// No subscription matches; these look most like it.
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
    /// A shared subscription matches: each message goes to one of so many members, of whom so many are connected.
    Shared {
        /// The filter with its group.
        filter: Box<str>,
        /// Granted QoS.
        qos: QoS,
        /// All members, this client included.
        members: usize,
        /// Those who are connected.
        connected: usize,
    },
    /// Messages of such a group wait, because no member has room for them: the next one waits behind them.
    SharedQueue {
        /// The filter with its group.
        filter: Box<str>,
        /// How many.
        messages: usize,
        /// What they take.
        bytes: usize,
    },
    /// For whom those of the last messages of such a group were that are of the topic.
    SharedTurns {
        /// The filter with its group.
        filter: Box<str>,
        /// For this client: how many, and when the last one was.
        own: Option<(usize, u64)>,
        /// For others.
        others: Option<OtherTurns>,
    },
    /// What the client publishes itself does not come back to it.
    NoLocal,
    /// The granted QoS is lower than that of the message.
    QoSReduced(QoS),
    /// The topic lies outside of the client's mount point.
    OutsideMount(Box<str>),
    /// The payloads of the topic's contract cannot be had in the format that the subscription asks for.
    CannotBecome(Format),
    /// The client is away, and its session ends then unless it comes back.
    Offline(Option<u64>),
    /// The client is away, and nothing of QoS 0 is kept for it.
    OfflineAtMostOnce,
    /// So many messages wait as may.
    QueueFull {
        /// Which limit is reached.
        limit: QueueLimit,
        /// What happens to the message.
        policy: SlowConsumer,
    },
    /// So many messages wait before it.
    Behind(usize),
    /// So many messages are sent and not acknowledged as the client or a limit allows.
    WindowFull(usize),
    /// The client has not taken so many bytes of output.
    OutputFull(usize),
    /// The client has not taken some bytes of output: there is room for some more.
    OutputBehind {
        /// So many bytes.
        pending_bytes: usize,
        /// The largest message of QoS 0 that finds room.
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
    /// A message is retained on the topic: a new subscription gets it.
    Retained,
    /// The matching subscriptions do not get that one, or only when they are new, as the client has asked; `None`: they are shared.
    RetainHandling(Option<RetainHandling>),
}

/// Which limit a full queue has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// That of the session, in messages or bytes.
    Session,
    /// The memory that the session may hold.
    Memory,
    /// That of all sessions of its user.
    User,
}

/// Messages of a group that were for other members than the client that is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTurns {
    /// How many.
    pub count: usize,
    /// When the last one was, in milliseconds since the Unix epoch.
    pub last_ms: u64,
    /// Whom that was for.
    pub member: SessionKey,
    /// The name of the member's session; `None` as long as its shard has not been asked (see [`AdminQuery::Name`](super::AdminQuery::Name)), and
    /// where it has ended.
    pub name: Option<Box<str>>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What would become of the message.
    pub outcome: DeliveryOutcome,
    /// Why, the decisive first.
    pub findings: Vec<QueryResult>,
    /// Messages that the client did not get, the latest last.
    pub drops: Vec<DropEvent>,
}

/// A walk over the subscriptions of the client.
#[derive(Debug)]
pub(crate) struct SubscriptionWalk {
    query: WhyQuery,
    after: Box<str>,
    is_done: bool,
    matching: Vec<(Box<str>, SubscriptionRecord)>,
    nearest: Vec<(usize, Box<str>)>,
}

impl Explanation {
    /// Adds what the broker would do with the message before anybody gets it.
    #[must_use]
    pub fn after(mut self, judged: PublishDecision) -> Explanation {
        match judged {
            PublishDecision::Accepted => {}
            PublishDecision::Refused(refusal) => {
                self.outcome = DeliveryOutcome::DoesNotArrive;
                self.findings.insert(0, QueryResult::Refused(refusal));
            }
            PublishDecision::PublisherPaused => {
                self.outcome =
                    if self.outcome == DeliveryOutcome::Arrives { DeliveryOutcome::Queued } else { self.outcome };
                self.findings.insert(0, QueryResult::PublisherWaits);
            }
            PublishDecision::NoPublisher => self.findings.push(QueryResult::NoPublisher),
        }
        self
    }
}

/// How much a filter looks like one that matches the topic.
fn likeness(filter: &str, topic: &str) -> usize {
    let levels = filter.split('/').zip(topic.split('/'));
    let alike = |level: &str, name: &str| level == "+" || level == "#" || level.eq_ignore_ascii_case(name);
    let first = levels.clone().take_while(|(level, name)| alike(level, name)).count();
    // Levels that stand in the same place count less than those that lead there.
    4 * first + levels.filter(|(level, name)| alike(level, name)).count()
}

fn insert_nearest(nearest: &mut Vec<(usize, Box<str>)>, likeness: usize, filter: &str) {
    let at = nearest.partition_point(|(other, _)| *other >= likeness);
    if at < NEAREST_MAX {
        nearest.insert(at, (likeness, filter.into()));
        nearest.truncate(NEAREST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_filters_are_those_that_lead_furthest() {
        let mut nearest = Vec::new();
        for filter in ["z/y", "a/+/x", "a/B/d", "b/b/c", "q"] {
            insert_nearest(&mut nearest, likeness(filter, "a/b/c"), filter);
        }
        let filters: Vec<&str> = nearest.iter().map(|(_, filter)| &**filter).collect();
        assert_eq!(filters, ["a/+/x", "a/B/d", "b/b/c"]);
    }
}
