//! Tests the receivers of shards: in any order of events, each session gets each of its messages once.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tautwire_cluster::Sequence;
use tautwire_cluster::delivery::{DeliverySource, LogGroup, Messages, ReadRequest, Receivers, Slot, Span};
use tautwire_cluster::mutant::{Mutant, mutate};
use tautwire_cluster::names::{ClientKey, Partition};
use tautwire_cluster::record::{Body, Cursors, GROUP_OPEN_MAX, Group, OPEN_MAX, Place, Publisher};

const SESSIONS: Slot = 4;

fn partition() -> Partition {
    Partition::new(3).expect("exists")
}

fn place(sequence: u64, index: u32) -> Place {
    Place { sequence: Sequence(sequence), index }
}

/// A log of one partition with groups of these sizes, from sequence 1 on.
struct Log(Vec<u32>);

impl Log {
    fn group(&self, sequence: u64) -> LogGroup {
        let publisher = Publisher { client: ClientKey(1), epoch: 1, packet_id: None };
        let messages = (0..self.0[sequence as usize - 1]).map(|_| publisher.sign(&[])).collect();
        let group =
            Group { number: 1, ordinal: 0, unsettled: None, body: Body::Messages { messages, to_retain: Vec::new() } }
                .encode();
        LogGroup { sequence: Sequence(sequence), messages: Messages::new(&group).expect("a group") }
    }

    fn span(&self, from: u64, count: u64) -> Span {
        let until = (from + count).min(self.0.len() as u64 + 1);
        let groups = (from..until).map(|sequence| self.group(sequence)).collect();
        Span { partition: partition(), from: Sequence(from), until: Sequence(until), groups, lost: 0 }
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        (1..).zip(&self.0).flat_map(|(sequence, size)| (0..*size).map(move |index| place(sequence, index)))
    }
}

fn is_for(slot: Slot, place: Place) -> bool {
    !(u64::from(slot) + place.sequence.0 + u64::from(place.index)).is_multiple_of(3)
}

struct Shard {
    receivers: Receivers,
    request: Option<ReadRequest>,
}

struct World {
    log: Log,
    shards: [Shard; 2],
    /// The slot of each session, its delivered messages, and the unacknowledged ones.
    sessions: Vec<(usize, Vec<Place>, Vec<Place>)>,
    /// Messages to be sent again after a move.
    again: Vec<BTreeSet<Place>>,
    /// How many messages each session receives before it acknowledges one. Changes with the connection.
    windows: Vec<usize>,
    /// Blocked receivers have capacity again before the shard has passed the message.
    is_quick: bool,
}

impl World {
    fn new(log: Log) -> World {
        let shard = || Shard { receivers: Receivers::new(&[place(1, 0); 16]), request: None };
        let mut world = World {
            log,
            shards: [shard(), shard()],
            sessions: (0..SESSIONS).map(|slot| (slot as usize % 2, Vec::new(), Vec::new())).collect(),
            again: vec![BTreeSet::new(); SESSIONS as usize],
            windows: vec![3; SESSIONS as usize],
            is_quick: false,
        };
        (0..SESSIONS).for_each(|slot| world.shards[slot as usize % 2].receivers.begin(slot, 0));
        world
    }

