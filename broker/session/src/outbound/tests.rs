use super::*;
use tautwire_message::{MessageId, MessageRef, SpillAccount, SpillSlot, Spilled};

fn delivery(n: u32) -> PendingMessage {
    let message = MessageRef {
        id: MessageId::NONE,
        topic: "t",
        properties: &[],
        payload: &n.to_le_bytes(),
        qos: QoS::ExactlyOnce,
        retain: false,
        expires_at_ms: None,
    };
    PendingMessage {
        message: message.to_message().into(),
        qos: QoS::ExactlyOnce,
        retain: false,
        subscription_ids: SubscriptionIds::None,
        share: None,
    }
}

fn id(n: u16) -> PacketId {
    PacketId::new(n).expect("not zero")
}

#[test]
fn identifiers_wrap_around_and_stay_unique() {
    let mut out = Outbound::default();
    for n in 0..200_000u32 {
        let given = out.next_packet_id().expect("window is short");
        assert_eq!(u32::from(given.get()), n % 65_535 + 1);
        out.start(delivery(n));
        assert!(out.unacknowledged(given).is_some());
        out.complete(given);
        assert!(out.unacknowledged(given).is_none());
    }
    assert!(out.is_empty());
}

#[test]
fn an_identifier_is_available_unless_all_are_taken() {
    let mut out = Outbound::default();
    for n in 0..65_535 {
        out.start(delivery(n));
    }
    assert_eq!(out.next_packet_id(), None);
    assert_eq!(out.in_flight(), 65_535);
    out.complete(id(1));
    assert_eq!(out.next_packet_id(), Some(id(1)));
}

#[test]
fn an_old_message_does_not_delay_others() {
    let mut out = Outbound::default();
    let stuck = [id(1), id(7)];
    for _ in 0..300_000u32 {
        let given = out.next_packet_id().expect("two are in use");
        assert!(out.unacknowledged(given).is_none(), "{given:?} is in use");
        out.start(delivery(u32::from(given.get())));
        if !stuck.contains(&given) || out.in_flight() > 2 {
            out.complete(given);
        }
        assert!(out.in_flight() <= 2);
        assert!(out.window.len() <= 2 * SPARSE_WINDOW, "the window stays small");
    }
    out.rewind();
    for expected in stuck {
        let Some(Resend::Publish(resent, _)) = out.resend() else { panic!("two are left") };
        assert_eq!(resent, expected);
    }
    assert_eq!(out.resend(), None);
    assert!(out.is_resent());
    for expected in stuck {
        out.release(expected);
        assert!(out.is_released(expected));
        out.complete(expected);
    }
    assert!(out.is_empty());
    assert_eq!(out.in_flight(), 0);
}

#[test]
fn unacknowledged_messages_are_resent_in_order() {
    let mut out = Outbound::default();
    for n in 0..4 {
        out.start(delivery(n));
    }
    out.complete(id(2));
    out.release(id(3));
    out.rewind();
    assert_eq!(out.in_flight(), 0);
    assert_eq!(out.resend(), Some(Resend::Publish(id(1), &delivery(0))));
    assert!(!out.is_resent());
    out.complete(id(1));
    assert_eq!(out.resend(), Some(Resend::Release(id(3))));
    assert_eq!(out.resend(), Some(Resend::Publish(id(4), &delivery(3))));
    assert_eq!(out.resend(), None);
    assert!(out.is_resent());
    assert_eq!(out.in_flight(), 2);
    assert!(out.is_released(id(3)));
}

#[test]
fn acknowledgements_of_unknown_identifiers_change_nothing() {
    let mut out = Outbound::default();
    out.start(delivery(0));
    out.complete(id(9));
    out.release(id(9));
    assert_eq!(out.in_flight(), 1);
    assert!(out.unacknowledged(id(1)).is_some());
}

#[test]
fn counted_bytes_follow_queue_and_window() {
    let one = delivery(1).counted_bytes();
    let mut out = Outbound::default();
    out.enqueue(delivery(1));
    out.enqueue(delivery(2));
    out.start(delivery(3));
    out.start(delivery(4));
    assert_eq!(out.counted_bytes(), 4 * one);
    assert_eq!(out.withdraw(), Some(delivery(1)));
    assert_eq!(out.release(id(1)), Some(delivery(3)));
    assert_eq!(out.counted_bytes(), 2 * one);
    assert_eq!(out.complete(id(1)), None);
    assert_eq!(out.complete(id(2)), Some(delivery(4)));
    assert_eq!(out.withdraw(), Some(delivery(2)));
    assert_eq!(out.counted_bytes(), 0);
    assert_eq!(out.withdraw(), None);
}

