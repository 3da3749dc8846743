//! Shared subscriptions [MQTT 5.0 section 4.8.2].

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tautwire_message::Format;
use tautwire_protocol::{QoS, SubscriptionId};
use tautwire_session::SessionNumber;

use crate::ShardIndex;
use crate::dispatch_log::{Dispatch, DispatchLog};
use crate::member_credit::MemberCredit;
use crate::session_key::SessionKey;

/// A session's membership in a group.
#[derive(Debug, Clone)]
pub struct GroupMember {
    /// The session.
    pub session: SessionKey,
    /// The session's number in the log; `None` if the session is not completely persistent.
    pub number: Option<SessionNumber>,
    /// Granted QoS.
    pub qos: QoS,
    /// Retain As Published.
    pub retain_as_published: bool,
    /// Subscription Identifier.
    pub identifier: Option<SubscriptionId>,
    /// The requested payload format.
    pub format: Option<Format>,
    /// The credit of the session, the same for all its memberships.
    pub room: Arc<MemberCredit>,
}

impl GroupMember {
    /// Returns the QoS at which the member gets a message [MQTT-4.8.2-3].
    fn delivery_qos(&self, qos: QoS) -> QoS {
        self.qos.min(qos)
    }

    /// Whether the member can take a message of this QoS now.
    fn has_room(&self, qos: QoS) -> bool {
        match self.delivery_qos(qos) {
            QoS::AtMostOnce => self.room.is_online(),
            QoS::AtLeastOnce | QoS::ExactlyOnce => self.room.has_room(),
        }
    }

    /// Takes credit for a message of this QoS. Returns false if there is none.
    pub fn take_credit(&self, qos: QoS) -> bool {
        match self.delivery_qos(qos) {
            QoS::AtMostOnce => self.room.is_online(),
            QoS::AtLeastOnce | QoS::ExactlyOnce => self.room.take(),
        }
    }

    /// Returns the credit of a message of this QoS that is not sent.
    pub fn return_credit(&self, qos: QoS) {
        if self.delivery_qos(qos) != QoS::AtMostOnce {
            self.room.give_back();
        }
    }
}

/// The shard that delivers a shared subscription's messages from a cluster's log, to its members on all shards of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCoordinator {
    /// The shard.
    pub shard: ShardIndex,
    /// The slot of the group on that shard.
    pub slot: u32,
    /// The partitions of the log that this node delivers, as a non-empty bit mask.
    pub partitions: u16,
}

impl GroupCoordinator {
    fn to_word(self) -> u64 {
        u64::from(self.partitions) << 48 | u64::from(self.shard.0) << 32 | u64::from(self.slot)
    }

    fn of_word(word: u64) -> Option<GroupCoordinator> {
        let partitions = (word >> 48) as u16;
        (partitions > 0).then_some(GroupCoordinator {
            shard: ShardIndex((word >> 32) as u8),
            slot: word as u32,
            partitions,
        })
    }
}

/// One shared subscription and its members.
#[derive(Debug)]
pub struct ShareGroup {
    filter: Arc<str>,
    members: RwLock<Members>,
    next: AtomicUsize,
    /// The coordinator as a word (see [`GroupCoordinator`]); 0 if there is none.
    home: AtomicU64,
    dispatches: DispatchLog,
    queue: Queue,
    /// See [`ShareGroup::has_persistent_member`].
    has_persistent_member: AtomicBool,
}

/// What all shards know of the group's queue, which is on one of them.
#[derive(Debug, Default)]
struct Queue {
    exists: AtomicBool,
    /// Messages in the queue, in transit to it, and in transit from it to members on other shards.
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes of QoS 1 and 2 messages in transit to members on other shards.
    in_transit_bytes: AtomicUsize,
}

/// Members in round-robin order. Each session is a member once.
#[derive(Debug, Default)]
struct Members {
    list: Vec<GroupMember>,
    /// The number of persistent members.
    persistent: usize,
    /// Indexes in the list, by session.
    positions: HashTable<u32>,
    hasher: RandomState,
}

impl ShareGroup {
    pub(crate) fn new(filter: &str) -> ShareGroup {
        ShareGroup {
            filter: filter.into(),
            members: RwLock::default(),
            next: AtomicUsize::new(0),
            home: AtomicU64::new(0),
            dispatches: DispatchLog::default(),
            queue: Queue::default(),
            has_persistent_member: AtomicBool::new(false),
        }
    }

    /// Returns the whole filter, `$share/group/filter`.
    pub fn filter(&self) -> &Arc<str> {
        &self.filter
    }

