//! A model of a node's shards: sessions, and messages from the log. A shard works in steps, in any order.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;

use tautwire_cluster::Member;
use tautwire_cluster::delivery::{DeliverySource, LogGroup, Receivers, Slot, Span};
use tautwire_cluster::names::{Incarnation, PARTITIONS, Partition};
use tautwire_cluster::record::Place;

use crate::engine::key_of;
use crate::ledger::{Ledger, Message};
use crate::random::Random;
use crate::session::Session;

pub(crate) const SHARDS: usize = 2;
/// The coordinating shard of the group, and its slot.
const HOME: usize = 0;
pub(crate) const GROUP: Slot = 1000;
pub(crate) const SHARE: &str = "$share/group/topic/+";

/// Stands for the filter of the group.
pub(crate) fn is_for_group(message: &Message) -> bool {
    message.topic < 2
}

pub(crate) struct Shards {
    shards: Vec<Shard>,
    /// The slots of all shards.
    sessions: BTreeMap<Slot, Session>,
    random: Random,
}

struct Shard {
    index: usize,
    receivers: Option<Receivers>,
    /// Arrived spans, and the number of groups of the first span that were offered.
    live: VecDeque<Arc<Span>>,
    offered: usize,
    /// Spans for lagging sessions, with the number of groups of each that were offered.
    walks: Vec<(Arc<Span>, usize)>,
}

impl Shards {
    pub(crate) fn new(seed: u64) -> Shards {
        let shard = |index| Shard { index, receivers: None, live: VecDeque::new(), offered: 0, walks: Vec::new() };
        Shards { shards: (0..SHARDS).map(shard).collect(), sessions: BTreeMap::new(), random: Random::new(seed) }
    }

    pub(crate) fn begin(&mut self, next: &[Place; PARTITIONS as usize]) {
        self.shards.iter_mut().for_each(|shard| shard.receivers = Some(Receivers::new(next)));
    }

    pub(crate) fn arrived(&mut self, span: &Arc<Span>) {
        self.shards.iter_mut().for_each(|shard| shard.live.push_back(span.clone()));
    }

    pub(crate) fn read(&mut self, shard: usize, number: u64, span: Arc<Span>) {
        let shard = &mut self.shards[shard];
        if shard.receivers.as_mut().is_some_and(|receivers| receivers.begin_walk(number, &span)) {
            shard.walks.push((span, 0));
        }
    }

    /// A session begins or resumes here. Returns the number of its state.
    pub(crate) fn serve(&mut self, now_ms: u64, client: usize, state: &[u8]) {
        let shard = &mut self.shards[client % SHARDS];
        let receivers = shard.receivers.as_mut().expect("no client is served before the log has begun");
        let slot = client as Slot;
        let session = if state.is_empty() {
            receivers.begin(slot, now_ms);
            Session::new(client)
        } else {
            let (session, cursors) = Session::decode(client, state);
            receivers.resume(slot, &cursors, now_ms);
            session
        };
        self.sessions.insert(slot, session);
    }

    pub(crate) fn session(&mut self, client: usize) -> Option<&mut Session> {
        self.sessions.get_mut(&(client as Slot))
    }

    /// Returns the encoded state of a session.
    pub(crate) fn save(&mut self, now_ms: u64, client: usize) -> Option<(u64, Vec<u8>)> {
        let (shard, slot) = (&mut self.shards[client % SHARDS], client as Slot);
        let (receivers, session) = (shard.receivers.as_mut()?, self.sessions.get_mut(&slot)?);
        let state = session.encode(&receivers.cursors(slot)?);
        receivers.checkpointed(slot, now_ms);
        Some((session.number, state))
    }

    /// A session moves to another node. Its unacknowledged messages of the group are for another member.
    pub(crate) fn remove(&mut self, client: usize) {
        let slot = client as Slot;
        if let Some(receivers) = &mut self.shards[client % SHARDS].receivers {
            receivers.remove(slot);
        }
        let Some(session) = self.sessions.remove(&slot) else { return };
        if let Some(home) = &mut self.shards[HOME].receivers {
            for (partition, place) in session.shared() {
                home.requeue(GROUP, partition, place);
            }
        }
    }

    /// PUBACK or PUBREC.
    pub(crate) fn acknowledged(&mut self, now_ms: u64, client: usize, packet_id: NonZeroU16) {
        let slot = client as Slot;
        let Some(session) = self.sessions.get_mut(&slot) else { return };
        let Some(done) = session.acknowledged(packet_id) else { return };
        let (home, of) = if done.is_shared { (HOME, GROUP) } else { (client % SHARDS, slot) };
        let receivers = self.shards[home].receivers.as_mut().expect("has begun");
        let was_open = receivers.complete(of, done.partition, done.place, now_ms);
        assert!(was_open || done.is_shared, "messages in the window are open");
        self.unblock(client);
    }

    /// PUBCOMP.
    pub(crate) fn completed(&mut self, client: usize, packet_id: NonZeroU16) {
        if let Some(session) = self.sessions.get_mut(&(client as Slot)) {
            session.completed(packet_id);
            self.unblock(client);
        }
    }

