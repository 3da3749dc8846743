//! The shards of a node's engine: sessions, and what the log brings for them. A shard does what it has to do in pieces and in any order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tautwire_cluster::Member;
use tautwire_cluster::delivery::{LogGroup, Receivers, Slot, Span, Walk};
use tautwire_cluster::names::PARTITIONS;
use tautwire_cluster::record::Place;

use crate::ledger::Message;
use crate::random::Random;
use crate::session::Session;

pub(crate) const SHARDS: usize = 2;

pub(crate) struct Shards {
    shards: Vec<Shard>,
    random: Random,
}

struct Shard {
    index: usize,
    receivers: Option<Receivers>,
    /// What has arrived, and how many groups of the first span have been offered.
    live: VecDeque<Arc<Span>>,
    offered: usize,
    /// Spans for those who are behind, and how many groups of each have been offered.
    walks: Vec<(Arc<Span>, usize)>,
    sessions: BTreeMap<Slot, Session>,
}

impl Shards {
    pub(crate) fn new(seed: u64) -> Shards {
        let shard = |index| Shard {
            index,
            receivers: None,
            live: VecDeque::new(),
            offered: 0,
            walks: Vec::new(),
            sessions: BTreeMap::new(),
        };
        Shards { shards: (0..SHARDS).map(shard).collect(), random: Random::new(seed) }
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

    /// A session begins or goes on here. Gives the number of its state.
    pub(crate) fn serve(&mut self, now_ms: u64, client: usize, state: &[u8]) {
        let shard = &mut self.shards[client % SHARDS];
        let receivers = shard.receivers.as_mut().expect("nobody is served before the log has begun");
        let slot = client as Slot;
        let session = if state.is_empty() {
            receivers.begin(slot, now_ms);
            Session::new(client)
        } else {
            let (session, cursors) = Session::decode(client, state);
            receivers.resume(slot, &cursors, now_ms);
            session
        };
        shard.sessions.insert(slot, session);
    }

    pub(crate) fn session(&mut self, client: usize) -> Option<&mut Session> {
        self.shards[client % SHARDS].sessions.get_mut(&(client as Slot))
    }

    /// The state of a session, as it is written down.
    pub(crate) fn save(&mut self, now_ms: u64, client: usize) -> Option<(u64, Vec<u8>)> {
        let (shard, slot) = (&mut self.shards[client % SHARDS], client as Slot);
        let (receivers, session) = (shard.receivers.as_mut()?, shard.sessions.get_mut(&slot)?);
        let state = session.encode(&receivers.cursors(slot)?);
        receivers.checkpointed(slot, now_ms);
        Some((session.number, state))
    }

    /// A session goes elsewhere.
    pub(crate) fn remove(&mut self, client: usize) {
        let (shard, slot) = (&mut self.shards[client % SHARDS], client as Slot);
        shard.sessions.remove(&slot);
        if let Some(receivers) = &mut shard.receivers {
            receivers.remove(slot);
        }
    }

    /// PUBACK or PUBREC.
    pub(crate) fn acknowledged(&mut self, now_ms: u64, client: usize, packet_id: std::num::NonZeroU16) {
        let (shard, slot) = (&mut self.shards[client % SHARDS], client as Slot);
        let (Some(receivers), Some(session)) = (&mut shard.receivers, shard.sessions.get_mut(&slot)) else { return };
        if let Some((partition, place)) = session.acknowledged(packet_id) {
            assert!(receivers.complete(slot, partition, place, now_ms), "what is in the window is open");
        }
        if session.is_half_empty() {
            receivers.has_room(slot);
        }
    }

    /// PUBCOMP.
    pub(crate) fn completed(&mut self, client: usize, packet_id: std::num::NonZeroU16) {
        let (shard, slot) = (&mut self.shards[client % SHARDS], client as Slot);
        let (Some(receivers), Some(session)) = (&mut shard.receivers, shard.sessions.get_mut(&slot)) else { return };
        session.completed(packet_id);
        if session.is_half_empty() {
            receivers.has_room(slot);
        }
    }

    /// Does some of what there is to do. Gives the clients whose sessions have to be saved.
    pub(crate) fn work(&mut self, now_ms: u64, member: &mut Member) -> Vec<usize> {
        let mut due = Vec::new();
        for shard in &mut self.shards {
            // A shard is busy with something else at times.
            for _ in 0..self.random.below(4) {
                shard.step(now_ms, self.random.next(), member);
            }
            if let Some(receivers) = &mut shard.receivers {
                while let Some(slot) = receivers.next_due(now_ms) {
                    due.push(slot as usize);
                }
                while let Some(request) = receivers.next_read() {
                    member.read(shard.index, request);
                }
            }
            let changed = shard.sessions.values().filter(|session| session.is_changed);
            due.extend(changed.map(|session| session.client));
        }
        due
    }
}

impl Shard {
    fn step(&mut self, now_ms: u64, chance: u64, member: &mut Member) {
        let ways = self.walks.len() as u64 + 1;
        match (chance % ways) as usize {
            0 => self.offer_live(now_ms, member),
            walk => self.walk_on(walk - 1),
        }
    }

    fn offer_live(&mut self, now_ms: u64, member: &mut Member) {
        let Some(span) = self.live.front().cloned() else { return };
        if let Some(group) = span.groups.get(self.offered) {
            self.offered += 1;
            return self.offer(&span, group, Walk::Live);
        }
        self.receivers.as_mut().expect("it has begun").pass(span.partition, span.end());
        self.live.pop_front();
        self.offered = 0;
        member.took(now_ms, self.index, span.partition, span.until);
    }

    fn walk_on(&mut self, walk: usize) {
        let (span, offered) = &mut self.walks[walk];
        let span = span.clone();
        if let Some(group) = span.groups.get(*offered) {
            *offered += 1;
            return self.offer(&span, group, Walk::Read);
        }
        self.walks.remove(walk);
        for (slot, place) in self.receivers.as_mut().expect("it has begun").end_walk(&span) {
            self.sessions.get_mut(&slot).expect("it is there").forget(place, span.partition);
        }
    }

    fn offer(&mut self, span: &Span, group: &LogGroup, walk: Walk) {
        let receivers = self.receivers.as_mut().expect("it has begun");
        for message in group.messages.iter() {
            let (partition, place, content) = (span.partition, group.place(&message), Message::decode(message.stored));
            assert_eq!(message.publisher.epoch, content.epoch);
            if walk == Walk::Read {
                for slot in receivers.again(partition, place) {
                    self.sessions.get_mut(&slot).expect("it is there").send_again(partition, place, content);
                }
            }
            for (slot, session) in &mut self.sessions {
                if !session.wants(&content) || !receivers.wants(*slot, partition, place, walk) {
                    continue;
                }
                if session.has_room() {
                    receivers.hand_out(*slot, partition, place);
                    session.start(partition, place, content);
                } else {
                    receivers.hold(*slot, partition, place);
                }
            }
            if walk == Walk::Live {
                receivers.pass(partition, place.behind());
            }
        }
    }
}