    /// Picks the next member for a message that may be lost: a connected member with credit, else any connected member, else any member.
    pub fn pick(&self) -> Option<GroupMember> {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let chosen = members.get(turn.checked_rem(members.len())?)?;
        if chosen.room.has_room() {
            return Some(chosen.clone());
        }
        let with_room = next_eligible(members, turn, |member| member.room.has_room());
        let online = || next_eligible(members, turn, |member| member.room.is_online());
        Some(with_room.or_else(online).unwrap_or(chosen).clone())
    }

    /// Picks the next connected member with credit for a message of this QoS, and takes the credit.
    pub fn pick_with_credit(&self, qos: QoS) -> Option<GroupMember> {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let at = turn.checked_rem(members.len())?;
        let chosen = &members[at];
        if chosen.take_credit(qos) {
            return Some(chosen.clone());
        }
        let chosen = next_eligible(members, turn, |member| member.has_room(qos))?;
        if chosen.take_credit(qos) {
            return Some(chosen.clone());
        }
        // Another shard has taken the credit first.
        let (before, from) = members.split_at(at);
        from.iter().chain(before).find(|member| member.take_credit(qos)).cloned()
    }

    /// Returns the member with this session.
    pub fn member(&self, session: SessionKey) -> Option<GroupMember> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.position_of(session).map(|place| members.list[place].clone())
    }

    /// Requests a notification from the first member that has credit.
    pub fn request_credit(&self) {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        members.iter().for_each(|member| member.room.request(&self.filter));
    }

    /// Picks the next connected member for which `is_meant` is true.
    pub fn pick_among(&self, is_meant: impl Fn(&GroupMember) -> bool) -> Option<GroupMember> {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let (before, from) = members.split_at(turn.checked_rem(members.len())?);
        let is_it = |member: &&GroupMember| member.room.is_online() && is_meant(member);
        from.iter().chain(before).find(is_it).cloned()
    }

    /// Records that a message of the topic was dispatched to this member.
    pub fn record_dispatch(&self, topic: &str, member: SessionKey, now_ms: u64) {
        self.dispatches.record(topic, Dispatch { member, at_ms: now_ms });
    }

    /// Returns to whom the group's last [`DISPATCHES_MAX`](crate::DISPATCHES_MAX) messages went that are of the topic, the oldest first.
    pub fn dispatches_for(&self, topic: &str) -> Vec<Dispatch> {
        self.dispatches.for_topic(topic)
    }

    /// Returns the coordinator in a cluster, if this node delivers to the group.
    #[inline]
    pub fn home(&self) -> Option<GroupCoordinator> {
        GroupCoordinator::of_word(self.home.load(Ordering::Relaxed))
    }

    pub(crate) fn set_coordinator(&self, home: Option<GroupCoordinator>) {
        self.home.store(home.map_or(0, GroupCoordinator::to_word), Ordering::Relaxed);
    }

    /// Returns the number of members, and how many of them are connected.
    pub fn members(&self) -> (usize, usize) {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        (members.len(), members.iter().filter(|member| member.room.is_online()).count())
    }

    /// Whether the group has members.
    pub fn has_members(&self) -> bool {
        !self.members.read().unwrap_or_else(PoisonError::into_inner).list.is_empty()
    }

    /// Returns the number and bytes of messages that wait because no member has credit.
    #[inline]
    pub fn waiting(&self) -> (usize, usize) {
        (self.queue.messages.load(Ordering::SeqCst), self.queue.bytes.load(Ordering::SeqCst))
    }

    /// Counts a message that is in the group's queue or in transit to it.
    pub fn add_queued(&self, bytes: usize) {
        self.queue.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.queue.messages.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts messages of a queue that was restored from the log.
    pub fn restore_queued(&self, messages: usize, bytes: usize) {
        self.queue.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.queue.messages.fetch_add(messages, Ordering::SeqCst);
    }

    /// Uncounts a message. Returns whether no message is waiting and the group has no members.
    pub fn remove_queued(&self, bytes: usize) -> bool {
        self.queue.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.queue.messages.fetch_sub(1, Ordering::SeqCst) == 1 && self.is_empty()
    }

    /// Returns the bytes of QoS 1 and 2 messages in transit to members on other shards.
    #[inline]
    pub fn in_transit_bytes(&self) -> usize {
        self.queue.in_transit_bytes.load(Ordering::SeqCst)
    }

    /// Counts a message in transit to a member on another shard.
    pub fn begin_transit(&self, bytes: usize) {
        self.queue.in_transit_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Uncounts a message that has arrived. Returns whether no other message is in transit.
    pub fn end_transit(&self, bytes: usize) -> bool {
        self.queue.in_transit_bytes.fetch_sub(bytes, Ordering::SeqCst) == bytes
    }

    /// Marks that a shard has a queue for the group, which must end with it.
    pub fn mark_queue(&self) {
        self.queue.exists.store(true, Ordering::SeqCst);
    }

    /// Whether a shard has a queue for the group.
    pub fn has_queue(&self) -> bool {
        self.queue.exists.load(Ordering::SeqCst) || self.waiting().0 > 0
    }

    /// Whether a member's session is persistent, or messages wait in the queue, which is persistent.
    pub fn is_persistent(&self) -> bool {
        self.has_persistent_member() || self.waiting().0 > 0
    }

    /// Whether a member's session is persistent.
    pub fn has_persistent_member(&self) -> bool {
        self.has_persistent_member.load(Ordering::SeqCst)
    }

    /// Adds or replaces a member.
    pub(crate) fn join(&self, member: GroupMember) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.join(member);
        self.has_persistent_member.store(members.persistent > 0, Ordering::SeqCst);
    }

    /// Removes a member. Returns true if the group is empty now.
    pub(crate) fn leave(&self, session: SessionKey) -> bool {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.leave(session);
        self.has_persistent_member.store(members.persistent > 0, Ordering::SeqCst);
        members.list.is_empty() && self.has_nothing_to_deliver()
    }

    fn has_nothing_to_deliver(&self) -> bool {
        self.home().is_none() && self.waiting().0 == 0
    }

    /// Whether the group has no member, no waiting message, and no coordinator.
    pub(crate) fn is_empty(&self) -> bool {
        self.has_nothing_to_deliver() && self.members.read().unwrap_or_else(PoisonError::into_inner).list.is_empty()
    }
}

