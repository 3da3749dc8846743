//! What operators ask of a shard: who its clients are, what they hold, why a message would not reach one, and what is retained.
//!
//! A survey looks at what is there at that moment, over several turns where that is much. None changes anything but the removal of retained
//! messages. What it has found goes to whoever asked by a [`Reply`]; where several shards were asked, the asker puts their answers together.

mod client;
mod clients;
mod retained;
mod topics;
mod why;

use std::fmt;
use std::sync::{Arc, Weak};

use tautwire_router::SessionKey;
use tautwire_session::{Journal, SubscriptionRecord};

use crate::jobs::{Job, Slice};
use crate::place::ConnectionId;
use crate::refusal::{Hypothesis, Judged};
use crate::shard::Shard;
use crate::turn::Surroundings;
use crate::violations::ViolationBook;

pub use client::{ClientDetail, ClientSummary, ConnectionSummary};
use clients::Search;
pub use clients::{ClientOrder, ClientsPage, ClientsQuery, Rank};
pub(crate) use retained::Fetch;
pub use retained::{Fetched, Removed, RetainedPage, RetainedQuery};
use retained::{Removal, RetainedSearch};
use topics::TopicSearch;
pub use topics::{TopicLevel, TopicLevels, TopicsQuery};
use why::Walk;
pub use why::{Explained, Finding, OtherTurns, Outcome, QueueLimit, WhyQuery};

