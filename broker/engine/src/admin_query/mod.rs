//! What operators ask of a shard: who its clients are, what they hold, why a message would not reach one, and what is retained.
//!
//! A survey looks at what is there at that moment, over several turns where that is much. None changes anything but the removal of retained
//! messages. It sends its result by a [`Reply`]; the caller merges the results of several shards.

mod client;
mod clients;
mod retained;
mod topics;
mod why;

use std::fmt;
use std::sync::{Arc, Weak};

use tautwire_router::SessionKey;
use tautwire_session::SubscriptionRecord;

use crate::index::ConnectionId;
use crate::jobs::{Job, JobProgress};
use crate::mode::Mode;
use crate::refusal::{HypotheticalPublish, PublishDecision};
use crate::shard::Shard;
use crate::turn::Io;
use crate::violations::ViolationReport;

pub use client::{ClientDetail, ClientSummary, ConnectionSummary};
use clients::Search;
pub use clients::{ClientOrder, ClientsPage, ClientsQuery, Rank};
pub(crate) use retained::Fetch;
pub use retained::{FetchedMessage, RemovalResult, RetainedPage, RetainedQuery};
use retained::{Removal, RetainedSearch};
use topics::TopicSearch;
pub use topics::{TopicLevel, TopicLevels, TopicsQuery};
use why::SubscriptionWalk;
pub use why::{DeliveryOutcome, Explanation, OtherTurns, QueryResult, QueueLimit, WhyQuery};

/// Most rows of one answer.
pub const PAGE_MAX: usize = 1_000;
/// AdminQueries under way in a shard at once.
const ADMIN_QUERIES_MAX: usize = 16;

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

impl<M: Mode> Shard<M> {
    /// Looks for what an operator wants to know. To be called from [`Io::run_commands`].
    ///
    /// Where too many look already, the reply is dropped.
    pub fn run_admin_query(&mut self, survey: AdminQuery, now_ms: u64) {
        self.state.clock.set(now_ms);
        match survey {
            AdminQuery::Clients(query, reply) => self.start_query(RunningQuery::Clients(Search::new(query), reply)),
            AdminQuery::Why(query, reply) => self.start_query(RunningQuery::Why(SubscriptionWalk::new(query), reply)),
            AdminQuery::Retained(query, reply) => {
                let search = RetainedSearch::new(self.state.context.exchange(), query);
                self.start_query(RunningQuery::Retained(search, reply));
            }
            AdminQuery::RetainedMessage(topic, reply) => {
                self.start_query(RunningQuery::Fetch(Fetch::new(topic), reply))
            }
            AdminQuery::RemoveRetained(filter, reply) => {
                let removal = Removal::new(self.state.context.exchange(), &filter);
                self.start_query(RunningQuery::Remove(removal, reply));
            }
            AdminQuery::Topics(query, reply) => {
                let search = TopicSearch::new(self.state.context.exchange(), query);
                self.start_query(RunningQuery::Topics(search, reply));
            }
            AdminQuery::Name(key, reply) => {
                let session = self.state.sessions.at(&key);
                reply.send(session.map(|session| self.state.sessions[session].name().into()));
            }
            AdminQuery::Publish(question, reply) => reply.send(self.check_publish(&question)),
            AdminQuery::Violations(reply) => reply.send(self.state.config.violation_book().clone()),
            AdminQuery::Client(name, reply) => match self.state.sessions.find_client_session(&name) {
                Some(session) => {
                    let detail = Box::new(self.state.client_detail(session));
                    self.state.admin_queries.found.push(PendingAnswer::Client(detail, reply));
                }
                None => reply.send(None),
            },
            AdminQuery::Subscriptions(name, after, limit, reply) => {
                let session = self.state.sessions.find_client_session(&name);
                reply.send(session.map(|session| {
                    let all = self.state.sessions[session].subscriptions();
                    let some = all.after(&after).take(limit.min(PAGE_MAX));
                    some.map(|(filter, record)| (filter.into(), record)).collect()
                }));
            }
        }
    }