#[test]
fn subscription_identifiers_of_a_delivery_are_counted() {
    let many: Vec<_> = (1..=1_000).filter_map(SubscriptionId::new).collect();
    let with_ids = PendingMessage { subscription_ids: many.as_slice().into(), ..delivery(1) };
    assert_eq!(with_ids.counted_bytes(), delivery(1).counted_bytes() + 4_000 + size_of::<Box<[SubscriptionId]>>());
}

/// More messages become stragglers than a sparse window has slots, and the sequence reaches their identifiers again.
#[test]
fn the_sequence_skips_many_stragglers() {
    let mut out = Outbound::default();
    let stuck: Vec<PacketId> = (1..=3_000).map(id).collect();
    for n in 0..3_000 {
        out.start(delivery(n));
    }
    for _ in 0..200_000 {
        let given = out.next_packet_id().expect("most are free");
        assert!(given.get() > 3_000, "{given:?} is in use");
        out.start(delivery(0));
        out.complete(given);
        assert_eq!((out.in_flight(), out.stragglers.len() + out.occupied), (3_000, 3_000));
    }
    for given in stuck {
        out.complete(given);
    }
    assert!(out.is_empty() && out.occupied == 0 && out.counted_bytes() == 0);
}

fn spill_account() -> Arc<SpillAccount> {
    Arc::new(SpillAccount::new(Arc::default(), Arc::default()))
}

fn large(n: u64) -> PendingMessage {
    let message = MessageRef {
        id: MessageId { run: 1, number: n },
        topic: "t",
        properties: &[],
        payload: &[n as u8; 1_000],
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at_ms: None,
    };
    PendingMessage { message: message.to_message().into(), ..delivery(0) }
}

#[test]
fn a_queue_entry_is_small() {
    assert!(size_of::<PendingMessage>() <= 56, "{} bytes", size_of::<PendingMessage>());
}

#[test]
fn a_spilled_queue_is_sent_in_order_and_unchanged() {
    let account = spill_account();
    let mut out = Outbound::default();
    (0..10).for_each(|n| out.enqueue(large(n)));
    let counted = out.counted_bytes();
    assert!(out.queue_for_spill() && !out.queue_for_spill());
    let one = counted / 10;
    let within = [(9, 5 * one + 1), (3, 5 * one), (9, 0)].map(|(most, bytes)| out.front_within(most, bytes));
    assert_eq!(within, [5, 3, 1]);
    let mut steps = 5;
    let mut found = Vec::new();
    while let Some((number, message)) = out.next_to_spill(3, 100, &mut steps) {
        found.push((number, message.clone()));
    }
    assert_eq!(
        found.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        [3, 4, 5, 6, 7],
        "the first three stay in memory"
    );
    assert!(out.has_more_to_spill(3));
    for (number, message) in &found {
        assert!(out.spill(*number, &Spilled::new(message, SpillSlot(*number as u32), &account)));
    }
    let (number, message) = &found[0];
    assert!(!out.spill(*number, &Spilled::new(message, SpillSlot(99), &account)), "already spilled");
    assert_eq!(out.counted_bytes(), counted, "limits count spilled messages in full");
    assert!(out.memory_bytes() < counted - 5 * 900);
    assert_eq!(out.spilled_ahead(5).map(|spilled| spilled.slot()).collect::<Vec<_>>(), [SpillSlot(3), SpillSlot(4)]);
    for n in 0..10 {
        if (3..8).contains(&n) {
            assert!(out.front().is_some_and(|front| front.message.spilled().is_some()));
            out.load_front(found[n as usize - 3].1.clone());
        }
        assert_eq!(out.withdraw(), Some(large(n)));
    }
    assert_eq!((out.counted_bytes(), out.memory_bytes()), (0, 0));
}