    fn offer(&mut self, shard: usize, group: &LogGroup, walk: DeliverySource) {
        for message in group.messages.iter() {
            let (place, mut held) = (group.place(&message), Vec::new());
            let receivers = &mut self.shards[shard].receivers;
            if walk == DeliverySource::Read {
                for slot in receivers.again(partition(), place) {
                    let again = &mut self.again[slot as usize];
                    assert!(again.contains(&place), "{place:?} is sent again to {slot} once");
                    if self.sessions[slot as usize].2.len() - again.len() < self.windows[slot as usize] {
                        again.remove(&place);
                    } else {
                        receivers.block(slot, partition(), place);
                    }
                }
            }
            for slot in (0..SESSIONS).filter(|slot| is_for(*slot, place)) {
                let (_, got, open) = &mut self.sessions[slot as usize];
                if !receivers.wants(slot, partition(), place, walk) {
                    continue;
                }
                if open.len() < self.windows[slot as usize] {
                    receivers.mark_delivered(slot, partition(), place);
                    assert!(got.last() < Some(&place), "{slot} gets {place:?} after {:?}", got.last());
                    assert!(self.again[slot as usize].is_empty(), "messages to be sent again come first");
                    got.push(place);
                    open.push(place);
                } else {
                    receivers.block(slot, partition(), place);
                    held.push(slot);
                }
            }
            held.retain(|_| self.is_quick);
            for slot in held {
                self.acknowledge(slot);
            }
            if walk == DeliverySource::Live {
                self.shards[shard].receivers.pass(partition(), place.behind());
            }
        }
    }

    fn live(&mut self, shard: usize) -> bool {
        let sequence = self.shards[shard].receivers.position(partition()).sequence.0;
        if sequence > self.log.0.len() as u64 {
            return false;
        }
        let group = self.log.group(sequence);
        self.offer(shard, &group, DeliverySource::Live);
        self.shards[shard].receivers.pass(partition(), place(sequence + 1, 0));
        true
    }

    fn read(&mut self, shard: usize, count: u64) -> bool {
        let Shard { receivers, request } = &mut self.shards[shard];
        let Some(asked) = request.take() else {
            *request = receivers.next_read_range();
            assert!(receivers.next_read_range().is_none(), "a partition is read once at a time");
            return request.is_some();
        };
        let span = self.log.span(asked.from.0, count);
        assert!(!receivers.begin_walk(asked.number + 1, &span), "the answer is not for the current request");
        if receivers.begin_walk(asked.number, &span) {
            for group in &span.groups {
                self.offer(shard, group, DeliverySource::Read);
            }
            assert_eq!(self.shards[shard].receivers.end_walk(&span), []);
        }
        true
    }

    fn acknowledge(&mut self, slot: Slot) -> bool {
        let (shard, _, open) = &mut self.sessions[slot as usize];
        let again = &self.again[slot as usize];
        let Some(at) = open.iter().position(|place| !again.contains(place)) else { return false };
        let receivers = &mut self.shards[*shard].receivers;
        let place = open.remove(at);
        assert!(receivers.complete(slot, partition(), place, 0));
        assert!(!receivers.complete(slot, partition(), place, 0));
        receivers.unblock(slot);
        true
    }

    fn go_elsewhere(&mut self, slot: Slot) {
        let (shard, _, open) = &mut self.sessions[slot as usize];
        let cursors = self.shards[*shard].receivers.cursors(slot).expect("exists");
        assert_eq!(cursors.open(partition()).collect::<Vec<_>>(), *open);
        self.shards[*shard].receivers.remove(slot);
        assert_eq!(self.shards[*shard].receivers.cursors(slot), None);
        *shard = 1 - *shard;
        let window = &mut self.windows[slot as usize];
        *window = *window % 3 + 1;
        let cursors = Cursors::decode(&cursors.encode()).expect("cursors");
        self.shards[*shard].receivers.resume(slot, &cursors, 0);
        self.again[slot as usize] = open.iter().copied().collect();
    }

    /// Works until there is nothing left to do.
    fn finish(&mut self) {
        loop {
            let mut is_busy = false;
            for shard in 0..2 {
                is_busy |= self.live(shard) | self.read(shard, 3);
            }
            for slot in 0..SESSIONS {
                is_busy |= self.acknowledge(slot);
            }
            if !is_busy {
                break;
            }
        }
        for (slot, (_, got, _)) in (0..).zip(&self.sessions) {
            let wanted: Vec<_> = self.log.places().filter(|place| is_for(slot, *place)).collect();
            assert_eq!(*got, wanted, "session {slot}");
        }
        assert!(self.again.iter().all(BTreeSet::is_empty));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Live(usize),
    Read(usize, u64),
    Acknowledge(Slot),
    GoElsewhere(Slot),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0usize..2).prop_map(Step::Live),
        4 => (0usize..2, 1u64..5).prop_map(|(shard, count)| Step::Read(shard, count)),
        4 => (0..SESSIONS).prop_map(Step::Acknowledge),
        2 => (0..SESSIONS).prop_map(Step::GoElsewhere),
    ]
}

