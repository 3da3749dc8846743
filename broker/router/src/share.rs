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
use crate::turns::{Turn, Turns};

/// A session, wherever it lives. The generation tells a session from a later one in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The shard that owns the session.
    pub shard: ShardIndex,
    /// Its place there.
    pub index: u32,
    /// How often the place has been taken.
    pub generation: u32,
}

/// A session's membership in a group.
#[derive(Debug, Clone)]
pub struct Member {
    /// The session.
    pub session: SessionKey,
    /// What the session is called in the log; `None` where not all of it is written down.
    pub number: Option<SessionNumber>,
    /// Granted QoS.
    pub qos: QoS,
    /// Retain As Published.
    pub retain_as_published: bool,
    /// Subscription Identifier.
    pub identifier: Option<SubscriptionId>,
    /// The format in which payloads are wanted.
    pub format: Option<Format>,
    /// Whether the session is connected, one flag for all its memberships.
    pub online: Arc<AtomicBool>,
}

/// The shard that delivers to a shared subscription what the log of a cluster brings for it: to its members on all shards of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// Which shard.
    pub shard: ShardIndex,
    /// What that shard calls the group.
    pub slot: u32,
    /// The partitions of the log that are this node's to deliver, one bit for each, and never none.
    pub partitions: u16,
}

impl Home {
    fn to_word(self) -> u64 {
        u64::from(self.partitions) << 48 | u64::from(self.shard.0) << 32 | u64::from(self.slot)
    }

    fn of_word(word: u64) -> Option<Home> {
        let partitions = (word >> 48) as u16;
        (partitions > 0).then_some(Home { shard: ShardIndex((word >> 32) as u8), slot: word as u32, partitions })
    }
}

/// One shared subscription and its members.
#[derive(Debug)]
pub struct ShareGroup {
    filter: Arc<str>,
    members: RwLock<Members>,
    next: AtomicUsize,
    /// See [`Home`]; 0 where there is none.
    home: AtomicU64,
    turns: Turns,
}

/// Members in the order of their turns. Each session is a member once.
#[derive(Debug, Default)]
struct Members {
    list: Vec<Member>,
    /// Places in the list, by session.
    places: HashTable<u32>,
    hasher: RandomState,
}

impl ShareGroup {
    pub(crate) fn new(filter: &str) -> ShareGroup {
        ShareGroup {
            filter: filter.into(),
            members: RwLock::default(),
            next: AtomicUsize::new(0),
            home: AtomicU64::new(0),
            turns: Turns::default(),
        }
    }

    /// The whole filter, `$share/group/filter`.
    pub fn filter(&self) -> &Arc<str> {
        &self.filter
    }

    /// The member whose turn it is: connected members in turn; where none is connected, the others in turn.
    pub fn pick(&self) -> Option<Member> {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let chosen = members.get(turn.checked_rem(members.len())?)?;
        if chosen.online.load(Ordering::Relaxed) {
            return Some(chosen.clone());
        }
        // The turns of those who are away go round among those who are there.
        let online = || members.iter().filter(|member| member.online.load(Ordering::Relaxed));
        let round = turn / members.len();
        let stand_in = round.checked_rem(online().count()).and_then(|nth| online().nth(nth));
        Some(stand_in.unwrap_or(chosen).clone())
    }

    /// The connected member whose turn it is, of those who are meant.
    pub fn pick_among(&self, is_meant: impl Fn(&Member) -> bool) -> Option<Member> {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let (before, from) = members.split_at(turn.checked_rem(members.len())?);
        let is_it = |member: &&Member| member.online.load(Ordering::Relaxed) && is_meant(member);
        from.iter().chain(before).find(is_it).cloned()
    }

    /// A message of the topic is for this member.
    pub fn note_turn(&self, topic: &str, member: SessionKey, now_ms: u64) {
        self.turns.note(topic, Turn { member, at_ms: now_ms });
    }

    /// For whom those of the group's last [`TURNS_MAX`](crate::TURNS_MAX) messages were that are of the topic, the oldest first.
    pub fn turns_on(&self, topic: &str) -> Vec<Turn> {
        self.turns.on(topic)
    }

    /// The shard that delivers to the group in a cluster, where this node does.
    #[inline]
    pub fn home(&self) -> Option<Home> {
        Home::of_word(self.home.load(Ordering::Relaxed))
    }

    pub(crate) fn set_home(&self, home: Option<Home>) {
        self.home.store(home.map_or(0, Home::to_word), Ordering::Relaxed);
    }

    /// How many members there are, and how many of them are connected.
    pub fn members(&self) -> (usize, usize) {
        let members = &self.members.read().unwrap_or_else(PoisonError::into_inner).list;
        (members.len(), members.iter().filter(|member| member.online.load(Ordering::Relaxed)).count())
    }