/// Picks a substitute for the member whose turn it is: the turns of ineligible members are spread evenly over eligible ones.
fn next_eligible(members: &[GroupMember], turn: usize, is_able: impl Fn(&GroupMember) -> bool) -> Option<&GroupMember> {
    let able = || members.iter().filter(|member| is_able(member));
    let round = turn / members.len().max(1);
    // Members may have changed their eligibility between the two passes.
    round.checked_rem(able().count()).and_then(|nth| able().nth(nth).or_else(|| able().next()))
}

impl Members {
    fn join(&mut self, member: GroupMember) {
        self.persistent += usize::from(member.number.is_some());
        if let Some(place) = self.position_of(member.session) {
            let replaced = std::mem::replace(&mut self.list[place], member);
            self.persistent -= usize::from(replaced.number.is_some());
            return;
        }
        let Members { list, positions, hasher, .. } = self;
        let hash = hasher.hash_one(member.session);
        list.push(member);
        positions.insert_unique(hash, (list.len() - 1) as u32, |place| hasher.hash_one(list[*place as usize].session));
    }

    /// The last member moves to the index of the removed one.
    fn leave(&mut self, session: SessionKey) {
        let Some(place) = self.position_of(session) else { return };
        let last = self.list.len() - 1;
        self.persistent -= usize::from(self.list[place].number.is_some());
        self.remove_position(session, place);
        if place != last {
            let moved = self.list[last].session;
            self.remove_position(moved, last);
            let Members { list, positions, hasher, .. } = self;
            list.swap(place, last);
            let hash = hasher.hash_one(moved);
            positions.insert_unique(hash, place as u32, |place| hasher.hash_one(list[*place as usize].session));
        }
        self.list.truncate(last);
    }

    fn position_of(&self, session: SessionKey) -> Option<usize> {
        let is_it = |place: &u32| self.list[*place as usize].session == session;
        self.positions.find(self.hasher.hash_one(session), is_it).map(|place| *place as usize)
    }

