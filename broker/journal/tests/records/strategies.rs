//! Records of all kinds with values of all kinds.

use proptest::prelude::*;
use tautwire_journal::record::{Ids, Member, PendingRecord, Record};
use tautwire_journal::{SessionId, ShardNumber};
use tautwire_message::{Format, MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions};

/// The parts of a random record.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    kind: u8,
    numbers: [u64; 3],
    small: [u16; 2],
    bits: u8,
    text: String,
    other_text: String,
    bytes: Vec<u8>,
    ids: Vec<u32>,
}

pub(crate) fn parts() -> impl Strategy<Value = Parts> {
    let number = prop_oneof![Just(1), Just(u64::MAX), 1u64..=u64::MAX];
    (
        1u8..=26,
        [number.clone(), number.clone(), number],
        [1u16.., 1u16..],
        any::<u8>(),
        "\\PC{0,12}",
        "\\PC{0,12}",
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(1u32..=268_435_455, 0..4),
    )
        .prop_map(|(kind, numbers, small, bits, text, other_text, bytes, ids)| Parts {
            kind,
            numbers,
            small,
            bits,
            text,
            other_text,
            bytes,
            ids,
        })
}

/// Passes the records of all parts to `check`. They borrow from lists that live during the call.
pub(crate) fn with_records<T>(parts: &[Parts], check: impl FnOnce(&[Record<'_>]) -> T) -> T {
    let ids: Vec<Vec<SubscriptionId>> =
        parts.iter().map(|parts| parts.ids.iter().filter_map(|id| SubscriptionId::new(*id)).collect()).collect();
    let records: Vec<Record<'_>> = parts.iter().zip(&ids).map(|(parts, ids)| record(parts, ids)).collect();
    check(&records)
}

fn record<'a>(parts: &'a Parts, ids: &'a [SubscriptionId]) -> Record<'a> {
    let Parts { kind, numbers, small, bits, text, other_text, bytes, .. } = parts;
    let session = SessionId::new(numbers[0]).expect("not 0");
    let packet_id = PacketId::new(small[0]).expect("not 0");
    let flag = |n: u8| bits >> n & 1 == 1;
    let qos = QoS::from_u8(bits % 3).expect("below 3");
    let id = MessageId { run: numbers[1], number: numbers[2] };
    let (properties, payload) = bytes.split_at(bytes.len() / 3);
    let message = MessageRef {
        id,
        topic: other_text,
        properties,
        payload,
        qos,
        retain: flag(2),
        expires_at_ms: flag(3).then_some(numbers[0] - 1),
    };
    let delivery = PendingRecord {
        message: id,
        qos,
        retain: flag(2),
        subscription_ids: Ids::Given(ids),
        share: flag(3).then_some(text.as_str()),
    };
    let at_ms = numbers[1];
    match kind {
        1 => Record::Message(message),
        2 => Record::Opened { session, at_ms, client_id: text },
        3 => Record::Ended { session },
        4 => Record::ExpiryInterval { session, seconds: numbers[1] as u32 },
        5 => Record::Connected { session, at_ms },
        6 => Record::Disconnected { session, at_ms },
        7 => {
            let message_expiry_s = flag(4).then_some(numbers[2] as u32);
            Record::Will { session, delay_s: numbers[1] as u32, message_expiry_s, message }
        }
        8 => Record::WillGone { session },
        9 => Record::Subscribed {
            session,
            options: SubscriptionOptions {
                qos,
                no_local: flag(2),
                retain_as_published: flag(3),
                retain_handling: RetainHandling::from_u8(bits / 3 % 3).expect("below 3"),
            },
            identifier: ids.first().copied(),
            format: Format::ALL.get(usize::from(bits / 9 % 4)).copied(),
            filter: text,
        },
        10 => Record::Unsubscribed { session, filter: text },
        11 => Record::Queued { session, delivery },
        12 => Record::Unqueued { session },
        13 => Record::Started { session, packet_id, delivery },
        14 => Record::StartedQueued { session, packet_id },
        15 => Record::Received { session, packet_id },
        16 => Record::Completed { session, packet_id },
        17 => Record::Taken { session, packet_id },
        18 => Record::Released { session, packet_id },
        19 => Record::RetainedSet { sequence: numbers[0], message: id },
        20 => Record::RetainedCleared { sequence: numbers[0], topic: text },
        21 => Record::Forwarded {
            from: ShardNumber(small[0]),
            to: ShardNumber(small[1]),
            sequence: numbers[0],
            message: id,
            member: flag(5).then_some(Member { session, share: text }),
        },
        23 => Record::NextPacketId { session, packet_id },
        24 => Record::AwaitingPubComp { session, packet_id },
        25 => Record::Counted { last_session: numbers[1], last_sequence: numbers[2] },
        26 => Record::RunStarted { shards: 1 + small[0] % 64, seed: numbers[0] },
        _ => Record::ForwardAccepted { from: ShardNumber(small[0]), to: ShardNumber(small[1]), sequence: numbers[1] },
    }
}
