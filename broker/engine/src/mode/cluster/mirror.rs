//! A node's copy of what topics retain. All shards of the node have it in their common store, and each of them is told of each change:
//! this says which change is news.
//!
//! Changes come by two ways: the log brings each message with RETAIN, and the stream of retained messages says what each topic retains in
//! the end. Neither is always the first. Both name the place in the log, and of one topic, the latest place counts. So the store is never
//! behind what the shard that looks at it has routed, nor behind what the stream had when it was asked.
//!
//! What the log has brought and the stream has not is **unconfirmed**: another node may not have it, so no search shows it yet. Otherwise
//! somebody who subscribes there later would find what was retained before.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tautwire_cluster::Sequence;
use tautwire_cluster::names::PARTITIONS;
use tautwire_cluster::record::{Place, Retain};
use tautwire_memory::MemoryLedger;
use tautwire_message::MessageRef;
use tautwire_router::Exchange;

use super::cluster_state::{LogPlace, Places};
use super::port::RetainedChange;
use crate::mutant::{Mutant, is};

/// How long the place is remembered at which a topic was cleared. The other way may still bring what was before it.
const CLEARED_RETENTION_MS: u64 = 300_000;
/// Of so many topics at most. Clients can clear topics that never retained anything.
const CLEARED_MAX: usize = 262_144;
/// How long a search waits at most until the stream has what the log has brought. A message whose node dies between both is retained by its
/// burial, and that takes less.
const CONFIRMED_WITHIN_MS: u64 = 30_000;
/// Topics of which it is known that the stream has yet to confirm them.
const UNCONFIRMED_MAX: usize = 65_536;
/// With more topics, and twice as many as retain something, their places in the stream are forgotten.
const KNOWN_HEADROOM: usize = 65_536;

/// The store of all shards, as one of them reaches it.
pub(crate) struct SharedRetainedStore<'a> {
    pub(super) exchange: &'a Exchange,
    /// In which what is retained is entered.
    pub(super) ledger: &'a Arc<MemoryLedger>,
    pub(super) now_ms: u64,
}

/// What is known of the copy.
#[derive(Debug, Default)]
pub(crate) struct Mirror(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// Lives of the node that have begun.
    life: u64,
    /// The stream has been taken on up to here.
    through: Sequence,
    /// The latest places that it has named.
    reached: Places,
    /// Where in the stream topics stand, by a hash: a wrong place costs the cluster's machine a question, and nothing else.
    known: HashMap<u64, Sequence>,
    hasher: RandomState,
    /// Where in the log topics were cleared, and in which order that is forgotten.
    cleared: HashMap<Box<str>, Place>,
    eviction_order: VecDeque<(u64, Box<str>, Place)>,
    /// By topic: what the log has brought last, if the stream has not, and until when that is waited for.
    unconfirmed: HashMap<Box<str>, (Place, u64)>,
    /// Topics of which it was forgotten too early where they were cleared, since that was told last.
    evicted: u64,
    /// Changes of which the log brings nothing in this life: with which generation each was taken on, and how many shards have not asked.
    late: BTreeMap<Sequence, (u64, usize)>,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            life: 0,
            through: Sequence(0),
            reached: [Place::START; PARTITIONS as usize],
            known: HashMap::new(),
            hasher: RandomState::new(),
            cleared: HashMap::new(),
            eviction_order: VecDeque::new(),
            unconfirmed: HashMap::new(),
            evicted: 0,
            late: BTreeMap::new(),
        }
    }
}

impl Mirror {
    /// A life of the node begins, and reads the stream from its beginning. What was copied before may have been cleared so long ago that
    /// the stream does not say so any more.
    pub(crate) fn begin_life(&self, life: u64, exchange: &Exchange) {
        let mut inner = self.lock();
        if life <= inner.life {
            // Another shard was faster.
            return;
        }
        *inner = Inner { life, ..Inner::default() };
        if is(Mutant::KeepsFormerLife) {
            return;
        }
        let mut topics: Vec<Box<str>> = Vec::new();
        if let Some(mut look) = exchange.list_retained(None) {
            while !look.is_done() {
                exchange.continue_listing(&mut look, &mut { u64::MAX }, |topic, body| {
                    if LogPlace::of_retained(body.id()).is_some() {
                        topics.push(topic.into());
                    }
                    std::ops::ControlFlow::Continue(())
                });
            }
        }
        for topic in topics {
            exchange.clear_retained(&topic);
        }
    }

