//! Groups of shared subscriptions whose home is this shard: the partitions to deliver, and which member has which message.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tautwire_cluster::delivery::Slot;
use tautwire_cluster::names::{GroupKey, Partition};
use tautwire_cluster::record::Place;
use tautwire_router::SessionKey;

use super::super::settings::ClusterSettings;
use super::log_place::LogPlace;

/// The groups of a shard.
#[derive(Debug, Default)]
pub(crate) struct GroupHomes {
    groups: HashMap<Slot, HomeGroup>,
    slots: HashMap<GroupKey, Slot>,
    /// Filters of groups, with the number of groups.
    interest: HashMap<Box<str>, usize>,
    /// Groups with a partition that is being returned.
    returning: BTreeSet<Slot>,
}

/// A group whose home is this shard.
#[derive(Debug)]
pub(crate) struct HomeGroup {
    key: GroupKey,
    /// `$share/name/filter`.
    share: Arc<str>,
    /// The filter in it.
    topic_filter: Box<str>,
    /// The partitions that this node delivers, one bit each.
    partitions: u16,
    /// Unacknowledged messages: the member, and the size.
    in_flight: BTreeMap<LogPlace, (SessionKey, usize)>,
    /// Unacknowledged messages and bytes of each member.
    loads: HashMap<SessionKey, Load>,
    /// Partitions to return when members have settled their messages.
    returning: BTreeMap<Partition, PendingReturn>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    messages: usize,
    bytes: usize,
}

/// A partition that is being returned, to be delivered by another node.
#[derive(Debug)]
pub(crate) struct PendingReturn {
    /// Its position.
    pub(in crate::mode::cluster) next: Place,
    /// Messages that were delivered and not acknowledged.
    pub(in crate::mode::cluster) open: BTreeSet<Place>,
    until_ms: u64,
}

impl GroupHomes {
    pub(crate) fn slot(&self, key: GroupKey) -> Option<Slot> {
        self.slots.get(&key).copied()
    }

