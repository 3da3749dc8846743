//! A node's copy of the retained messages of the cluster.
//!
//! All shards of the node share one store, and each receives every change; the first shard that receives a change applies it.
//!
//! Changes come from two sources: the log brings each message with RETAIN, and the stream of retained messages has the final value of each
//! topic. Either can be first. Both contain the place in the log, and the latest place of a topic wins. So the store is never behind what
//! the shard that searches it has routed, nor behind what the stream contained when it was asked.
//!
//! A message that came from the log but not yet from the stream is **unconfirmed**: another node may not have it, so searches do not return
//! it yet. Otherwise, a client that subscribes there later would find an older retained message.

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

/// How long the place at which a topic was cleared is remembered. The other source may still bring earlier messages.
const CLEARED_RETENTION_MS: u64 = 300_000;
/// The maximum number of such topics. Clients can clear topics that never retained anything.
const CLEARED_MAX: usize = 262_144;
/// The maximum time a search waits until the stream has what the log has brought. If a node dies between both, its removal retains the
/// message, which takes less time.
const CONFIRMED_WITHIN_MS: u64 = 30_000;
/// The maximum number of topics that are known to be unconfirmed.
const UNCONFIRMED_MAX: usize = 65_536;
/// The positions in the stream are dropped when there are more than this, and more than twice as many as retained messages.
const KNOWN_HEADROOM: usize = 65_536;

/// The store of retained messages that all shards share, for one operation.
pub(crate) struct SharedRetainedStore<'a> {
    pub(super) exchange: &'a Exchange,
    /// Accounts for the memory of retained messages.
    pub(super) ledger: &'a Arc<MemoryLedger>,
    pub(super) now_ms: u64,
}