#[test]
fn removed_and_other_messages_are_not_spilled() {
    let account = spill_account();
    let mut out = Outbound::default();
    (0..3).for_each(|n| out.enqueue(large(n)));
    let first = out.next_to_spill(0, 100, &mut 1).map(|(number, message)| (number, message.clone()));
    let (number, message) = first.expect("one message may be spilled");
    let spilled = Spilled::new(&message, SpillSlot(0), &account);
    out.withdraw();
    assert!(!out.spill(number, &spilled) && !out.spill(number + 1, &spilled) && !out.spill(77, &spilled));
    let short = PendingMessage { message: delivery(7).message, ..large(0) };
    out.enqueue(short);
    out.rescan_from(0);
    let mut seen = Vec::new();
    while let Some((number, _)) = out.next_to_spill(0, 100, &mut 100) {
        seen.push(number);
    }
    assert_eq!(seen, [1, 2], "a short message is skipped");
}

#[test]
fn spilled_messages_in_flight_are_reported_before_resending() {
    let account = spill_account();
    let mut out = Outbound::default();
    for n in 0..3 {
        let message = large(n).message.loaded().cloned().expect("in memory");
        let body = Body::Spilled(Spilled::new(&message, SpillSlot(n as u32), &account));
        out.start(PendingMessage { message: if n == 1 { message.into() } else { body }, ..large(n) });
    }
    out.rewind();
    assert_eq!(out.spilled_resends(9).map(Spilled::slot).collect::<Vec<_>>(), [SpillSlot(0), SpillSlot(2)]);
    assert_eq!(out.spilled_to_resend().map(Spilled::slot), Some(SpillSlot(0)));
    out.resend();
    assert_eq!(out.spilled_to_resend(), None);
    out.resend();
    assert_eq!(out.spilled_to_resend().map(Spilled::slot), Some(SpillSlot(2)));
    for _ in 0..3 {
        let next = out.next_unfinished().map(|(delivery, started)| (delivery.clone(), started));
        assert_eq!(out.take_unfinished(), next);
    }
}

#[test]
fn messages_in_flight_for_a_while_can_be_spilled() {
    let account = spill_account();
    let mut out = Outbound::default();
    (0..3).for_each(|n| out.start(large(n)));
    assert!(out.begin_spill_delay() && !out.begin_spill_delay());
    out.start(large(3));
    out.complete(id(1));
    assert!(out.next_sent_to_spill(100, &mut 100).is_none(), "its delay has not passed");
    assert!(out.end_spill_delay(), "another message is in its delay");
    assert!(out.has_more_sent_to_spill());
    let mut found = Vec::new();
    while let Some((id, message)) = out.next_sent_to_spill(100, &mut 100) {
        found.push((id, message.clone()));
    }
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(2), id(3)]);
    assert!(!out.has_more_sent_to_spill());
    let counted = out.counted_bytes();
    for (id, message) in &found {
        let spilled = Spilled::new(message, SpillSlot(u32::from(id.get())), &account);
        assert!(out.spill_sent(*id, &spilled) && !out.spill_sent(*id, &spilled));
    }
    let (_, message) = &found[0];
    assert!(!out.spill_sent(id(4), &Spilled::new(message, SpillSlot(9), &account)), "another message");
    assert!(out.counted_bytes() == counted && out.memory_bytes() < counted - 1_500);
    assert!(!out.end_spill_delay());
    assert_eq!(out.next_sent_to_spill(100, &mut 100).map(|(id, _)| id), Some(id(4)));
    (2..=4).for_each(|n| drop(out.complete(id(n))));
    assert_eq!((out.counted_bytes(), out.memory_bytes()), (0, 0));
}

#[test]
fn a_queue_without_progress_for_a_while_is_stalled() {
    let mut out = Outbound::default();
    (0..3).for_each(|n| out.enqueue(large(n)));
    assert!(out.next_to_spill(2, 100, &mut 100).is_some_and(|(number, _)| number == 2));
    assert!(out.begin_spill_delay());
    out.withdraw();
    assert!(out.end_spill_delay() && !out.is_queue_idle(), "a message has left the queue");
    assert!(!out.end_spill_delay() && out.is_queue_idle());
    assert_eq!(out.next_to_spill(0, 100, &mut 1).map(|(number, _)| number), Some(1), "the front is scanned too");
    out.withdraw();
    assert!(!out.is_queue_idle());
}
