//! What operators ask of a shard: who its clients are, what they hold, why a message would not reach one, and what is retained.
//!
//! A survey looks at what is there at that moment, over several turns where that is much. None changes anything but the removal of retained
//! messages. It sends its result by a [`Reply`]; the caller merges the results of several shards.

mod client;
mod clients;
mod page;
mod retained;
mod steps;
mod topics;
mod why;

use std::fmt;
use std::sync::{Arc, Weak};

use tautwire_router::SessionKey;
use tautwire_session::SubscriptionRecord;

pub use self::client::{ClientDetail, ClientSummary, ConnectionSummary};
use self::clients::Search;
pub use self::clients::{ClientOrder, ClientsPage, ClientsQuery, Rank};
pub use self::page::PAGE_MAX;
pub(crate) use self::retained::Fetch;
pub use self::retained::{FetchedMessage, RemovalResult, RetainedPage, RetainedQuery};
use self::retained::{Removal, RetainedSearch};
use self::topics::TopicSearch;
pub use self::topics::{TopicLevel, TopicLevels, TopicsQuery};
use self::why::SubscriptionWalk;
pub use self::why::{DeliveryOutcome, Explanation, OtherTurns, QueryResult, QueueLimit, WhyQuery};
use crate::operations::refusal::{HypotheticalPublish, PublishDecision};
use crate::operations::violations::ViolationReport;

/// Where an answer goes. Dropping it tells that there will be none.
pub struct Reply<T> {
    take: Box<dyn FnOnce(T) + Send>,
    asker: Option<Weak<()>>,
}

impl<T> Reply<T> {
    /// One that hands the answer to `take`, on the shard's thread: it must not wait.
    pub fn new(take: impl FnOnce(T) + Send + 'static) -> Reply<T> {
        Reply { take: Box::new(take), asker: None }
    }

    /// The same, as long as somebody holds `asker`. What only looks ends when nobody does.
    pub fn to(asker: &Arc<()>, take: impl FnOnce(T) + Send + 'static) -> Reply<T> {
        Reply { take: Box::new(take), asker: Some(Arc::downgrade(asker)) }
    }

    /// Whether somebody may still wait for the answer.
    fn is_awaited(&self) -> bool {
        self.asker.as_ref().is_none_or(|asker| asker.strong_count() > 0)
    }

    pub(crate) fn send(self, answer: T) {
        (self.take)(answer);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// Subscriptions in the order of their filters.
pub type SubscriptionList = Vec<(Box<str>, SubscriptionRecord)>;

/// Something that an operator wants to know. Sessions are meant by their [names](tautwire_session::session_name).
#[derive(Debug)]
pub enum AdminQuery {
    /// Some of the shard's sessions, in an order.
    Clients(ClientsQuery, Reply<ClientsPage>),
    /// One session; `None` where the shard has none of that name.
    Client(Box<str>, Reply<Option<ClientDetail>>),
    /// Subscriptions of one session: those behind a filter, at most so many of [`PAGE_MAX`].
    Subscriptions(Box<str>, Box<str>, usize, Reply<Option<SubscriptionList>>),
    /// Whether a message would reach a client.
    Why(WhyQuery, Reply<Explanation>),
    /// Whether the broker would take a message. It goes to the shard of its publisher, where it names one.
    Publish(Arc<HypotheticalPublish>, Reply<PublishDecision>),
    /// What a session of the shard is called; `None` where it has ended.
    Name(SessionKey, Reply<Option<Box<str>>>),
    /// Some of the retained messages, whichever shard they came by.
    Retained(RetainedQuery, Reply<RetainedPage>),
    /// The message that a topic retains.
    RetainedMessage(Box<str>, Reply<FetchedMessage>),
    /// Removes the retained messages that a filter covers.
    RemoveRetained(Box<str>, Reply<RemovalResult>),
    /// Some levels of the tree of topics with retained messages.
    Topics(TopicsQuery, Reply<TopicLevels>),
    /// How often contracts were broken on this shard, and why.
    Violations(Reply<ViolationReport>),
}

/// One that takes several turns.
#[derive(Debug)]
pub(crate) enum RunningQuery {
    Clients(Search, Reply<ClientsPage>),
    Why(SubscriptionWalk, Reply<Explanation>),
    Retained(RetainedSearch, Reply<RetainedPage>),
    Fetch(Fetch, Reply<FetchedMessage>),
    Remove(Removal, Reply<RemovalResult>),
    Topics(TopicSearch, Reply<TopicLevels>),
}

impl RunningQuery {
    /// Whether the caller may still wait for the result. A query that removes messages runs to its end without one.
    fn is_awaited(&self) -> bool {
        match self {
            RunningQuery::Clients(_, reply) => reply.is_awaited(),
            RunningQuery::Why(_, reply) => reply.is_awaited(),
            RunningQuery::Retained(_, reply) => reply.is_awaited(),
            RunningQuery::Fetch(_, reply) => reply.is_awaited(),
            RunningQuery::Topics(_, reply) => reply.is_awaited(),
            RunningQuery::Remove(..) => true,
        }
    }
}

/// An answer for which only addresses are missing, which the surroundings know.
#[derive(Debug)]
enum PendingAnswer {
    Clients(ClientsPage, Reply<ClientsPage>),
    Client(Box<ClientDetail>, Reply<Option<ClientDetail>>),
}

/// The admin_queries of a shard.
#[derive(Debug, Default)]
pub(crate) struct AdminQueries {
    under_way: usize,
    found: Vec<PendingAnswer>,
}