/// The state of the node's copy.
#[derive(Debug, Default)]
pub(crate) struct Mirror(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// The number of the node's current incarnation.
    incarnation: u64,
    /// Changes of the stream were applied up to here.
    through: Sequence,
    /// The latest place in each partition that the stream has contained.
    reached: Places,
    /// The position of topics in the stream, by a hash of the topic. A wrong position only costs the cluster's machine a query.
    known: HashMap<u64, Sequence>,
    hasher: RandomState,
    /// The place in the log at which each topic was cleared, and the order in which these places expire.
    cleared: HashMap<Box<str>, Place>,
    eviction_order: VecDeque<(u64, Box<str>, Place)>,
    /// By topic: the last place from the log, if the stream does not have it yet, and how long to wait for it.
    unconfirmed: HashMap<Box<str>, (Place, u64)>,
    /// Cleared topics that were evicted before they expired, since the last report.
    evicted: u64,
    /// Changes whose messages the log does not bring in this incarnation: the generation of each, and how many shards have yet to ask.
    late: BTreeMap<Sequence, (u64, usize)>,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            incarnation: 0,
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
    /// Begins an incarnation of the node, which reads the stream from its beginning. Earlier copies are removed: their topics may have been
    /// cleared so long ago that the stream does not contain that any more.
    pub(crate) fn begin_incarnation(&self, incarnation: u64, exchange: &Exchange) {
        let mut inner = self.lock();
        if incarnation <= inner.incarnation {
            // Another shard has done this.
            return;
        }
        *inner = Inner { incarnation, ..Inner::default() };
        if is(Mutant::KeepsPreviousRetained) {
            return;
        }
        let mut topics: Vec<Box<str>> = Vec::new();
        if let Some(mut listing) = exchange.list_retained(None) {
            while !listing.is_done() {
                exchange.continue_listing(&mut listing, &mut { u64::MAX }, |topic, body| {
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

    /// Applies a message with RETAIN from the log. Returns false if too many topics are unconfirmed to remember this one.
    pub(crate) fn apply_from_log(&self, at: LogPlace, message: &MessageRef<'_>, to: &SharedRetainedStore<'_>) -> bool {
        let mut inner = self.lock();
        if inner.current_place(message.topic, to.exchange).is_some_and(|current| at.place <= current) {
            return true;
        }
        if inner.unconfirmed.len() >= UNCONFIRMED_MAX {
            inner.stop_waiting_for_overdue(to);
        }
        let is_remembered = inner.unconfirmed.len() < UNCONFIRMED_MAX || inner.unconfirmed.contains_key(message.topic);
        if is_remembered {
            inner.unconfirmed.insert(message.topic.into(), (at.place, to.now_ms + CONFIRMED_WITHIN_MS));
        }
        if is_remembered && message.payload.is_empty() {
            // A cleared message stays until the stream confirms it; searches wait for that.
            inner.record_cleared(message.topic, at.place, to.now_ms);
        } else {
            inner.set(at, message, to);
        }
        is_remembered
    }

    /// Whether a search may return a topic's retained message.
    pub(crate) fn retained_visibility(&self, topic: &str, to: &SharedRetainedStore<'_>) -> RetainedVisibility {
        let mut inner = self.lock();
        let Some((place, until_ms)) = inner.unconfirmed.get(topic).copied() else {
            return RetainedVisibility::Confirmed;
        };
        if is(Mutant::ScansUnconfirmedRetained) {
            return RetainedVisibility::Confirmed;
        }
        if to.now_ms < until_ms {
            return RetainedVisibility::Unconfirmed;
        }
        inner.stop_waiting(topic, place, to);
        RetainedVisibility::Overdue
    }

    /// Applies changes from the stream. Each shard calls this in the order of the stream, and the first one applies them. `place` returns a
    /// change's place in the log, and whether it is late: the log does not bring its message in this incarnation. The result contains late
    /// changes with the generation to route them with on each shard, and unreadable messages.
    pub(crate) fn apply_changes(
        &self,
        incarnation: u64,
        changes: &[RetainedChange],
        place: impl Fn(&RetainedChange) -> (LogPlace, bool),
        to: &SharedRetainedStore<'_>,
    ) -> Vec<(usize, Result<u64, UnreadableMessage>)> {
        let mut inner = self.lock();
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Vec::new() };
        let is_known =
            last.sequence <= inner.through && inner.late.range(first.sequence..=last.sequence).next().is_none();
        if inner.incarnation != incarnation || is_known {
            return Vec::new();
        }
        let taken = changes.iter().enumerate().filter_map(|(index, change)| {
            let (at, is_late) = place(change);
            inner.apply_change(change, at, is_late, to).transpose().map(|outcome| (index, outcome))
        });
        taken.collect()
    }

    /// The latest place in each partition that the stream has contained.
    pub(crate) fn reached(&self) -> Places {
        self.lock().reached
    }

    /// The number of cleared topics that were evicted early since the last call.
    pub(crate) fn take_evicted(&self) -> u64 {
        std::mem::take(&mut self.lock().evicted)
    }

    /// The position of a topic's retained message in the stream, as far as this node knows.
    pub(crate) fn known(&self, topic: &str) -> Option<Sequence> {
        let inner = self.lock();
        inner.known.get(&inner.hasher.hash_one(topic)).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a topic's retained message is visible to searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainedVisibility {
    /// All nodes have it, or get it before they search.
    Confirmed,
    /// The stream does not have it yet.
    Unconfirmed,
    /// The stream did not bring it in time, and it is visible now.
    Overdue,
}

/// A message in the stream that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnreadableMessage;

/// A message that clears a topic; the caller sets the topic. The stream does not contain its QoS.
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
    /// The place of a topic's retained message, or at which the topic was cleared.
    fn current_place(&self, topic: &str, exchange: &Exchange) -> Option<Place> {
        let held = exchange.retained_message(topic).and_then(|body| LogPlace::of_retained(body.id()));
        held.map(|at| at.place).max(self.cleared.get(topic).copied())
    }

    /// Sets a topic's retained message, or clears it if the payload is empty [MQTT-3.3.1-6]. Returns the new generation.
    fn set(&mut self, at: LogPlace, message: &MessageRef<'_>, to: &SharedRetainedStore<'_>) -> u64 {
        if message.payload.is_empty() {
            self.record_cleared(message.topic, at.place, to.now_ms);
            to.exchange.clear_retained(message.topic)
        } else {
            self.evict_expired(to.now_ms);
            self.cleared.remove(message.topic);
            to.exchange.mirror_retained(MessageRef { id: at.to_retained_id(), ..*message }.to_message_in(to.ledger))
        }
    }

    /// Applies one change, unless another shard has done so. For a late one, returns the generation to route it with.
    fn apply_change(
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
        match self.current_place(&record.topic, to.exchange) {
            Some(current) if record.place < current && !is(Mutant::RetainsOutOfOrder) => {}
            Some(current) if record.place == current => {
                // The expiry from the log is by the clock of another node.
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
        self.evict_expired(now_ms);
        if self.eviction_order.len() >= CLEARED_MAX {
            self.evicted += 1;
            self.evict_first();
        }
        self.cleared.insert(topic.into(), place);
        self.eviction_order.push_back((now_ms + CLEARED_RETENTION_MS, topic.into(), place));
    }

    /// Confirms a topic up to a place that the stream has. Returns whether the topic was unconfirmed.
    fn confirm(&mut self, topic: &str, confirmed: Place) -> bool {
        let is_awaited = self.unconfirmed.get(topic).is_some_and(|(place, _)| *place <= confirmed);
        if is_awaited {
            self.unconfirmed.remove(topic);
        }
        is_awaited
    }

    /// Makes a topic visible that the stream did not confirm in time: the message of the log applies.
    fn stop_waiting(&mut self, topic: &str, place: Place, to: &SharedRetainedStore<'_>) {
        self.unconfirmed.remove(topic);
        // The message that it clears is still in the store.
        let held = to.exchange.retained_message(topic).and_then(|body| LogPlace::of_retained(body.id()));
        if held.is_some_and(|held| held.place < place) {
            to.exchange.clear_retained(topic);
        }
    }

    fn stop_waiting_for_overdue(&mut self, to: &SharedRetainedStore<'_>) {
        let overdue = self.unconfirmed.iter().filter(|(_, (_, until_ms))| *until_ms <= to.now_ms);
        let overdue: Vec<_> = overdue.map(|(topic, (place, _))| (topic.clone(), *place)).collect();
        overdue.iter().for_each(|(topic, place)| self.stop_waiting(topic, *place, to));
    }

    /// The generation of a late change; each shard asks once.
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
        // The map also contains topics whose message has expired.
        if self.known.len() > KNOWN_HEADROOM && self.known.len() / 2 > exchange.retained().0 {
            self.known = HashMap::new();
        }
    }

    /// Evicts the places of topics that were cleared long ago.
    fn evict_expired(&mut self, now_ms: u64) {
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