    fn remove_position(&mut self, session: SessionKey, place: usize) {
        if let Ok(entry) = self.positions.find_entry(self.hasher.hash_one(session), |held| *held as usize == place) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(index: u32, online: bool) -> GroupMember {
        GroupMember {
            session: SessionKey { shard: ShardIndex(0), index, generation: 0 },
            number: None,
            qos: QoS::AtLeastOnce,
            retain_as_published: false,
            identifier: None,
            format: None,
            room: room_of(online, 1_000_000),
        }
    }

    fn room_of(online: bool, free: usize) -> Arc<MemberCredit> {
        let room = MemberCredit::new(online);
        room.grant(free);
        Arc::new(room)
    }

    fn dispatches(group: &ShareGroup, n: usize) -> Vec<u32> {
        (0..n).filter_map(|_| group.pick()).map(|member| member.session.index).collect()
    }

    #[test]
    fn members_take_turns() {
        let group = ShareGroup::new("$share/g/f");
        assert!(group.pick().is_none());
        for index in 0..3 {
            group.join(member(index, true));
        }
        let mut six = dispatches(&group, 6);
        six.sort_unstable();
        assert_eq!(six, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn offline_members_are_selected_only_if_no_member_is_online() {
        let group = ShareGroup::new("$share/g/f");
        group.join(member(0, false));
        group.join(member(1, true));
        group.join(member(2, true));
        let turns_of = |index| dispatches(&group, 12).iter().filter(|chosen| **chosen == index).count();
        assert_eq!(turns_of(1), 6, "the turns of the offline member are spread evenly");
        assert_eq!(turns_of(0), 0);
        assert!(!group.leave(member(2, true).session));
        assert!(!group.leave(member(1, true).session));
        assert_eq!(dispatches(&group, 2), [0, 0]);
        assert!(group.leave(member(0, true).session));
    }

    #[test]
    fn members_without_credit_are_not_selected_while_another_has_some() {
        let group = ShareGroup::new("$share/g/f");
        for (index, free) in [(0, 1), (1, 100), (2, 0), (3, 100)] {
            group.join(GroupMember { room: room_of(true, free), ..member(index, true) });
        }
        let mut picked = [0; 4];
        for _ in 0..201 {
            let member = group.pick_with_credit(QoS::AtLeastOnce).expect("one member has credit");
            picked[member.session.index as usize] += 1;
        }
        assert_eq!(picked, [1, 100, 0, 100]);
        assert!(group.pick_with_credit(QoS::AtLeastOnce).is_none());
        assert!(group.pick().is_some(), "QoS 0 needs no credit");
        group.join(GroupMember { qos: QoS::AtMostOnce, ..group.member(member(2, true).session).expect("a member") });
        let session = group.pick_with_credit(QoS::ExactlyOnce).expect("a member with QoS 0 needs no credit").session;
        assert_eq!(session.index, 2);
    }

    #[test]
    fn a_group_exists_while_messages_wait() {
        let group = ShareGroup::new("$share/g/f");
        group.join(member(0, false));
        group.add_queued(10);
        group.add_queued(20);
        assert_eq!((group.waiting(), group.has_queue(), group.is_persistent()), ((2, 30), true, true));
        assert!(!group.remove_queued(20));
        assert!(!group.leave(member(0, true).session) && !group.is_empty() && !group.has_members());
        assert!(group.remove_queued(10) && group.is_empty());
    }

    #[test]
    fn selected_members_take_turns_and_offline_ones_are_skipped() {
        let group = ShareGroup::new("$share/g/f");
        (0..4).for_each(|index| group.join(member(index, index != 1)));
        let picked = |meant: &[u32]| {
            let is_meant = |member: &GroupMember| meant.contains(&member.session.index);
            let mut picked: Vec<_> =
                (0..8).filter_map(|_| group.pick_among(is_meant)).map(|member| member.session.index).collect();
            picked.sort_unstable();
            picked
        };
        assert_eq!(picked(&[0, 1, 2, 3]), [0, 0, 2, 2, 2, 2, 3, 3]);
        assert_eq!(picked(&[3]), [3; 8]);
        assert!(picked(&[1]).is_empty());
    }

    #[test]
    fn a_group_being_delivered_exists_without_members() {
        let group = ShareGroup::new("$share/g/f");
        for (shard, slot, partitions) in [(0, 0, 1), (63, u32::MAX, u16::MAX), (7, 3, 0x8000)] {
            let home = GroupCoordinator { shard: ShardIndex(shard), slot, partitions };
            group.set_coordinator(Some(home));
            assert_eq!(group.home(), Some(home));
        }
        group.join(member(0, true));
        assert!(!group.leave(member(0, true).session) && !group.is_empty());
        group.set_coordinator(None);
        assert!(group.is_empty());
    }

    #[test]
    fn each_session_is_a_member_once() {
        let group = ShareGroup::new("$share/g/f");
        let mut sessions: Vec<u32> = (0..40).collect();
        for index in sessions.iter().chain(&sessions) {
            group.join(member(*index, true));
        }
        while !sessions.is_empty() {
            let mut chosen = dispatches(&group, sessions.len());
            chosen.sort_unstable();
            assert_eq!(chosen, sessions);
            let gone = sessions.remove(sessions.len() * 5 / 13);
            assert_eq!(group.leave(member(gone, true).session), sessions.is_empty());
            assert_eq!(group.leave(member(gone, true).session), sessions.is_empty());
        }
        assert!(group.is_empty());
    }
}