proptest! {
    #[test]
    fn each_session_gets_each_message_once_and_in_order(
        steps in prop::collection::vec(step(), 1..150),
        sizes in prop::collection::vec(0u32..4, 1..30),
        is_quick: bool,
    ) {
        let mut world = World { is_quick, ..World::new(Log(sizes)) };
        for step in steps {
            match step {
                Step::Live(shard) => drop(world.live(shard)),
                Step::Read(shard, count) => drop(world.read(shard, count)),
                Step::Acknowledge(slot) => drop(world.acknowledge(slot)),
                Step::GoElsewhere(slot) => world.go_elsewhere(slot),
            }
        }
        world.finish();
    }
}

/// A client acknowledges while its own shard processes the current message.
#[test]
fn a_session_with_capacity_before_a_message_passes_receives_it() {
    let mut receivers = Receivers::new(&[place(1, 0); 16]);
    receivers.begin(0, 0);
    for at in [place(1, 0), place(2, 0)] {
        assert!(receivers.wants(0, partition(), at, DeliverySource::Live));
        receivers.block(0, partition(), at);
        receivers.unblock(0);
        assert!(!receivers.wants(0, partition(), at, DeliverySource::Live));
        receivers.pass(partition(), at.behind());
        receivers.pass(partition(), place(at.sequence.0 + 1, 0));
        let read = receivers.next_read_range().expect("it has missed a message");
        assert_eq!(read.from, at.sequence);
        let span = Log(vec![1; 2]).span(read.from.0, 1);
        assert!(receivers.begin_walk(read.number, &span));
        assert!(receivers.wants(0, partition(), at, DeliverySource::Read));
        receivers.take(0, partition(), at);
        assert_eq!(receivers.end_walk(&span), []);
        assert_eq!(receivers.next_read_range(), None);
    }
}

#[test]
fn faults_that_the_simulation_misses_are_found_here() {
    mutate(Some(Mutant::SkipsBlockedMessage));
    let found = std::panic::catch_unwind(a_session_with_capacity_before_a_message_passes_receives_it);
    mutate(None);
    assert!(found.is_err());
}

#[test]
fn many_sessions_that_connect_at_once_read_the_log_once() {
    let log = Log(vec![1; 100]);
    let mut receivers = Receivers::new(&[place(101, 0); 16]);
    let mut next = [place(101, 0); 16];
    for slot in 0..1000 {
        next[3] = place(1 + u64::from(slot) % 50, 0);
        receivers.resume(slot, &Cursors::new(next), 0);
    }
    let mut reads = Vec::new();
    while let Some(request) = receivers.next_read_range() {
        let span = log.span(request.from.0, 10);
        assert!(receivers.begin_walk(request.number, &span));
        assert_eq!(receivers.end_walk(&span), []);
        reads.push(request.from.0);
    }
    assert_eq!(reads, (0..10).map(|nth| 10 * nth + 1).collect::<Vec<_>>());
    assert!((0..1000).all(|slot| receivers.wants(slot, partition(), place(101, 0), DeliverySource::Live)));
}

/// Reads one group. Returns its sequence.
fn read_one(receivers: &mut Receivers) -> Option<u64> {
    let request = receivers.next_read_range()?;
    let until = Sequence(request.from.0 + 1);
    let span = Span { partition: partition(), from: request.from, until, groups: Vec::new(), lost: 0 };
    assert!(receivers.begin_walk(request.number, &span));
    receivers.end_walk(&span);
    Some(request.from.0)
}