    /// Whether the session of a member is written down.
    pub fn lasts(&self) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.list.iter().any(|member| member.number.is_some())
    }

    /// Adds or replaces a member.
    pub(crate) fn join(&self, member: Member) {
        self.members.write().unwrap_or_else(PoisonError::into_inner).join(member);
    }

    /// Removes a member; true where nothing is left.
    pub(crate) fn leave(&self, session: SessionKey) -> bool {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.leave(session);
        members.list.is_empty() && self.home().is_none()
    }

    /// Whether there is no member, and nothing that this node delivers.
    pub(crate) fn is_empty(&self) -> bool {
        self.home().is_none() && self.members.read().unwrap_or_else(PoisonError::into_inner).list.is_empty()
    }
}

impl Members {
    fn join(&mut self, member: Member) {
        if let Some(place) = self.place_of(member.session) {
            self.list[place] = member;
            return;
        }
        let Members { list, places, hasher } = self;
        let hash = hasher.hash_one(member.session);
        list.push(member);
        places.insert_unique(hash, (list.len() - 1) as u32, |place| hasher.hash_one(list[*place as usize].session));
    }

    /// The last member takes the place of the one who leaves.
    fn leave(&mut self, session: SessionKey) {
        let Some(place) = self.place_of(session) else { return };
        let last = self.list.len() - 1;
        self.forget_place(session, place);
        if place != last {
            let moved = self.list[last].session;
            self.forget_place(moved, last);
            let Members { list, places, hasher } = self;
            list.swap(place, last);
            let hash = hasher.hash_one(moved);
            places.insert_unique(hash, place as u32, |place| hasher.hash_one(list[*place as usize].session));
        }
        self.list.truncate(last);
    }

    fn place_of(&self, session: SessionKey) -> Option<usize> {
        let is_it = |place: &u32| self.list[*place as usize].session == session;
        self.places.find(self.hasher.hash_one(session), is_it).map(|place| *place as usize)
    }

    fn forget_place(&mut self, session: SessionKey, place: usize) {
        if let Ok(entry) = self.places.find_entry(self.hasher.hash_one(session), |held| *held as usize == place) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(index: u32, online: bool) -> Member {
        Member {
            session: SessionKey { shard: ShardIndex(0), index, generation: 0 },
            number: None,
            qos: QoS::AtLeastOnce,
            retain_as_published: false,
            identifier: None,
            format: None,
            online: Arc::new(AtomicBool::new(online)),
        }
    }

    fn turns(group: &ShareGroup, n: usize) -> Vec<u32> {
        (0..n).filter_map(|_| group.pick()).map(|member| member.session.index).collect()
    }

    #[test]
    fn members_take_turns() {
        let group = ShareGroup::new("$share/g/f");
        assert!(group.pick().is_none());
        for index in 0..3 {
            group.join(member(index, true));
        }
        let mut six = turns(&group, 6);
        six.sort_unstable();
        assert_eq!(six, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn those_away_are_chosen_only_when_nobody_is_there() {
        let group = ShareGroup::new("$share/g/f");
        group.join(member(0, false));
        group.join(member(1, true));
        group.join(member(2, true));
        let turns_of = |index| turns(&group, 12).iter().filter(|chosen| **chosen == index).count();
        assert_eq!(turns_of(1), 6, "the turns of the absent one are shared out evenly");
        assert_eq!(turns_of(0), 0);
        assert!(!group.leave(member(2, true).session));
        assert!(!group.leave(member(1, true).session));
        assert_eq!(turns(&group, 2), [0, 0]);
        assert!(group.leave(member(0, true).session));
    }

    #[test]
    fn those_who_are_meant_take_turns_and_those_away_have_none() {
        let group = ShareGroup::new("$share/g/f");
        (0..4).for_each(|index| group.join(member(index, index != 1)));
        let picked = |meant: &[u32]| {
            let is_meant = |member: &Member| meant.contains(&member.session.index);
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
    fn a_group_that_is_delivered_is_there_without_members() {
        let group = ShareGroup::new("$share/g/f");
        for (shard, slot, partitions) in [(0, 0, 1), (63, u32::MAX, u16::MAX), (7, 3, 0x8000)] {
            let home = Home { shard: ShardIndex(shard), slot, partitions };
            group.set_home(Some(home));
            assert_eq!(group.home(), Some(home));
        }
        group.join(member(0, true));
        assert!(!group.leave(member(0, true).session) && !group.is_empty());
        group.set_home(None);
        assert!(group.is_empty());
    }

    #[test]
    fn each_session_is_a_member_once_whoever_leaves() {
        let group = ShareGroup::new("$share/g/f");
        let mut sessions: Vec<u32> = (0..40).collect();
        for index in sessions.iter().chain(&sessions) {
            group.join(member(*index, true));
        }
        while !sessions.is_empty() {
            let mut chosen = turns(&group, sessions.len());
            chosen.sort_unstable();
            assert_eq!(chosen, sessions);
            let gone = sessions.remove(sessions.len() * 5 / 13);
            assert_eq!(group.leave(member(gone, true).session), sessions.is_empty());
            assert_eq!(group.leave(member(gone, true).session), sessions.is_empty());
        }
        assert!(group.is_empty());
    }
}