/// Most rows of one answer.
pub const PAGE_MAX: usize = 1_000;
/// Surveys under way in a shard at once.
const SURVEYS_MAX: usize = 16;

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

    pub(crate) fn give(self, answer: T) {
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
pub enum Survey {
    /// Some of the shard's sessions, in an order.
    Clients(ClientsQuery, Reply<ClientsPage>),
    /// One session; `None` where the shard has none of that name.
    Client(Box<str>, Reply<Option<ClientDetail>>),
    /// Subscriptions of one session: those behind a filter, at most so many of [`PAGE_MAX`].
    Subscriptions(Box<str>, Box<str>, usize, Reply<Option<SubscriptionList>>),
    /// Whether a message would reach a client.
    Why(WhyQuery, Reply<Explained>),
    /// Whether the broker would take a message. It goes to the shard of its publisher, where it names one.
    Publish(Arc<Hypothesis>, Reply<Judged>),
    /// What a session of the shard is called; `None` where it has ended.
    Name(SessionKey, Reply<Option<Box<str>>>),
    /// Some of the retained messages, whichever shard they came by.
    Retained(RetainedQuery, Reply<RetainedPage>),
    /// The message that a topic retains.
    RetainedMessage(Box<str>, Reply<Fetched>),
    /// Removes the retained messages that a filter covers.
    RemoveRetained(Box<str>, Reply<Removed>),
    /// Some levels of the tree of topics with retained messages.
    Topics(TopicsQuery, Reply<TopicLevels>),
    /// How often contracts were broken on this shard, and why.
    Violations(Reply<ViolationBook>),
}

/// One that takes several turns.
#[derive(Debug)]
pub(crate) enum UnderWay {
    Clients(Search, Reply<ClientsPage>),
    Why(Walk, Reply<Explained>),
    Retained(RetainedSearch, Reply<RetainedPage>),
    Fetch(Fetch, Reply<Fetched>),
    Remove(Removal, Reply<Removed>),
    Topics(TopicSearch, Reply<TopicLevels>),
}

impl UnderWay {
    /// Whether somebody may still wait for its answer. What removes messages goes on: that has been asked for, whoever hears of it.
    fn is_awaited(&self) -> bool {
        match self {
            UnderWay::Clients(_, reply) => reply.is_awaited(),
            UnderWay::Why(_, reply) => reply.is_awaited(),
            UnderWay::Retained(_, reply) => reply.is_awaited(),
            UnderWay::Fetch(_, reply) => reply.is_awaited(),
            UnderWay::Topics(_, reply) => reply.is_awaited(),
            UnderWay::Remove(..) => true,
        }
    }
}

/// An answer for which only addresses are missing, which the surroundings know.
#[derive(Debug)]
enum Found {
    Clients(ClientsPage, Reply<ClientsPage>),
    Client(Box<ClientDetail>, Reply<Option<ClientDetail>>),
}

/// The surveys of a shard.
#[derive(Debug, Default)]
pub(crate) struct Surveys {
    under_way: usize,
    found: Vec<Found>,
}

impl<J: Journal> Shard<J> {
    /// Looks for what an operator wants to know. To be called from [`Surroundings::take_orders`].
    ///
    /// Where too many look already, the reply is dropped.
    pub fn survey(&mut self, survey: Survey, now_ms: u64) {
        self.state.clock.set(now_ms);
        match survey {
            Survey::Clients(query, reply) => self.begin_survey(UnderWay::Clients(Search::new(query), reply)),
            Survey::Why(query, reply) => self.begin_survey(UnderWay::Why(Walk::new(query), reply)),
            Survey::Retained(query, reply) => {
                let search = RetainedSearch::new(self.state.context.exchange(), query);
                self.begin_survey(UnderWay::Retained(search, reply));
            }
            Survey::RetainedMessage(topic, reply) => self.begin_survey(UnderWay::Fetch(Fetch::new(topic), reply)),
            Survey::RemoveRetained(filter, reply) => {
                let removal = Removal::new(self.state.context.exchange(), &filter);
                self.begin_survey(UnderWay::Remove(removal, reply));
            }
            Survey::Topics(query, reply) => {
                let search = TopicSearch::new(self.state.context.exchange(), query);
                self.begin_survey(UnderWay::Topics(search, reply));
            }
            Survey::Name(key, reply) => {
                let session = self.state.sessions.at(&key);
                reply.give(session.map(|session| self.state.sessions[session].name().into()));
            }
            Survey::Publish(question, reply) => reply.give(self.judge_publish(&question)),
            Survey::Violations(reply) => reply.give(self.state.config.violation_book().clone()),
            Survey::Client(name, reply) => match self.state.sessions.find_of_client(&name) {
                Some(session) => {
                    let detail = Box::new(self.state.client_detail(session));
                    self.state.admin_queries.found.push(Found::Client(detail, reply));
                }
                None => reply.give(None),
            },
            Survey::Subscriptions(name, after, limit, reply) => {
                let session = self.state.sessions.find_of_client(&name);
                reply.give(session.map(|session| {
                    let all = self.state.sessions[session].subscriptions();
                    let some = all.after(&after).take(limit.min(PAGE_MAX));
                    some.map(|(filter, record)| (filter.into(), record)).collect()
                }));
            }
        }
    }

    fn begin_survey(&mut self, survey: UnderWay) {
        if self.state.admin_queries.under_way < SURVEYS_MAX {
            self.state.admin_queries.under_way += 1;
            self.begin(Job::Survey(Box::new(survey)));
        } else {
            self.state.counters().orders_refused.add(1);
        }
    }

    /// One slice of a survey, and how many steps it took.
    pub(crate) fn go_on_surveying(&mut self, survey: UnderWay) -> (Slice, usize) {
        let state = &mut self.state;
        if !survey.is_awaited() {
            state.counters().surveys_abandoned.add(1);
            state.admin_queries.under_way -= 1;
            return (Slice::Done, 1);
        }
        let (left, steps) = match survey {
            UnderWay::Clients(mut search, reply) => match search.go_on(state) {
                steps if search.is_done() => {
                    let page = search.finish(state);
                    state.admin_queries.found.push(Found::Clients(page, reply));
                    (None, steps)
                }
                steps => (Some(UnderWay::Clients(search, reply)), steps),
            },
            UnderWay::Why(mut walk, reply) => match walk.go_on(state) {
                steps if walk.is_done() => {
                    reply.give(walk.explain(self));
                    (None, steps)
                }
                steps => (Some(UnderWay::Why(walk, reply)), steps),
            },
            UnderWay::Retained(mut search, reply) => match search.go_on(state.context.exchange(), state.clock.now_ms())
            {
                steps if search.is_done() => {
                    reply.give(search.finish());
                    (None, steps)
                }
                steps => (Some(UnderWay::Retained(search, reply)), steps),
            },
            UnderWay::Topics(mut search, reply) => match search.go_on(state.context.exchange(), state.clock.now_ms()) {
                steps if search.is_done() => {
                    reply.give(search.finish());
                    (None, steps)
                }
                steps => (Some(UnderWay::Topics(search, reply)), steps),
            },
            UnderWay::Remove(mut removal, reply) => match self.go_on_removing(&mut removal) {
                steps if removal.is_done() => {
                    reply.give(removal.finish());
                    (None, steps)
                }
                steps => (Some(UnderWay::Remove(removal, reply)), steps),
            },
            UnderWay::Fetch(mut fetch, reply) => {
                match fetch.look(state) {
                    Ok(fetched) => reply.give(fetched),
                    // It goes on when the message has been read.
                    Err(cold) => {
                        state.read_to_show(fetch, reply, cold);
                        return (Slice::Done, 1);
                    }
                }
                (None, 1)
            }
        };
        match left {
            Some(left) => (Slice::Unfinished(Job::Survey(Box::new(left))), steps),
            None => {
                self.state.admin_queries.under_way -= 1;
                (Slice::Done, steps)
            }
        }
    }

    /// Asks the surroundings for the addresses that answers lack, and gives the answers.
    #[inline]
    pub(crate) fn answer_surveys(&mut self, surroundings: &mut impl Surroundings<J>) {
        if !self.state.admin_queries.found.is_empty() {
            self.answer_all(surroundings);
        }
    }

    #[cold]
    fn answer_all(&mut self, surroundings: &mut impl Surroundings<J>) {
        let mut complete = |summary: &mut ClientSummary, id: Option<ConnectionId>| {
            if let (Some(id), Some(connection)) = (id, &mut summary.connection)
                && connection.peer.is_none()
            {
                connection.peer = surroundings.peer(id);
            }
        };
        for found in std::mem::take(&mut self.state.admin_queries.found) {
            match found {
                Found::Clients(mut page, reply) => {
                    page.clients.iter_mut().for_each(|(_, summary)| complete(summary, summary.id));
                    reply.give(page);
                }
                Found::Client(mut detail, reply) => {
                    let id = detail.summary.id;
                    complete(&mut detail.summary, id);
                    reply.give(Some(*detail));
                }
            }
        }
    }
}