/// A session at this sequence in the partition, and caught up in the others.
fn at(receivers: &Receivers, sequence: u64) -> Cursors {
    let mut next: [Place; 16] =
        std::array::from_fn(|index| receivers.position(Partition::new(index as u8).expect("exists")));
    next[3] = place(sequence, 0);
    Cursors::new(next)
}

#[test]
fn sessions_at_lower_positions_do_not_delay_others_forever() {
    let mut receivers = Receivers::new(&[place(10, 0); 16]);
    receivers.resume(0, &at(&receivers, 5), 0);
    let mut reads = Vec::new();
    for slot in 1..4 {
        // Another one is added before each read, at the lowest position.
        receivers.resume(slot, &at(&receivers, 1), 0);
        reads.extend(read_one(&mut receivers));
    }
    assert_eq!(reads, [1, 2, 3]);
    reads = std::iter::from_fn(|| read_one(&mut receivers)).collect();
    assert_eq!(reads, [4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn sessions_at_higher_positions_do_not_delay_others_forever() {
    let mut receivers = Receivers::new(&[place(10, 0); 16]);
    receivers.resume(0, &at(&receivers, 8), 0);
    let mut reads = vec![read_one(&mut receivers)];
    receivers.resume(1, &at(&receivers, 2), 0);
    for slot in 2..8 {
        // The log grows, and another one falls behind at its end.
        let end = 9 + u64::from(slot);
        receivers.pass(partition(), place(end, 0));
        receivers.resume(slot, &at(&receivers, end - 1), 0);
        reads.push(read_one(&mut receivers));
    }
    assert_eq!(reads, [8, 9, 2, 3, 4, 5, 6].map(Some));
}

#[test]
fn open_messages_missing_from_the_log_are_reported() {
    let mut receivers = Receivers::new(&[place(9, 0); 16]);
    let mut next = [place(9, 0); 16];
    next[3] = place(2, 0);
    let mut before = Receivers::new(&next);
    before.begin(0, 0);
    for sequence in [2, 3] {
        before.mark_delivered(0, partition(), place(sequence, 0));
        before.pass(partition(), place(sequence + 1, 0));
    }
    receivers.resume(0, &before.cursors(0).expect("exists"), 0);
    let request = receivers.next_read_range().expect("is lagging");
    assert_eq!(request.from, Sequence(2));
    let span = Span { partition: partition(), from: Sequence(2), until: Sequence(8), groups: Vec::new(), lost: 6 };
    assert!(receivers.begin_walk(request.number, &span));
    assert_eq!(receivers.end_walk(&span), [(0, place(2, 0)), (0, place(3, 0))]);
    let cursors = receivers.cursors(0).expect("exists");
    assert_eq!((cursors.open_count(), cursors.next(partition())), (0, place(8, 0)));
}

#[test]
fn a_group_delivers_only_leased_partitions_and_redispatches_returned_messages() {
    let log = Log(vec![1; 3]);
    let mut receivers = Receivers::new(&[place(2, 0); 16]);
    let slot = 7;
    assert_eq!(receivers.leases(slot), []);
    receivers.lease(slot, partition(), place(2, 0), [place(1, 0)].into_iter(), 0);
    assert!(receivers.has_lease(slot, partition()) && !receivers.has_lease(slot + 1, partition()));
    let walk = |receivers: &mut Receivers| {
        let request = receivers.next_read_range()?;
        let span = log.span(request.from.0, 1);
        let mut again = Vec::new();
        if receivers.begin_walk(request.number, &span) {
            again = receivers.again(partition(), place(request.from.0, 0));
            receivers.end_walk(&span);
        }
        Some((request.from.0, again))
    };
    assert_eq!(walk(&mut receivers), Some((1, vec![slot])), "messages that were open elsewhere");
    assert!(receivers.wants(slot, partition(), place(2, 0), DeliverySource::Live));
    assert!(!receivers.wants(slot, Partition::new(4).expect("exists"), place(2, 0), DeliverySource::Live));
    receivers.mark_delivered(slot, partition(), place(2, 0));
    receivers.pass(partition(), place(3, 0));
    receivers.requeue(slot, partition(), place(2, 0));
    assert!(!receivers.wants(slot, partition(), place(3, 0), DeliverySource::Live), "one after the other");
    assert_eq!(walk(&mut receivers), Some((2, vec![slot])));
    assert_eq!(walk(&mut receivers), None);
    assert_eq!(receivers.leases(slot), [(partition(), place(3, 0), vec![place(1, 0), place(2, 0)])]);
    assert!(receivers.complete(slot, partition(), place(1, 0), 0));
    assert_eq!(receivers.recall(slot, partition()), (place(3, 0), vec![place(2, 0)]));
    assert!(
        !receivers.wants(slot, partition(), place(3, 0), DeliverySource::Live) && receivers.leases(slot).is_empty()
    );
    assert!(!receivers.complete(slot, partition(), place(2, 0), 0), "it is open elsewhere");
}

#[test]
fn cursors_are_saved_after_many_acknowledgements_or_a_timeout() {
    let mut receivers = Receivers::new(&[place(1, 0); 16]);
    receivers.begin(0, 1000);
    assert_eq!((receivers.next_due(1000), receivers.next_due_ms()), (None, Some(601_000)));
    for sequence in 1..=256 {
        receivers.mark_delivered(0, partition(), place(sequence, 0));
        receivers.pass(partition(), place(sequence + 1, 0));
    }
    for sequence in 1..=256 {
        assert_eq!(receivers.next_due(1100), None, "{sequence}");
        assert!(receivers.complete(0, partition(), place(sequence, 0), 1100));
        assert_eq!(receivers.next_due_ms(), Some(if sequence < 256 { 1300 } else { 1100 }));
    }
    assert_eq!((receivers.next_due(1100), receivers.next_due(1100)), (Some(0), None));
    assert_eq!(receivers.next_due(601_100), Some(0), "nothing has happened for long");
}

#[test]
fn a_message_acknowledged_before_its_shard_passes_it_is_done() {
    let mut receivers = Receivers::new(&[place(1, 0); 16]);
    receivers.begin(0, 0);
    receivers.mark_delivered(0, partition(), place(1, 0));
    assert_eq!(receivers.cursors(0).map(|cursors| cursors.next(partition())), Some(place(1, 1)));
    assert!(receivers.complete(0, partition(), place(1, 0), 0));
    assert_eq!(receivers.cursors(0).map(|cursors| cursors.next(partition())), Some(place(1, 1)));
    assert!(!receivers.wants(0, partition(), place(1, 0), DeliverySource::Live));
    assert!(
        receivers.wants(0, partition(), place(1, 1), DeliverySource::Live) && receivers.next_read_range().is_none()
    );
    receivers.pass(partition(), place(3, 0));
    assert_eq!(receivers.cursors(0).map(|cursors| cursors.next(partition())), Some(place(3, 0)));
}

#[test]
fn a_record_never_exceeds_its_limit_of_open_messages() {
    let mut receivers = Receivers::new(&[place(1, 0); 16]);
    receivers.begin(0, 0);
    receivers.lease(1, partition(), place(1, 0), std::iter::empty(), 0);
    for sequence in 1..=OPEN_MAX as u64 {
        assert!(!receivers.is_full(0, partition()));
        assert_eq!(receivers.is_full(1, partition()), sequence > GROUP_OPEN_MAX as u64);
        (0..2)
            .filter(|slot| *slot == 0 || sequence <= GROUP_OPEN_MAX as u64)
            .for_each(|slot| receivers.mark_delivered(slot, partition(), place(sequence, 0)));
    }
    assert!(receivers.is_full(0, partition()));
    let cursors = receivers.cursors(0).expect("exists");
    assert_eq!(Cursors::decode(&cursors.encode()), Ok(cursors));
    assert!(receivers.complete(1, partition(), place(1, 0), 0));
    assert!(!receivers.is_full(1, partition()));
}

/// Sessions whose engine tracks delivery itself: one shares the position, one is behind, and one is ahead.
#[test]
fn accepted_messages_are_not_offered_again() {
    let log = Log(vec![2; 6]);
    let mut receivers = Receivers::new(&[place(3, 0); 16]);
    let from = |own| {
        let mut next = [place(3, 0); 16];
        next[partition().index()] = own;
        next
    };
    let begins = [place(3, 0), place(1, 1), place(4, 1)];
    receivers.follow(0, None);
    receivers.follow(1, Some(&from(begins[1])));
    receivers.follow(2, Some(&from(begins[2])));
    let mut got: [Vec<Place>; 3] = Default::default();
    let mut offer = |receivers: &mut Receivers, group: &LogGroup, walk| {
        for place in group.messages.iter().map(|message| group.place(&message)) {
            for slot in (0..3).filter(|slot| receivers.wants(*slot, partition(), place, walk)).collect::<Vec<_>>() {
                receivers.take(slot, partition(), place);
                got[slot as usize].push(place);
            }
            if walk == DeliverySource::Live {
                receivers.pass(partition(), place.behind());
            }
        }
    };
    let live =
        |receivers: &mut Receivers, sequence, offer: &mut dyn FnMut(&mut Receivers, &LogGroup, DeliverySource)| {
            offer(receivers, &log.group(sequence), DeliverySource::Live);
            receivers.pass(partition(), place(sequence + 1, 0));
        };
    live(&mut receivers, 3, &mut offer);
    assert_eq!(receivers.next(1, partition()), begins[1]);
    assert_eq!(receivers.next(0, partition()), place(4, 0));
    let read = receivers.next_read_range().expect("one is lagging");
    assert_eq!(read.from, Sequence(1));
    let span = log.span(1, 3);
    assert!(receivers.begin_walk(read.number, &span));
    offer(&mut receivers, &span.groups[0], DeliverySource::Read);
    // Progress in a part that is being read counts at once.
    assert_eq!(receivers.next(1, partition()), place(1, 2));
    live(&mut receivers, 4, &mut offer);
    span.groups[1..].iter().for_each(|group| offer(&mut receivers, group, DeliverySource::Read));
    assert!(receivers.end_walk(&span).is_empty());
    let read = receivers.next_read_range().expect("the log has grown meanwhile");
    let span = log.span(read.from.0, 1);
    assert!(receivers.begin_walk(read.number, &span));
    offer(&mut receivers, &span.groups[0], DeliverySource::Read);
    receivers.end_walk(&span);
    assert!(receivers.next_read_range().is_none(), "all are caught up");
    (5..7).for_each(|sequence| live(&mut receivers, sequence, &mut offer));
    for (got, begins) in got.iter().zip(begins) {
        assert_eq!(*got, log.places().filter(|place| begins <= *place).collect::<Vec<_>>());
    }
    assert!(receivers.next_due(u64::MAX).is_none(), "their engine saves them");
}

#[test]
fn a_range_can_be_iterated_from_any_position() {
    let log = Log(vec![2, 0, 3]);
    let span = log.span(1, 3);
    for from in [place(0, 0), place(1, 0), place(1, 1), place(1, 7), place(2, 0), place(3, 2), place(3, 3), place(9, 0)]
    {
        let found: Vec<_> = span.messages_from(from).map(|(place, message)| (place, message.index)).collect();
        let expected = log.places().filter(|place| from <= *place);
        assert_eq!(found, expected.map(|place| (place, place.index)).collect::<Vec<_>>());
    }
}
