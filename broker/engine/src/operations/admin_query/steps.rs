//! Steps of [`super`] that need several states of a shard.

use super::clients::Search;
use super::page::ADMIN_QUERIES_MAX;
use super::retained::{Fetch, Removal, RetainedSearch};
use super::topics::TopicSearch;
use super::why::SubscriptionScan;
use super::{AdminQuery, ClientSummary, PAGE_MAX, PendingAnswer, RunningQuery};
use crate::index::ConnectionId;
use crate::mode::Mode;
use crate::scheduling::io::Io;
use crate::scheduling::jobs::{Job, JobProgress};
use crate::shard::Shard;

impl<M: Mode> Shard<M> {
    /// Runs a query of an operator. Call this from [`Io::run_commands`].
    ///
    /// If too many queries are running, the reply is dropped.
    pub fn run_admin_query(&mut self, query: AdminQuery, now_ms: u64) {
        self.state.clock.set(now_ms);
        match query {
            AdminQuery::Clients(query, reply) => self.start_query(RunningQuery::Clients(Search::new(query), reply)),
            AdminQuery::Why(query, reply) => self.start_query(RunningQuery::Why(SubscriptionScan::new(query), reply)),
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
            AdminQuery::Publish(message, reply) => reply.send(self.check_publish(&message)),
            AdminQuery::Violations(reply) => reply.send(self.state.config.violation_report().clone()),
            AdminQuery::Client(name, reply) => match self.state.sessions.find_client_session(&name) {
                Some(session) => {
                    let detail = Box::new(self.state.client_detail(session));
                    self.state.operations.admin_queries.pending_answers.push(PendingAnswer::Client(detail, reply));
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

    fn start_query(&mut self, query: RunningQuery) {
        if self.state.operations.admin_queries.running < ADMIN_QUERIES_MAX {
            self.state.operations.admin_queries.running += 1;
            self.begin(Job::AdminQuery(Box::new(query)));
        } else {
            self.state.counters().commands_rejected.add(1);
        }
    }

    /// Runs one slice of a query and returns its steps.
    pub(crate) fn continue_query(&mut self, mut query: RunningQuery) -> (JobProgress, usize) {
        if !query.is_awaited() {
            self.state.counters().admin_queries_canceled.add(1);
            self.state.operations.admin_queries.running -= 1;
            return (JobProgress::Done, 1);
        }
        let steps = self.advance_query(&mut query);
        if !query.is_done() {
            return (JobProgress::Unfinished(Job::AdminQuery(Box::new(query))), steps);
        }
        self.answer_query(query);
        (JobProgress::Done, steps)
    }

    fn advance_query(&mut self, query: &mut RunningQuery) -> usize {
        let state = &mut self.state;
        match query {
            RunningQuery::Clients(search, _) => search.advance(state),
            RunningQuery::Why(scan, _) => scan.advance(state),
            RunningQuery::Retained(search, _) => search.advance(state.context.exchange(), state.clock.now_ms()),
            RunningQuery::Topics(search, _) => search.advance(state.context.exchange(), state.clock.now_ms()),
            RunningQuery::Remove(removal, _) => self.continue_removal(removal),
            RunningQuery::Fetch(..) => 1,
        }
    }

    /// Answers a query that is done, unless its message has to be loaded first.
    fn answer_query(&mut self, query: RunningQuery) {
        match query {
            RunningQuery::Clients(search, reply) => {
                let page = search.finish(&self.state);
                self.state.operations.admin_queries.pending_answers.push(PendingAnswer::Clients(page, reply));
            }
            RunningQuery::Why(scan, reply) => reply.send(scan.explain(self)),
            RunningQuery::Retained(search, reply) => reply.send(search.finish()),
            RunningQuery::Topics(search, reply) => reply.send(search.finish()),
            RunningQuery::Remove(removal, reply) => reply.send(removal.finish()),
            RunningQuery::Fetch(mut fetch, reply) => match fetch.find(&self.state) {
                Ok(fetched) => reply.send(fetched),
                // It continues when the message was loaded.
                Err(spilled) => return self.state.read_for_query(fetch, reply, spilled),
            },
        }
        self.state.operations.admin_queries.running -= 1;
    }

    /// Completes pending answers with peer addresses from `Io`, and sends them.
    #[inline]
    pub(crate) fn answer_admin_queries(&mut self, io: &mut impl Io<M>) {
        if !self.state.operations.admin_queries.pending_answers.is_empty() {
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
        for answer in std::mem::take(&mut self.state.operations.admin_queries.pending_answers) {
            match answer {
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
