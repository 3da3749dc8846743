//! Tests recovery from a log with lost frames: whatever is missing, the result is a consistent state.

use std::collections::BTreeSet;

use tautwire_durable::{FrameWriter, Recovery, SkippedRecords, Stats};
use tautwire_message::{Message, MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS};
use tautwire_session::{
    Change, PendingMessage, Record, Replay, RetainedChange, SessionNumber, StoredWill, SubscriptionIds,
    SubscriptionRecord,
};

fn message(number: u64) -> Message {
    let payload = number.to_le_bytes();
    let (id, topic) = (MessageId { run: 7, number }, format!("t/{}", number % 5));
    let message = MessageRef {
        id,
        topic: &topic,
        properties: &[],
        payload: &payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at_ms: None,
    };
    message.to_message()
}

fn pending(number: u64) -> PendingMessage {
    PendingMessage {
        message: message(number).into(),
        qos: QoS::ExactlyOnce,
        retain: false,
        subscription_ids: SubscriptionIds::None,
        share: None,
    }
}

fn frame(records: &[Record<'_>]) -> Vec<u8> {
    let mut writer = FrameWriter::default();
    records.iter().for_each(|record| writer.add(record));
    writer.take(Vec::new())
}

fn opened(session: u64, client_id: &str) -> Vec<u8> {
    frame(&beginning(session, client_id))
}

fn beginning(session: u64, client_id: &str) -> [Record<'_>; 2] {
    let session = SessionNumber(session);
    let change = &Change::ExpiryInterval(u32::MAX);
    [Record::Opened { session, client_id, at_ms: 1 }, Record::Changed { session, change, packet_id: None }]
}

fn changed(session: u64, change: &Change, packet_id: Option<u16>) -> Vec<u8> {
    let packet_id = packet_id.and_then(PacketId::new);
    frame(&[Record::Changed { session: SessionNumber(session), change, packet_id }])
}

fn recovered(frames: &[Vec<u8>]) -> (Replay, SkippedRecords) {
    let mut recovery = Recovery::new(None);
    recovery.skip_inconsistent_records();
    for frame in frames {
        recovery.frame(frame).expect("nothing is refused");
    }
    let skipped_records = recovery.skipped_records().cloned().expect("was requested");
    (recovery.finish(), skipped_records)
}

/// Returns the numbers of a session's queued messages, in the order in which they will be sent.
fn waiting(state: &Replay, session: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    let Some(replayed) = state.session_of(SessionNumber(session)) else { return numbers };
    replayed.session.describe(|change, _| {
        if let Change::Started(pending) | Change::Queued(pending) = change {
            numbers.push(pending.message.id().number);
        }
    });
    numbers
}

#[test]
fn an_intact_log_has_no_inconsistent_records() {
    let frames = [opened(1, "a"), changed(1, &Change::Started(pending(1)), Some(1))];
    let (state, passed) = recovered(&frames);
    assert!(passed.is_none() && passed.sessions.is_empty());
    assert_eq!((passed.records, waiting(&state, 1)), (4, vec![1]));
}

#[test]
fn a_session_without_its_first_record_is_skipped_and_its_number_is_not_reused() {
    let frames = [opened(1, "a"), changed(9, &Change::Queued(pending(1)), None), opened(2, "b")];
    let (state, passed) = recovered(&frames);
    assert_eq!((passed.unknown_session, passed.sessions.get(&9)), (1, Some(&None)));
    assert_eq!((state.sessions().count(), state.last_session()), (2, SessionNumber(9)));
    assert!(passed.first.is_some_and(|first| first.contains("[replay-unknown-session]")));
}

#[test]
fn messages_after_a_lost_one_keep_their_identifiers() {
    // Identifier 2 was assigned in a lost frame, and identifier 1 was freed there.
    let frames = [
        opened(1, "a"),
        changed(1, &Change::Started(pending(1)), Some(1)),
        changed(1, &Change::Started(pending(3)), Some(3)),
        changed(1, &Change::Queued(pending(4)), None),
        changed(1, &Change::StartedQueued, Some(4)),
        changed(1, &Change::NextPacketId(PacketId::new(1).expect("not 0")), None),
        changed(1, &Change::Started(pending(5)), Some(1)),
        changed(1, &Change::Completed(PacketId::new(3).expect("not 0")), None),
    ];
    let (state, passed) = recovered(&frames);
    assert_eq!(passed.mismatched_packet_id, 2);
    assert_eq!(passed.sessions.get(&1), Some(&Some("a".to_owned())));
    let session = &state.session_of(SessionNumber(1)).expect("exists").session;
    let outbound = session.outbound().expect("messages are in flight");
    let in_flight = |id| {
        let id = PacketId::new(id).expect("not 0");
        outbound.unacknowledged(id).map(|pending| pending.message.id().number)
    };
    assert_eq!([1, 2, 3, 4].map(in_flight), [Some(5), None, None, Some(4)]);
}

#[test]
fn a_client_has_one_session_if_the_older_ones_end_is_lost() {
    let frames = [opened(1, "a"), changed(1, &Change::Queued(pending(1)), None), opened(2, "a"), opened(3, "b")];
    let (state, passed) = recovered(&frames);
    let clients: Vec<_> = state.sessions().map(|found| (found.number.0, found.session.client_id())).collect();
    assert_eq!((clients, passed.replaced), (vec![(2, "a"), (3, "b")], 1));
}

#[test]
fn a_session_that_ended_gracefully_is_not_replaced() {
    let ended = frame(&[Record::Ended(SessionNumber(1))]);
    let (state, passed) = recovered(&[opened(1, "a"), ended, opened(2, "a")]);
    assert!(passed.is_none() && state.sessions().count() == 1);
}

/// It has messages that others must receive.
#[test]
fn an_ending_session_can_share_its_client_with_another() {
    let queued = changed(1, &Change::Queued(pending(1)), None);
    let ending = changed(1, &Change::ExpiryInterval(0), None);
    let (state, passed) = recovered(&[opened(1, "a"), queued, ending, opened(2, "a")]);
    assert!(passed.is_none());
    assert_eq!((state.sessions().count(), waiting(&state, 1)), (2, vec![1]));

    // The end of a session whose will was neither published nor discarded is lost.
    let (first, second, message) = (SessionNumber(1), SessionNumber(2), message(1));
    let will = Change::Will(Some(Box::new(StoredWill { message, delay_s: 0, message_expiry_s: None })));
    let frames = [(first, "a"), (second, "a")].map(|(session, client_id)| {
        let set = Record::Changed { session, change: &will, packet_id: None };
        frame(&[Record::Opened { session, client_id, at_ms: 1 }, set])
    });
    let (state, passed) = recovered(&frames);
    assert_eq!((state.sessions().count(), passed.replaced), (1, 1));
}

#[test]
fn an_undecodable_record_ends_only_its_frame() {
    let mut broken = opened(2, "b");
    broken.push(250);
    let (state, passed) = recovered(&[opened(1, "a"), broken, opened(3, "c")]);
    assert_eq!((passed.undecodable, state.sessions().count()), (1, 3));
}

#[test]
fn without_salvage_inconsistent_records_are_refused() {
    let mut recovery = Recovery::new(None);
    let refused = recovery.frame(&changed(9, &Change::Queued(pending(1)), None));
    assert_eq!(refused.map_err(|error| error.code()), Err("replay-unknown-session"));
    assert!(recovery.skipped_records().is_none());
}

/// A deterministic source of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns frames of typical broker activity, with one important record in each.
fn history(random: &mut Random, frames: usize) -> Vec<Vec<u8>> {
    let mut model = Replay::default();
    let mut bodies = Vec::new();
    let (mut next_session, mut next_message, mut sequence) = (1, 1, 1);
    let mut clients: [Option<u64>; 4] = [None; 4];
    let mut ending = Vec::new();
    while bodies.len() < frames {
        let client = random.below(4) as usize;
        let Some(session) = clients[client] else {
            clients[client] = Some(next_session);
            let client_id = format!("c{client}");
            let [begins, lasts] = beginning(next_session, &client_id);
            model.apply(&begins).expect("is new");
            model.apply(&lasts).expect("exists");
            bodies.push(frame(&[begins, lasts]));
            next_session += 1;
            continue;
        };
        if let Some(session) = ending.pop() {
            // The session is cleared while other activity continues.
            let number = SessionNumber(session);
            let state = &model.session_of(number).expect("exists").session;
            let is_empty = state.outbound().is_none_or(|outbound| outbound.queued() == 0);
            let left = Record::Changed { session: number, change: &Change::Unqueued, packet_id: None };
            let record = if is_empty { Record::Ended(number) } else { left };
            model.apply(&record).expect("exists");
            bodies.push(frame(&[record]));
            if !is_empty {
                ending.push(session);
            }
        }
        let number = SessionNumber(session);
        let state = &model.session_of(number).expect("exists").session;
        let free = state.next_packet_id();
        let in_flight: Vec<PacketId> = (1..200)
            .filter_map(PacketId::new)
            .filter(|id| state.outbound().is_some_and(|out| out.unacknowledged(*id).is_some() || out.is_released(*id)))
            .collect();
        let queued = state.outbound().map_or(0, |outbound| outbound.queued());
        let some = |random: &mut Random| in_flight.get(random.below(in_flight.len().max(1) as u64) as usize).copied();
        next_message += 1;
        let (change, packet_id) = match random.below(12) {
            0 | 1 => (Change::Queued(pending(next_message)), None),
            2 | 3 => (Change::Started(pending(next_message)), free),
            4 | 5 if queued > 0 => (Change::StartedQueued, free),
            6 if queued > 0 => (Change::Unqueued, None),
            7 | 8 => match some(random) {
                Some(id) => (Change::Completed(id), None),
                None => continue,
            },
            9 => match some(random) {
                Some(id) => (Change::Received(id), None),
                None => continue,
            },
            10 => {
                let filter = format!("f/{}", random.below(5));
                let options = Default::default();
                (
                    Change::Subscribed(filter.into(), SubscriptionRecord { options, identifier: None, format: None }),
                    None,
                )
            }
            11 if random.below(5) == 0 => {
                clients[client] = None;
                let ends = Record::Changed { session: number, change: &Change::ExpiryInterval(0), packet_id: None };
                let record = if queued > 0 { ends } else { Record::Ended(number) };
                model.apply(&record).expect("exists");
                bodies.push(frame(&[record]));
                if queued > 0 {
                    ending.push(session);
                }
                continue;
            }
            11 => {
                sequence += 1;
                let change = RetainedChange::Set(message(next_message));
                let record = Record::Retained { sequence, change: &change };
                model.apply(&record).expect("always fits");
                bodies.push(frame(&[record]));
                continue;
            }
            _ => continue,
        };
        let record = Record::Changed { session: number, change: &change, packet_id };
        model.apply(&record).expect("fits");
        bodies.push(frame(&[record]));
    }
    bodies
}

#[test]
fn after_any_loss_the_remaining_state_can_be_written_and_read_back() {
    let mut with_loss = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        let frames = history(&mut random, 150);
        let mut strict = Recovery::new(None);
        frames.iter().for_each(|frame| strict.frame(frame).expect("intact"));
        let (whole, passed) = recovered(&frames);
        assert!(passed.is_none() && whole == strict.finish(), "seed {seed}");

        let from = random.below(150) as usize;
        let to = (from + 1 + random.below(40) as usize).min(frames.len());
        let left = [&frames[..from], &frames[to..]].concat();
        let (state, passed) = recovered(&left);
        with_loss += u32::from(!passed.is_none());
        let lasting = || state.sessions().filter(|found| found.session.expiry_interval_s() > 0);
        let clients: BTreeSet<_> = lasting().map(|found| found.session.client_id()).collect();
        assert_eq!(clients.len(), lasting().count(), "seed {seed}: a client has two sessions");

        // A snapshot of the state is read without tolerance, and leads to the same state.
        let mut snapshot = FrameWriter::default();
        assert_eq!(state.describe(|_| None, |record| snapshot.add(record)), Ok(()));
        assert_eq!(Stats::of(&state).live_bytes, snapshot.bytes() as u64);
        let mut again = Recovery::new(None);
        again.frame(&snapshot.take(Vec::new())).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let again = again.finish();
        for (one, other) in state.sessions().zip(again.sessions()) {
            assert_eq!(waiting(&state, one.number.0), waiting(&again, other.number.0), "seed {seed}");
            assert_eq!(one.session.next_packet_id(), other.session.next_packet_id(), "seed {seed}");
        }
        assert_eq!((state.last_session(), state.last_sequence()), (again.last_session(), again.last_sequence()));
    }
    assert!(with_loss > 200, "the losses were too small to matter: {with_loss}");
}