    /// The slots of all groups, in order.
    pub(crate) fn all(&self) -> Vec<Slot> {
        let mut all: Vec<_> = self.groups.keys().copied().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&HomeGroup> {
        self.groups.get(&slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut HomeGroup> {
        self.groups.get_mut(&slot)
    }

    pub(crate) fn begin(&mut self, slot: Slot, key: GroupKey, share: Arc<str>, topic_filter: &str) {
        self.slots.insert(key, slot);
        let group = HomeGroup {
            key,
            share,
            topic_filter: topic_filter.into(),
            partitions: 0,
            in_flight: BTreeMap::new(),
            loads: HashMap::new(),
            returning: BTreeMap::new(),
        };
        self.groups.insert(slot, group);
    }

    /// Removes a group with which this node has nothing more to do. Returns whether it did.
    pub(crate) fn remove_if_idle(&mut self, slot: Slot) -> bool {
        let is_idle =
            |group: &HomeGroup| group.partitions == 0 && group.in_flight.is_empty() && group.returning.is_empty();
        let Some(key) = self.get(slot).filter(|group| is_idle(group)).map(|group| group.key) else { return false };
        self.groups.remove(&slot);
        self.slots.remove(&key);
        true
    }

    /// Whether a group has this filter.
    pub(crate) fn has_interest(&self, filter: &str) -> bool {
        self.interest.contains_key(filter)
    }

    /// Adds a group's filter. Returns whether it is the first.
    pub(crate) fn add_interest(&mut self, filter: &str) -> bool {
        match self.interest.get_mut(filter) {
            Some(count) => *count += 1,
            None => return self.interest.insert(filter.into(), 1).is_none(),
        }
        false
    }

    /// Removes a group's filter. Returns whether it was the last.
    pub(crate) fn remove_interest(&mut self, filter: &str) -> bool {
        let Some(count) = self.interest.get_mut(filter) else { return false };
        *count -= 1;
        *count == 0 && self.interest.remove(filter).is_some()
    }

    /// The next partition whose members have settled their messages, or whose wait is over.
    pub(crate) fn next_returned(&mut self, now_ms: u64) -> Option<(Slot, GroupKey, Partition, PendingReturn)> {
        let ready = |slot: &Slot| Some((*slot, self.get(*slot)?.is_ready_to_return(now_ms)?));
        let (slot, partition) = self.returning.iter().find_map(ready)?;
        let group = self.groups.get_mut(&slot)?;
        let returning = group.returning.remove(&partition)?;
        if group.returning.is_empty() {
            self.returning.remove(&slot);
        }
        Some((slot, group.key, partition, returning))
    }

    /// When the first wait for members is over.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let groups = self.returning.iter().filter_map(|slot| self.get(*slot));
        groups.flat_map(|group| group.returning.values()).map(|returning| returning.until_ms).min()
    }

    /// Adds a partition to deliver. Returns whether it is the first of the group.
    pub(crate) fn add_lease(&mut self, slot: Slot, partition: Partition) -> bool {
        let Some(group) = self.groups.get_mut(&slot) else { return false };
        let is_first = group.partitions == 0;
        group.partitions |= bit(partition);
        // It is delivered here again, and not returned.
        group.returning.remove(&partition);
        if group.returning.is_empty() {
            self.returning.remove(&slot);
        }
        is_first
    }

    /// Stops delivery of a partition, and returns it once members have settled their messages, or at `until_ms`.
    pub(crate) fn return_lease(
        &mut self,
        slot: Slot,
        partition: Partition,
        next: Place,
        open: Vec<Place>,
        until_ms: u64,
    ) {
        let Some(group) = self.groups.get_mut(&slot) else { return };
        group.partitions &= !bit(partition);
        group.returning.insert(partition, PendingReturn { next, open: open.into_iter().collect(), until_ms });
        self.returning.insert(slot);
    }
}

impl HomeGroup {
    pub(crate) fn key(&self) -> GroupKey {
        self.key
    }

    pub(crate) fn share(&self) -> &Arc<str> {
        &self.share
    }

    pub(crate) fn topic_filter(&self) -> &str {
        &self.topic_filter
    }

    pub(crate) fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Whether a member has room for a message of this size. A member without messages accepts any size.
    pub(crate) fn has_room(&self, member: &SessionKey, bytes: usize, settings: &ClusterSettings) -> bool {
        self.loads.get(member).is_none_or(|load| {
            load.messages < settings.member_messages_max && load.bytes + bytes <= settings.member_max_bytes
        })
    }

    /// Bytes of a member's unacknowledged messages.
    pub(crate) fn bytes(&self, member: &SessionKey) -> usize {
        self.loads.get(member).map_or(0, |load| load.bytes)
    }

    /// Whether a member has so few messages that the group reads on for it.
    pub(crate) fn can_resume_reading(&self, member: &SessionKey, settings: &ClusterSettings) -> bool {
        self.loads.get(member).is_none_or(|load| {
            load.messages <= settings.member_messages_max / 2 && load.bytes <= settings.member_max_bytes / 2
        })
    }

    /// Whether a member has a message.
    pub(crate) fn is_in_flight(&self, at: LogPlace) -> bool {
        self.in_flight.contains_key(&at)
    }

    /// Records that a message was delivered to a member.
    pub(crate) fn add_in_flight(&mut self, at: LogPlace, member: SessionKey, bytes: usize) {
        self.in_flight.insert(at, (member, bytes));
        let load = self.loads.entry(member).or_default();
        load.messages += 1;
        load.bytes += bytes;
    }

    /// Settles a message of a member; `is_done` if it was acknowledged. Returns whether the member in_flight it.
    pub(crate) fn settle(&mut self, at: LogPlace, member: SessionKey, is_done: bool) -> bool {
        let Some((_, bytes)) = self.in_flight.get(&at).filter(|(holder, _)| *holder == member) else { return false };
        let bytes = *bytes;
        self.in_flight.remove(&at);
        if let Some(load) = self.loads.get_mut(&member) {
            load.messages -= 1;
            load.bytes -= bytes;
            if load.messages == 0 {
                self.loads.remove(&member);
            }
        }
        if let Some(returning) = self.returning.get_mut(&at.partition).filter(|_| is_done) {
            returning.open.remove(&at.place);
        }
        true
    }

    fn is_ready_to_return(&self, now_ms: u64) -> Option<Partition> {
        let is_ready = |(partition, returning): &(&Partition, &PendingReturn)| {
            let mut places = returning.open.iter().map(|place| LogPlace { partition: **partition, place: *place });
            returning.until_ms <= now_ms || !places.any(|at| self.is_in_flight(at))
        };
        self.returning.iter().find(is_ready).map(|(partition, _)| *partition)
    }
}

fn bit(partition: Partition) -> u16 {
    1 << partition.index()
}

#[cfg(test)]
mod tests {
    use tautwire_cluster::Sequence;
    use tautwire_router::ShardIndex;

    use super::*;

    fn at(sequence: u64) -> LogPlace {
        let partition = Partition::new(3).expect("a valid partition");
        LogPlace { partition, place: Place { sequence: Sequence(sequence), index: 0 } }
    }

    fn member(index: u32) -> SessionKey {
        SessionKey { shard: ShardIndex(1), index, generation: 1 }
    }

    fn homes() -> GroupHomes {
        let mut homes = GroupHomes::default();
        homes.begin(7, GroupKey(1), "$share/g/a".into(), "a");
        homes
    }

    #[test]
    fn a_member_is_limited_to_its_credit_plus_one_message() {
        let mut homes = homes();
        let group = homes.get_mut(7).expect("the group exists");
        let settings = ClusterSettings { member_messages_max: 4, member_max_bytes: 100, ..ClusterSettings::default() };
        assert!(group.has_room(&member(1), 1_000, &settings));
        group.add_in_flight(at(1), member(1), 30);
        assert!(group.has_room(&member(1), 70, &settings) && !group.has_room(&member(1), 71, &settings));
        (2..5).for_each(|sequence| group.add_in_flight(at(sequence), member(1), 10));
        assert!(!group.has_room(&member(1), 0, &settings) && group.has_room(&member(2), 0, &settings));
        assert!(!group.settle(at(1), member(2), true), "another member has it");
        assert!(group.settle(at(1), member(1), true) && !group.settle(at(1), member(1), true));
        assert!(!group.can_resume_reading(&member(1), &settings));
        assert!(group.settle(at(2), member(1), false) && group.can_resume_reading(&member(1), &settings));
        assert_eq!(group.bytes(&member(1)), 20);
    }

    #[test]
    fn a_partition_is_returned_when_members_finish_or_a_timeout_expires() {
        let mut homes = homes();
        let partition = at(1).partition;
        assert!(homes.add_lease(7, partition) && !homes.add_lease(7, partition));
        let group = homes.get_mut(7).expect("the group exists");
        (1..4).for_each(|sequence| group.add_in_flight(at(sequence), member(1), 1));
        let open = || (1..4).map(|sequence| at(sequence).place).collect();
        homes.return_lease(7, partition, at(9).place, open(), 50);
        let group = homes.get_mut(7).expect("the group exists");
        assert!(group.settle(at(1), member(1), true) && group.settle(at(2), member(1), false));
        assert!(homes.next_returned(49).is_none());
        let (.., returning) = homes.next_returned(50).expect("the wait is over");
        assert_eq!(returning.open, [at(2).place, at(3).place].into());
        assert!(!homes.remove_if_idle(7), "a member has a message");
        homes.return_lease(7, partition, at(9).place, vec![at(3).place], 50);
        let group = homes.get_mut(7).expect("the group exists");
        assert!(group.settle(at(3), member(1), true));
        let (.., returning) = homes.next_returned(0).expect("no member has a message");
        assert!(returning.open.is_empty() && homes.remove_if_idle(7) && homes.slot(GroupKey(1)).is_none());
    }

    #[test]
    fn the_first_and_the_last_group_of_a_filter_are_reported() {
        let mut homes = homes();
        assert!(homes.add_interest("a") && !homes.add_interest("a") && homes.has_interest("a"));
        assert!(
            !homes.remove_interest("a")
                && homes.remove_interest("a")
                && !homes.remove_interest("a")
                && !homes.has_interest("a")
        );
    }
}