    /// The log has brought a message with RETAIN. False where too many are unconfirmed to remember that this one is.
    pub(crate) fn take_from_log(&self, at: LogPlace, message: &MessageRef<'_>, to: &SharedRetainedStore<'_>) -> bool {
        let mut inner = self.lock();
        if inner.there(message.topic, to.exchange).is_some_and(|there| at.place <= there) {
            return true;
        }
        if inner.unconfirmed.len() >= UNCONFIRMED_MAX {
            inner.give_up_overdue(to);
        }
        let is_remembered = inner.unconfirmed.len() < UNCONFIRMED_MAX || inner.unconfirmed.contains_key(message.topic);
        if is_remembered {
            inner.unconfirmed.insert(message.topic.into(), (at.place, to.now_ms + CONFIRMED_WITHIN_MS));
        }
        if is_remembered && message.payload.is_empty() {
            // What is to go stays until the stream says so, and searches wait for that.
            inner.record_cleared(message.topic, at.place, to.now_ms);
        } else {
            inner.set(at, message, to);
        }
        is_remembered
    }

    /// Whether a search may show what a topic retains.
    pub(crate) fn retained_visibility(&self, topic: &str, to: &SharedRetainedStore<'_>) -> RetainedVisibility {
        let mut inner = self.lock();
        let Some((place, until_ms)) = inner.unconfirmed.get(topic).copied() else {
            return RetainedVisibility::Confirmed;
        };
        if is(Mutant::ShowsUnconfirmed) {
            return RetainedVisibility::Confirmed;
        }
        if to.now_ms < until_ms {
            return RetainedVisibility::AwaitingPubComp;
        }
        inner.give_up(topic, place, to);
        RetainedVisibility::Overdue
    }

    /// The stream has brought what topics retain. Each shard says so, in the order of the stream, and the first one takes it on. `place` says of a
    /// change where in the log it stands, and whether it is late, so that the log does not bring the message in this life. Of late ones that are
    /// news, the answer has the generation with which they are to be routed on each shard; of what is no message, that.
    pub(crate) fn apply_changes(
        &self,
        life: u64,
        changes: &[RetainedChange],
        place: impl Fn(&RetainedChange) -> (LogPlace, bool),
        to: &SharedRetainedStore<'_>,
    ) -> Vec<(usize, Result<u64, UnreadableMessage>)> {
        let mut inner = self.lock();
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Vec::new() };
        let is_known =
            last.sequence <= inner.through && inner.late.range(first.sequence..=last.sequence).next().is_none();
        if inner.life != life || is_known {
            return Vec::new();
        }
        let taken = changes.iter().enumerate().filter_map(|(index, change)| {
            let (at, is_late) = place(change);
            inner.take(change, at, is_late, to).transpose().map(|outcome| (index, outcome))
        });
        taken.collect()
    }

    /// The latest places that the stream has named.
    pub(crate) fn reached(&self) -> Places {
        self.lock().reached
    }

    /// Of how many topics it was forgotten too early where they were cleared, since this was asked last.
    pub(crate) fn take_evicted(&self) -> u64 {
        std::mem::take(&mut self.lock().evicted)
    }

    /// Where the stream has what a topic retains, as far as this node knows.
    pub(crate) fn known(&self, topic: &str) -> Option<Sequence> {
        let inner = self.lock();
        inner.known.get(&inner.hasher.hash_one(topic)).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How it is with what a topic retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainedVisibility {
    /// All nodes have it, or find it when they look.
    Confirmed,
    /// The stream has yet to bring it.
    AwaitingPubComp,
    /// The stream has not brought it in time. It is not waited for any longer.
    Overdue,
}

/// What is to be retained cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnreadableMessage;

/// What clears a topic that is yet to be named. The stream does not say at which QoS it came.
pub(super) const CLEARED: MessageRef<'static> = MessageRef {
    id: tautwire_message::MessageId::NONE,
    topic: "",
    properties: &[],
    payload: &[],
    qos: tautwire_protocol::QoS::AtLeastOnce,
    retain: true,
    expires_at_ms: None,
};

impl Inner {
    /// The place of what a topic retains, or at which it was cleared.
    fn there(&self, topic: &str, exchange: &Exchange) -> Option<Place> {
        let held = exchange.retained_message(topic).and_then(|body| LogPlace::of_retained(body.id()));
        held.map(|at| at.place).max(self.cleared.get(topic).copied())
    }

    /// The topic retains this from now on, or nothing where the payload is empty [MQTT-3.3.1-6]. Gives the generation as of then.
    fn set(&mut self, at: LogPlace, message: &MessageRef<'_>, to: &SharedRetainedStore<'_>) -> u64 {
        if message.payload.is_empty() {
            self.record_cleared(message.topic, at.place, to.now_ms);
            to.exchange.clear_retained(message.topic)
        } else {
            self.forget(to.now_ms);
            self.cleared.remove(message.topic);
            to.exchange.mirror_retained(MessageRef { id: at.to_retained_id(), ..*message }.to_message_in(to.ledger))
        }
    }

