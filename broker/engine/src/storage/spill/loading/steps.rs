//! Reading spilled messages for queues, replays, jobs and queries.

use std::sync::Arc;

use tautwire_message::Format;
use tautwire_message::{Body, Message, SpillRead, SpillRequest, Spilled};
use tautwire_router::SessionKey;
use tautwire_session::Outbound;

use super::{LoadError, PendingRead, Reader};
use crate::connection::connections::{LoadResult, Replay};
use crate::index::{ConnectionId, ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::operations::admin_query::{Fetch, FetchedMessage, Reply, RunningQuery};
use crate::routing::share_queue::Redispatch;
use crate::scheduling::jobs::Job;
use crate::session::session_cleanup::SessionCleanup;
use crate::shard::ShardState;
use crate::storage::spill::{READING_MAX, READING_MAX_BYTES, RETRY_MS, SpillState};

/// The maximum number of messages that are read ahead for one client.
const READ_AHEAD_MAX: usize = 128;

const READ_AHEAD_MAX_BYTES: usize = 256 << 10;

/// The maximum number of bytes that are read ahead if memory is short.
const READ_AHEAD_LOW_MEMORY_BYTES: usize = 16 << 10;

impl SpillState {
    /// Cancels the reads for a subscription that a session has ended.
    pub(crate) fn cancel_replay(&mut self, session: &SessionKey, filter: &str, format: Option<Format>) {
        let pending_reads = self.pending_reads.values_mut().map(|pending_reads| &mut pending_reads.reader);
        let retried = self.retries.iter_mut().map(|(_, reader)| reader);
        for reader in pending_reads.chain(&mut self.waiting_readers).chain(retried) {
            if let Reader::OfflineReplay(owed) = reader
                && owed.0 == *session
                && owed.1.scan.filter() == filter
                && owed.1.format == format
            {
                *reader = Reader::Nobody;
            }
        }
    }

    fn has_room_to_read(&self) -> bool {
        self.reading_bytes < READING_MAX_BYTES && self.pending_reads.len() < READING_MAX
    }
}

impl<M: Mode> ShardState<M> {
    /// Loads the next message to resend, if it is spilled; `Err` if it must be read first.
    pub(crate) fn read_to_resend(
        &mut self,
        session: SessionIndex,
        index: ConnectionIndex,
    ) -> Result<Option<Message>, ()> {
        if !M::SPILLS {
            return Ok(None);
        }
        let Some(spilled) = self.sessions.entry(session).outbound().and_then(Outbound::spilled_to_resend).cloned()
        else {
            return Ok(None);
        };
        self.read_for_queue(session, index, &spilled).map(Some).ok_or(())
    }

    /// Loads the message at the front of the queue if it is spilled; returns false if it must be read first.
    pub(crate) fn load_front(&mut self, session: SessionIndex, index: ConnectionIndex) -> bool {
        if !M::SPILLS {
            return true;
        }
        let front = self.sessions[session].outbound().and_then(Outbound::front);
        let Some(spilled) = front.and_then(|front| front.message.spilled()).cloned() else { return true };
        let Some(message) = self.read_for_queue(session, index, &spilled) else { return false };
        if let Some(outbound) = self.sessions.entry(session).outbound() {
            outbound.load_front(message);
        }
        true
    }

    fn read_for_queue(&mut self, session: SessionIndex, index: ConnectionIndex, spilled: &Spilled) -> Option<Message> {
        let reader = Reader::Queue(self.id(index));
        let back = self.connections[index].load_queue();
        match back.take(spilled) {
            LoadResult::Loaded(message) => return Some(message),
            LoadResult::Failed => {
                back.defer();
                self.retry_later(reader);
            }
            LoadResult::Missing if back.is_idle() => {
                let send_maximum = usize::from(self.connections[index].connect_parameters().send_maximum);
                let outbound = self.sessions[session].outbound()?;
                let most = send_maximum.saturating_sub(outbound.in_flight()).clamp(1, READ_AHEAD_MAX);
                let ahead_bytes = self.ahead_bytes();
                let wanted = if outbound.is_resent() {
                    portion(outbound.spilled_ahead(most), ahead_bytes)
                } else {
                    portion(outbound.spilled_resends(most), ahead_bytes)
                };
                if let Some(ticket) = self.ask(reader, wanted) {
                    self.connections[index].load_queue().wait_for(ticket);
                } else {
                    self.connections[index].load_queue().defer();
                }
            }
            LoadResult::Missing => {}
        }
        None
    }

    /// Loads the next retained message of a connection's first replay. On an error, the replay keeps the message.
    pub(crate) fn read_for_replay(&mut self, index: ConnectionIndex, spilled: &Spilled) -> Result<Message, LoadError> {
        let reader = Reader::Replay(self.id(index));
        let ahead_bytes = self.ahead_bytes();
        let Some(replay) = self.connections[index].replays().front_mut() else { return Err(LoadError::Later) };
        match replay.load_queue.take(spilled) {
            LoadResult::Loaded(message) => return Ok(message),
            LoadResult::Failed => {
                replay.load_queue.defer();
                self.retry_later(reader);
                return Err(LoadError::Failed);
            }
            LoadResult::Missing if replay.load_queue.is_idle() => {
                let wanted = portion(std::iter::once(spilled).chain(replay.scan.spilled_ahead()), ahead_bytes);
                let ticket = self.ask(reader, wanted);
                if let Some(replay) = self.connections[index].replays().front_mut() {
                    match ticket {
                        Some(ticket) => replay.load_queue.wait_for(ticket),
                        None => replay.load_queue.defer(),
                    }
                }
            }
            LoadResult::Missing => {}
        }
        Err(LoadError::Later)
    }

    /// Loads a message of a replay that goes to a queue. If it must be read first, the reader takes the replay and continues it later.
    pub(crate) fn read_for_offline_replay(
        &mut self,
        session: SessionIndex,
        mut replay: Replay,
        spilled: &Spilled,
    ) -> Option<(Replay, Message)> {
        let key = self.sessions.key(session);
        match replay.load_queue.take(spilled) {
            LoadResult::Loaded(message) => return Some((replay, message)),
            LoadResult::Failed => {
                replay.next = Some(Body::Spilled(spilled.clone()));
                replay.load_queue.defer();
                self.retry_later(Reader::OfflineReplay(Box::new((key, replay))));
            }
            LoadResult::Missing => {
                let wanted = portion(std::iter::once(spilled).chain(replay.scan.spilled_ahead()), self.ahead_bytes());
                replay.next = Some(Body::Spilled(spilled.clone()));
                self.ask_or_wait(wanted, |ticket| {
                    match ticket {
                        Some(ticket) => replay.load_queue.wait_for(ticket),
                        None => replay.load_queue.defer(),
                    }
                    Reader::OfflineReplay(Box::new((key, replay)))
                });
            }
        }
        None
    }

    /// Loads a message of an ended session that is redispatched. If it must be read first, the reader takes the job.
    pub(crate) fn read_to_clear(
        &mut self,
        mut ending: SessionCleanup,
        spilled: &Spilled,
    ) -> Option<(SessionCleanup, Message)> {
        match ending.load_queue.take(spilled) {
            LoadResult::Loaded(message) => return Some((ending, message)),
            LoadResult::Failed => {
                ending.load_queue.defer();
                self.retry_later(Reader::SessionCleanup(Box::new(ending)));
            }
            LoadResult::Missing => {
                let wanted = self.spilled_from(ending.session, spilled);
                self.ask_or_wait(wanted, |ticket| {
                    match ticket {
                        Some(ticket) => ending.load_queue.wait_for(ticket),
                        None => ending.load_queue.defer(),
                    }
                    Reader::SessionCleanup(Box::new(ending))
                });
            }
        }
        None
    }

    /// Loads a message of the queue of a shared subscription; `None` if it must be read first.
    pub(crate) fn read_to_drain(
        &mut self,
        share: &Arc<str>,
        session: SessionIndex,
        spilled: &Spilled,
    ) -> Option<Message> {
        let back = self.routing.share_load_queue(share)?;
        match back.take(spilled) {
            LoadResult::Loaded(message) => return Some(message),
            LoadResult::Failed => {
                back.defer();
                self.retry_later(Reader::ShareQueue(share.clone()));
            }
            LoadResult::Missing => {
                let wanted = self.spilled_from(session, spilled);
                let ticket = self.ask(Reader::ShareQueue(share.clone()), wanted);
                let back = self.routing.share_load_queue(share)?;
                match ticket {
                    Some(ticket) => back.wait_for(ticket),
                    None => back.defer(),
                }
            }
        }
        None
    }

    /// Loads a message that is redispatched to another member. If it must be read first, the reader takes the job and continues it later.
    pub(crate) fn read_to_redispatch(
        &mut self,
        mut redispatch: Box<Redispatch>,
        spilled: &Spilled,
    ) -> Option<(Box<Redispatch>, Message)> {
        match redispatch.load_queue.take(spilled) {
            LoadResult::Loaded(message) => return Some((redispatch, message)),
            LoadResult::Failed => {
                redispatch.load_queue.defer();
                self.retry_later(Reader::Redispatch(redispatch));
            }
            LoadResult::Missing => self.ask_or_wait(vec![spilled.clone()], |ticket| {
                match ticket {
                    Some(ticket) => redispatch.load_queue.wait_for(ticket),
                    None => redispatch.load_queue.defer(),
                }
                Reader::Redispatch(redispatch)
            }),
        }
        None
    }

    /// A spilled message, and the spilled ones after it in the queue of a session.
    fn spilled_from(&self, session: SessionIndex, spilled: &Spilled) -> Vec<Spilled> {
        let ahead =
            self.sessions[session].outbound().into_iter().flat_map(|outbound| outbound.spilled_ahead(READ_AHEAD_MAX));
        portion(std::iter::once(spilled).chain(ahead.filter(|other| *other != spilled)), self.ahead_bytes())
    }

    /// Reads a retained message for an operator's query, which is answered later.
    pub(crate) fn read_for_query(&mut self, mut fetch: Fetch, reply: Reply<FetchedMessage>, spilled: Spilled) {
        self.ask_or_wait(vec![spilled], |ticket| {
            match ticket {
                Some(ticket) => fetch.load_queue.wait_for(ticket),
                None => fetch.load_queue.defer(),
            }
            Reader::Fetching(Box::new((fetch, reply)))
        });
    }

    fn ahead_bytes(&self) -> usize {
        let is_short = self.loaded_bytes() > 2 * self.spill.loaded_max_bytes;
        if is_short { READ_AHEAD_LOW_MEMORY_BYTES } else { READ_AHEAD_MAX_BYTES }
    }

    /// Requests messages. Returns the ticket; `None` if the reader must wait for room.
    fn ask(&mut self, reader: Reader, wanted: Vec<Spilled>) -> Option<u64> {
        let mut given = None;
        self.ask_or_wait(wanted, |ticket| {
            given = ticket;
            reader
        });
        given
    }

    fn ask_or_wait(&mut self, wanted: Vec<Spilled>, reader: impl FnOnce(Option<u64>) -> Reader) {
        let bytes = wanted.iter().map(Spilled::allocated_bytes).sum();
        let ticket = self.spill.ticket();
        if self.spill.has_room_to_read() && self.spill.post(SpillRequest::Read { ticket, messages: wanted }) {
            self.spill.reading_bytes += bytes;
            self.spill.pending_reads.insert(ticket, PendingRead { reader: reader(Some(ticket)), bytes });
        } else {
            self.counters().spill_reads_deferred.add(1);
            self.spill.waiting_readers.push_back(reader(None));
        }
    }

    #[cold]
    fn retry_later(&mut self, reader: Reader) {
        self.spill.retries.push_back((self.clock.now_ms() + RETRY_MS, reader));
    }

    pub(in crate::storage::spill) fn take_read(&mut self, ticket: u64, messages: SpillRead) {
        let Some(PendingRead { reader, bytes }) = self.spill.pending_reads.remove(&ticket) else { return };
        self.spill.reading_bytes -= bytes;
        let messages = messages.into_messages(self.memory.ledger());
        match reader {
            Reader::Queue(id) => {
                if let Some(connection) = self.connections.get(id) {
                    connection.load_queue().store_loaded(ticket, messages);
                }
                self.send_pending_on(id);
            }
            Reader::Replay(id) => {
                if let Some(connection) = self.connections.get(id)
                    && let Some(replay) = connection.replays().front_mut()
                {
                    replay.load_queue.store_loaded(ticket, messages);
                }
                self.send_pending_on(id);
            }
            Reader::OfflineReplay(mut owed) => {
                owed.1.load_queue.store_loaded(ticket, messages);
                self.routing.resume_replay(*owed);
            }
            Reader::SessionCleanup(mut ending) => {
                ending.load_queue.store_loaded(ticket, messages);
                self.jobs.push(Job::Clear(*ending));
            }
            Reader::ShareQueue(share) => {
                if let Some(back) = self.routing.share_load_queue(&share) {
                    back.store_loaded(ticket, messages);
                }
                self.jobs.push(Job::Drain(share));
            }
            Reader::Redispatch(mut redispatch) => {
                redispatch.load_queue.store_loaded(ticket, messages);
                self.jobs.push(Job::Redispatch(redispatch));
            }
            Reader::Fetching(mut shown) => {
                shown.0.load_queue.store_loaded(ticket, messages);
                self.continue_fetch(*shown);
            }
            Reader::Nobody => {}
        }
    }

    /// Retries waiting readers, as far as there is room.
    pub(in crate::storage::spill) fn retry_waiting_readers(&mut self) {
        for _ in 0..self.spill.waiting_readers.len() {
            if !self.spill.has_room_to_read() {
                return;
            }
            let Some(reader) = self.spill.waiting_readers.pop_front() else { return };
            self.continue_reading(reader);
        }
    }

    pub(in crate::storage::spill) fn retry_reading(&mut self) {
        while self.spill.retries.front().is_some_and(|(at_ms, _)| *at_ms <= self.clock.now_ms())
            && let Some((_, reader)) = self.spill.retries.pop_front()
        {
            self.continue_reading(reader);
        }
    }

    fn continue_reading(&mut self, reader: Reader) {
        match reader {
            Reader::Queue(id) => {
                if let Some(connection) = self.connections.get(id) {
                    connection.load_queue().resume_loading();
                }
                self.send_pending_on(id);
            }
            Reader::Replay(id) => {
                if let Some(connection) = self.connections.get(id) {
                    connection.replays().iter_mut().for_each(|replay| replay.load_queue.resume_loading());
                }
                self.send_pending_on(id);
            }
            Reader::OfflineReplay(mut owed) => {
                owed.1.load_queue.resume_loading();
                self.routing.resume_replay(*owed);
            }
            Reader::SessionCleanup(mut ending) => {
                ending.load_queue.resume_loading();
                self.jobs.push(Job::Clear(*ending));
            }
            Reader::ShareQueue(share) => {
                if let Some(back) = self.routing.share_load_queue(&share) {
                    back.resume_loading();
                }
                self.jobs.push(Job::Drain(share));
            }
            Reader::Redispatch(mut redispatch) => {
                redispatch.load_queue.resume_loading();
                self.jobs.push(Job::Redispatch(redispatch));
            }
            Reader::Fetching(mut shown) => {
                shown.0.load_queue.resume_loading();
                self.continue_fetch(*shown);
            }
            Reader::Nobody => {}
        }
    }

    fn continue_fetch(&mut self, (fetch, reply): (Fetch, Reply<FetchedMessage>)) {
        self.jobs.push(Job::AdminQuery(Box::new(RunningQuery::Fetch(fetch, reply))));
    }

    fn send_pending_on(&mut self, id: ConnectionId) {
        if let Some(session) = self.connections.get(id).and_then(|connection| connection.session()) {
            self.send_pending(session);
        }
    }
}

/// The first message, and those after it within `most_bytes`.
fn portion<'c>(wanted: impl Iterator<Item = &'c Spilled>, most_bytes: usize) -> Vec<Spilled> {
    let mut left = most_bytes;
    let mut is_first = true;
    let fits = |spilled: &&Spilled| {
        let fits = is_first || spilled.allocated_bytes() <= left;
        is_first = false;
        left = left.saturating_sub(spilled.allocated_bytes());
        fits
    };
    wanted.take(READ_AHEAD_MAX).take_while(fits).cloned().collect()
}