    fn unblock(&mut self, client: usize) {
        if self.sessions[&(client as Slot)].is_half_empty() {
            self.shards[client % SHARDS].receivers.as_mut().expect("has begun").unblock(client as Slot);
            self.shards[HOME].receivers.as_mut().expect("has begun").unblock(GROUP);
        }
    }

    /// There is a member that may have capacity.
    pub(crate) fn has_member(&mut self) {
        self.shards[HOME].receivers.as_mut().expect("has begun").unblock(GROUP);
    }

    /// The group delivers a partition here.
    pub(crate) fn lease(&mut self, now_ms: u64, partition: Partition, next: Place, open: Vec<Place>) {
        let home = self.shards[HOME].receivers.as_mut().expect("has begun");
        home.lease(GROUP, partition, next, open.into_iter(), now_ms);
    }

    pub(crate) fn recall(&mut self, partition: Partition) -> (Place, Vec<Place>) {
        // Members keep their messages, which may be sent to others as well.
        self.shards[HOME].receivers.as_mut().expect("has begun").recall(GROUP, partition)
    }

    pub(crate) fn leases(&self) -> Vec<(Partition, Place, Vec<Place>)> {
        self.shards[HOME].receivers.as_ref().map(|home| home.leases(GROUP)).unwrap_or_default()
    }

    /// Does some of the pending work. Returns the slots that must be saved.
    pub(crate) fn work(&mut self, now_ms: u64, member: &mut Member, ledger: &mut Ledger) -> Vec<Slot> {
        let mut due = Vec::new();
        for shard in &mut self.shards {
            // A shard is sometimes busy with other work.
            for _ in 0..self.random.below(4) {
                shard.step(now_ms, self.random.next(), &mut self.sessions, member, ledger);
            }
            if let Some(receivers) = &mut shard.receivers {
                while let Some(slot) = receivers.next_due(now_ms) {
                    due.push(slot);
                }
                while let Some(request) = receivers.next_read_range() {
                    member.read(shard.index, request);
                }
            }
        }
        due.extend(self.sessions.values().filter(|session| session.is_changed).map(|session| session.client as Slot));
        due
    }
}

impl Shard {
    fn step(
        &mut self,
        now_ms: u64,
        chance: u64,
        sessions: &mut BTreeMap<Slot, Session>,
        member: &mut Member,
        ledger: &mut Ledger,
    ) {
        let ways = self.walks.len() as u64 + 1;
        let me = member.incarnation();
        match (chance % ways) as usize {
            0 => {
                let Some(span) = self.live.front().cloned() else { return };
                if let Some(group) = span.groups.get(self.offered) {
                    self.offered += 1;
                    return self.offer(&span, group, DeliverySource::Live, sessions, me, ledger);
                }
                self.receivers.as_mut().expect("has begun").pass(span.partition, span.end());
                self.live.pop_front();
                self.offered = 0;
                member.mark_received(now_ms, self.index, span.partition, span.until);
            }
            walk => {
                let (span, offered) = &mut self.walks[walk - 1];
                let span = span.clone();
                if let Some(group) = span.groups.get(*offered) {
                    *offered += 1;
                    return self.offer(&span, group, DeliverySource::Read, sessions, me, ledger);
                }
                self.walks.remove(walk - 1);
                let lost = self.receivers.as_mut().expect("has begun").end_walk(&span);
                assert_eq!(lost, [], "groups do not expire here");
            }
        }
    }

    fn offer(
        &mut self,
        span: &Span,
        group: &LogGroup,
        walk: DeliverySource,
        sessions: &mut BTreeMap<Slot, Session>,
        me: Incarnation,
        ledger: &mut Ledger,
    ) {
        let receivers = self.receivers.as_mut().expect("has begun");
        let partition = span.partition;
        for message in group.messages.iter() {
            let (place, content) = (group.place(&message), Message::decode(message.stored));
            assert_eq!(message.publisher.client, key_of(content.client));
            let again = if walk == DeliverySource::Read { receivers.again(partition, place) } else { Vec::new() };
            for slot in &again {
                if *slot != GROUP {
                    sessions.get_mut(slot).expect("exists").send_again(partition, place, content);
                }
            }
            let here = sessions.iter_mut().filter(|(slot, _)| **slot as usize % SHARDS == self.index);
            for (slot, session) in here {
                if session.wants(&content) && receivers.wants(*slot, partition, place, walk) {
                    if session.unblock() {
                        receivers.mark_delivered(*slot, partition, place);
                        session.start(partition, place, content, false);
                    } else {
                        receivers.block(*slot, partition, place);
                    }
                }
            }
            let is_new = is_for_group(&content) && receivers.wants(GROUP, partition, place, walk);
            if self.index == HOME && (is_new || again.contains(&GROUP)) {
                match sessions.values_mut().find(|session| session.has_joined && session.unblock()) {
                    Some(member) => {
                        ledger.dispatched(partition, me);
                        receivers.mark_delivered(GROUP, partition, place);
                        member.start(partition, place, content, true);
                    }
                    None => receivers.block(GROUP, partition, place),
                }
            }
            if walk == DeliverySource::Live {
                receivers.pass(partition, place.behind());
            }
        }
    }
}