    /// Takes on one change, unless another shard has done so. Of a late one, gives the generation with which it is to be routed.
    fn take(
        &mut self,
        change: &RetainedChange,
        at: LogPlace,
        is_late: bool,
        to: &SharedRetainedStore<'_>,
    ) -> Result<Option<u64>, UnreadableMessage> {
        let RetainedChange { record, sequence, expires_at_ms } = change;
        if *sequence <= self.through {
            return Ok(self.take_late(*sequence));
        }
        self.through = *sequence;
        let reached = &mut self.reached[at.partition.index()];
        *reached = (*reached).max(record.place);
        let was_awaited = self.confirm(&record.topic, record.place);
        self.record_known(&record.topic, *sequence, to.exchange);
        let empty = MessageRef { topic: &record.topic, ..CLEARED };
        let message = match record.retain {
            Retain::Clear => empty,
            Retain::Always | Retain::Seconds(_) => {
                let message = MessageRef::read_stored(&record.message).ok_or(UnreadableMessage)?;
                if message.topic != record.topic || message.payload.is_empty() {
                    return Err(UnreadableMessage);
                }
                message
            }
        };
        let message = MessageRef { expires_at_ms: *expires_at_ms, ..message };
        match self.there(&record.topic, to.exchange) {
            Some(there) if record.place < there && !is(Mutant::RetainsInAnyOrder) => {}
            Some(there) if record.place == there => {
                // The log says by the clock of another node when it expires.
                if message.expires_at_ms.is_some() && !message.payload.is_empty() {
                    to.exchange.update_retained_expiry(
                        MessageRef { id: at.to_retained_id(), ..message }.to_message_in(to.ledger),
                    );
                }
                if was_awaited && message.payload.is_empty() {
                    to.exchange.clear_retained(&record.topic);
                }
            }
            _ => {
                let generation = self.set(at, &message, to);
                if is_late {
                    self.late.insert(*sequence, (generation, to.exchange.shards()));
                }
            }
        }
        Ok(self.take_late(*sequence))
    }

    fn record_cleared(&mut self, topic: &str, place: Place, now_ms: u64) {
        self.forget(now_ms);
        if self.eviction_order.len() >= CLEARED_MAX {
            self.evicted += 1;
            self.evict_first();
        }
        self.cleared.insert(topic.into(), place);
        self.eviction_order.push_back((now_ms + CLEARED_RETENTION_MS, topic.into(), place));
    }

    /// The stream has what stands at this place, or has had it. Says whether that was awaited.
    fn confirm(&mut self, topic: &str, confirmed: Place) -> bool {
        let is_awaited = self.unconfirmed.get(topic).is_some_and(|(place, _)| *place <= confirmed);
        if is_awaited {
            self.unconfirmed.remove(topic);
        }
        is_awaited
    }

    /// The stream is not waited for any longer: what the log says holds.
    fn give_up(&mut self, topic: &str, place: Place, to: &SharedRetainedStore<'_>) {
        self.unconfirmed.remove(topic);
        // What it clears stands there still.
        let held = to.exchange.retained_message(topic).and_then(|body| LogPlace::of_retained(body.id()));
        if held.is_some_and(|held| held.place < place) {
            to.exchange.clear_retained(topic);
        }
    }

    fn give_up_overdue(&mut self, to: &SharedRetainedStore<'_>) {
        let overdue = self.unconfirmed.iter().filter(|(_, (_, until_ms))| *until_ms <= to.now_ms);
        let overdue: Vec<_> = overdue.map(|(topic, (place, _))| (topic.clone(), *place)).collect();
        overdue.iter().for_each(|(topic, place)| self.give_up(topic, *place, to));
    }

    /// A shard asks whether a change was late.
    fn take_late(&mut self, sequence: Sequence) -> Option<u64> {
        let (generation, left) = self.late.get_mut(&sequence)?;
        let generation = *generation;
        *left -= 1;
        if *left == 0 {
            self.late.remove(&sequence);
        }
        Some(generation)
    }

    fn record_known(&mut self, topic: &str, sequence: Sequence, exchange: &Exchange) {
        self.known.insert(self.hasher.hash_one(topic), sequence);
        // Topics whose message has expired are among them.
        if self.known.len() > KNOWN_HEADROOM && self.known.len() / 2 > exchange.retained().0 {
            self.known = HashMap::new();
        }
    }

    /// Forgets where topics were cleared long ago.
    fn forget(&mut self, now_ms: u64) {
        while self.eviction_order.front().is_some_and(|(until_ms, ..)| *until_ms <= now_ms) {
            self.evict_first();
        }
    }

    fn evict_first(&mut self) {
        if let Some((_, topic, place)) = self.eviction_order.pop_front()
            && self.cleared.get(&topic) == Some(&place)
        {
            self.cleared.remove(&topic);
            self.known.remove(&self.hasher.hash_one(&*topic));
        }
    }
}