    fn start_query(&mut self, survey: RunningQuery) {
        if self.state.admin_queries.under_way < ADMIN_QUERIES_MAX {
            self.state.admin_queries.under_way += 1;
            self.begin(Job::AdminQuery(Box::new(survey)));
        } else {
            self.state.counters().orders_refused.add(1);
        }
    }

    /// One slice of a survey, and how many steps it took.
    pub(crate) fn continue_query(&mut self, survey: RunningQuery) -> (JobProgress, usize) {
        let state = &mut self.state;
        if !survey.is_awaited() {
            state.counters().surveys_abandoned.add(1);
            state.admin_queries.under_way -= 1;
            return (JobProgress::Done, 1);
        }
        let (left, steps) = match survey {
            RunningQuery::Clients(mut search, reply) => match search.advance(state) {
                steps if search.is_done() => {
                    let page = search.finish(state);
                    state.admin_queries.found.push(PendingAnswer::Clients(page, reply));
                    (None, steps)
                }
                steps => (Some(RunningQuery::Clients(search, reply)), steps),
            },
            RunningQuery::Why(mut walk, reply) => match walk.advance(state) {
                steps if walk.is_done() => {
                    reply.send(walk.explain(self));
                    (None, steps)
                }
                steps => (Some(RunningQuery::Why(walk, reply)), steps),
            },
            RunningQuery::Retained(mut search, reply) => {
                match search.advance(state.context.exchange(), state.clock.now_ms()) {
                    steps if search.is_done() => {
                        reply.send(search.finish());
                        (None, steps)
                    }
                    steps => (Some(RunningQuery::Retained(search, reply)), steps),
                }
            }
            RunningQuery::Topics(mut search, reply) => {
                match search.advance(state.context.exchange(), state.clock.now_ms()) {
                    steps if search.is_done() => {
                        reply.send(search.finish());
                        (None, steps)
                    }
                    steps => (Some(RunningQuery::Topics(search, reply)), steps),
                }
            }
            RunningQuery::Remove(mut removal, reply) => match self.go_on_removing(&mut removal) {
                steps if removal.is_done() => {
                    reply.send(removal.finish());
                    (None, steps)
                }
                steps => (Some(RunningQuery::Remove(removal, reply)), steps),
            },
            RunningQuery::Fetch(mut fetch, reply) => {
                match fetch.look(state) {
                    Ok(fetched) => reply.send(fetched),
                    // It goes on when the message has been read.
                    Err(cold) => {
                        state.read_to_show(fetch, reply, cold);
                        return (JobProgress::Done, 1);
                    }
                }
                (None, 1)
            }
        };
        match left {
            Some(left) => (JobProgress::Unfinished(Job::AdminQuery(Box::new(left))), steps),
            None => {
                self.state.admin_queries.under_way -= 1;
                (JobProgress::Done, steps)
            }
        }
    }

    /// Asks the surroundings for the addresses that answers lack, and gives the answers.
    #[inline]
    pub(crate) fn answer_admin_queries(&mut self, io: &mut impl Io<M>) {
        if !self.state.admin_queries.found.is_empty() {
            self.answer_all(io);
        }
    }

    #[cold]
    fn answer_all(&mut self, io: &mut impl Io<M>) {
        let mut complete = |summary: &mut ClientSummary, id: Option<ConnectionId>| {
            if let (Some(id), Some(connection)) = (id, &mut summary.connection)
                && connection.peer.is_none()
            {
                connection.peer = io.peer(id);
            }
        };
        for found in std::mem::take(&mut self.state.admin_queries.found) {
            match found {
                PendingAnswer::Clients(mut page, reply) => {
                    page.clients.iter_mut().for_each(|(_, summary)| complete(summary, summary.id));
                    reply.send(page);
                }
                PendingAnswer::Client(mut detail, reply) => {
                    let id = detail.summary.id;
                    complete(&mut detail.summary, id);
                    reply.send(Some(*detail));
                }
            }
        }
    }
}
