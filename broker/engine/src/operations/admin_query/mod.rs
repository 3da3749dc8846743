//! Admin queries of operators to a shard: its clients and their state, why a message would not reach a client, and retained messages.
//!
//! A query reads the current state, over several turns if that is large. Only the removal of retained messages changes anything. The result
//! is sent by a [`Reply`]; the caller merges the results of several shards.

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
use self::why::SubscriptionScan;
pub use self::why::{DeliveryOutcome, Explanation, OtherDispatches, QueryResult, QueueLimit, WhyQuery};
use crate::operations::refusal::{HypotheticalPublish, PublishDecision};
use crate::operations::violations::ViolationReport;

/// Receives the answer of a query. Dropping it means that there is no answer.
pub struct Reply<T> {
    take: Box<dyn FnOnce(T) + Send>,
    caller: Option<Weak<()>>,
}

impl<T> Reply<T> {
    /// Creates a reply that calls `take` with the answer, on the shard's thread: it must not block.
    pub fn new(take: impl FnOnce(T) + Send + 'static) -> Reply<T> {
        Reply { take: Box::new(take), caller: None }
    }

    /// Creates a reply that is canceled when `caller` is dropped. Queries that only read end then.
    pub fn to(caller: &Arc<()>, take: impl FnOnce(T) + Send + 'static) -> Reply<T> {
        Reply { take: Box::new(take), caller: Some(Arc::downgrade(caller)) }
    }

    /// Whether the caller may still wait for the answer.
    fn is_awaited(&self) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.strong_count() > 0)
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

/// A query of an operator. Sessions are given by their [names](tautwire_session::session_name).
#[derive(Debug)]
pub enum AdminQuery {
    /// A page of the shard's sessions, sorted.
    Clients(ClientsQuery, Reply<ClientsPage>),
    /// One session; `None` if the shard has none of that name.
    Client(Box<str>, Reply<Option<ClientDetail>>),
    /// Subscriptions of one session: those after a filter, up to a limit of at most [`PAGE_MAX`].
    Subscriptions(Box<str>, Box<str>, usize, Reply<Option<SubscriptionList>>),
    /// Whether a message would reach a client.
    Why(WhyQuery, Reply<Explanation>),
    /// Whether the broker would accept a message. This goes to the shard of the publisher, if one is given.
    Publish(Arc<HypotheticalPublish>, Reply<PublishDecision>),
    /// The name of a session of the shard; `None` if it has ended.
    Name(SessionKey, Reply<Option<Box<str>>>),
    /// A page of the retained messages of all shards.
    Retained(RetainedQuery, Reply<RetainedPage>),
    /// The retained message of a topic.
    RetainedMessage(Box<str>, Reply<FetchedMessage>),
    /// Removes the retained messages that a filter covers.
    RemoveRetained(Box<str>, Reply<RemovalResult>),
    /// A page of levels in the tree of topics with retained messages.
    Topics(TopicsQuery, Reply<TopicLevels>),
    /// Contract violations on this shard.
    Violations(Reply<ViolationReport>),
}

/// A query that takes several turns.
#[derive(Debug)]
pub(crate) enum RunningQuery {
    Clients(Search, Reply<ClientsPage>),
    Why(SubscriptionScan, Reply<Explanation>),
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

    fn is_done(&self) -> bool {
        match self {
            RunningQuery::Clients(search, _) => search.is_done(),
            RunningQuery::Why(scan, _) => scan.is_done(),
            RunningQuery::Retained(search, _) => search.is_done(),
            RunningQuery::Topics(search, _) => search.is_done(),
            RunningQuery::Remove(removal, _) => removal.is_done(),
            RunningQuery::Fetch(..) => true,
        }
    }
}

/// An answer that lacks only peer addresses, which `Io` provides.
#[derive(Debug)]
enum PendingAnswer {
    Clients(ClientsPage, Reply<ClientsPage>),
    Client(Box<ClientDetail>, Reply<Option<ClientDetail>>),
}

/// The running queries of a shard.
#[derive(Debug, Default)]
pub(crate) struct AdminQueries {
    running: usize,
    pending_answers: Vec<PendingAnswer>,
}
