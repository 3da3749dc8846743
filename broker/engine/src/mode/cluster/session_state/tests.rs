use std::sync::Arc;

use tautwire_cluster::Sequence;
use tautwire_cluster::names::{PARTITIONS, Partition};
use tautwire_cluster::record::Place;
use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{PacketId, QoS, RetainHandling, SubscriptionId, SubscriptionOptions};
use tautwire_session::{Change, PendingMessage, Session, SubscriptionIds, SubscriptionRecord};

use super::{MessageSource, SessionState, StatePart, encode};
use crate::mode::cluster::cluster_state::LogPlace;

fn at(partition: u8, sequence: u64, index: u32) -> LogPlace {
    let partition = Partition::new(partition).expect("a valid partition");
    LogPlace { partition, place: Place { sequence: Sequence(sequence), index } }
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("not 0")
}

fn pending(name: MessageId, qos: QoS) -> PendingMessage {
    let message = MessageRef {
        id: name,
        topic: "a/b",
        properties: &[],
        payload: b"payload",
        qos,
        retain: false,
        expires_at_ms: None,
    };
    PendingMessage {
        message: message.to_message_in(&Arc::default()).into(),
        qos,
        retain: true,
        subscription_ids: SubscriptionIds::from(&[SubscriptionId::new(7).expect("not 0")][..]),
        share: None,
    }
}

fn session() -> Session {
    let mut session = Session::new("c");
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::SendIfNew,
    };
    let record = SubscriptionRecord { options, identifier: SubscriptionId::new(300), format: None };
    session.apply(Change::ExpiryInterval(60));
    session.apply(Change::Subscribed("a/+".into(), record));
    session.apply(Change::Started(pending(at(3, 10, 1).to_id(), QoS::AtLeastOnce)));
    session.apply(Change::Started(pending(at(5, 4, 0).to_id(), QoS::ExactlyOnce)));
    session.apply(Change::Received(id(2)));
    session.apply(Change::Started(pending(at(3, 12, 0).to_id(), QoS::ExactlyOnce)));
    session.apply(Change::Queued(pending(at(3, 12, 2).to_id(), QoS::AtLeastOnce)));
    session.apply(Change::Queued(pending(at(3, 13, 0).to_id(), QoS::AtLeastOnce)));
    session.apply(Change::Queued(pending(MessageId { run: 1, number: 2 }, QoS::AtLeastOnce)));
    session
}

fn bytes() -> Vec<u8> {
    encode(&session(), Some(5_000), |_| Place { sequence: Sequence(20), index: 0 })
}

#[test]
fn session_states_round_trip() {
    let state = SessionState::decode(&bytes()).expect("a valid state");
    assert_eq!((state.disconnected_at_ms, state.expiry_s), (Some(5_000), 60));
    let kinds: Vec<_> = state
        .parts
        .iter()
        .map(|part| match part {
            StatePart::Subscribed(filter, record) => format!("{filter} {:?}", record.options.qos),
            StatePart::Started(packet_id, pending) => format!("started {} {:?}", packet_id.get(), pending.qos),
            StatePart::AwaitingPubComp(packet_id) => format!("awaited {}", packet_id.get()),
            StatePart::NextPacketId(packet_id) => format!("next {}", packet_id.get()),
            StatePart::Queued(_) => "queued".to_owned(),
        })
        .collect();
    assert_eq!(kinds, ["a/+ ExactlyOnce", "started 1 AtLeastOnce", "awaited 2", "started 3 ExactlyOnce", "queued"]);
    assert_eq!(state.open().collect::<Vec<_>>(), [at(3, 10, 1), at(3, 12, 0)]);
    let Some(StatePart::Queued(queued)) = state.parts.last() else { panic!("the message is not queued") };
    let MessageSource::Inline(stored) = &queued.source else { panic!("the message is not stored inline") };
    assert_eq!(MessageRef::read_stored(stored).map(|message| message.payload), Some(&b"payload"[..]));
    assert_eq!((queued.retain, queued.subscription_ids.as_slice().len()), (true, 1));
}

/// The bytes are part of the format: a change needs a new version.
#[test]
fn the_encoding_is_stable() {
    let hex: String = bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "0188130000000000003c00000035000000011400001400001400000c02020a01020014000014000014000014000014000014\
         0000140000140000140000140000140000140000011e2c0100000003000000612f2b0201000d0100000007000000030a0000\
         0000000000010000000302000203000e0100000007000000030c0000000000000000000000050501000000070000002a0000\
         0001000000000000000200000000000000ffffffffffffffff0000000003000100612f627061796c6f6164"
    );
}

#[test]
fn queued_messages_are_read_again_and_sent_ones_are_not() {
    let state = SessionState::decode(&bytes()).expect("a valid state");
    for partition in Partition::all() {
        let expected = if partition.index() == 3 { at(3, 12, 2).place } else { at(0, 20, 0).place };
        assert_eq!(state.next[partition.index()], expected, "{partition}");
    }
    // A session that was sent messages which the shard has not routed yet.
    let early = encode(&session(), None, |_| Place::START);
    let state = SessionState::decode(&early).expect("a valid state");
    assert_eq!(state.next[3], at(3, 12, 2).place);
    assert_eq!((state.next[0], state.disconnected_at_ms), (Place::START, None));
}

#[test]
fn invalid_bytes_are_refused() {
    let whole = bytes();
    let cut = (0..whole.len()).filter(|length| SessionState::decode(&whole[..*length]).is_some()).count();
    // A state that is cut at the end of a part is valid.
    assert!(cut <= 5, "{cut}");
    for at in 0..whole.len() {
        for flipped in [1, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= flipped;
            // It must not panic.
            let _ = SessionState::decode(&damaged);
        }
    }
    let twice = [&whole[..], &[super::AWAITING_PUBCOMP, 1, 0]].concat();
    assert_eq!(SessionState::decode(&twice), None, "each packet identifier is used once");
    assert_eq!(SessionState::decode(&[super::VERSION + 1]), None);
    assert_eq!(SessionState::decode(&[]), None);
}

#[test]
fn an_offline_session_ends_after_its_expiry_interval() {
    let state = SessionState::decode(&bytes()).expect("a valid state");
    assert!(!state.has_expired(64_999) && state.has_expired(65_000));
    assert!(!SessionState { disconnected_at_ms: None, ..state.clone() }.has_expired(u64::MAX));
    assert!(!SessionState { expiry_s: u32::MAX, ..state }.has_expired(u64::MAX));
    assert_eq!(usize::from(PARTITIONS), 16);
}
