//! Any file is read or refused, and an imported state can be written and read again.

use proptest::prelude::*;
use tautwire_mosquitto::{BridgeSessions, Database, MountPoints, import_database};
use tautwire_session::{Record, Replay};

use crate::IMPORT_TIME;
use crate::writer::{MessageOptions, Writer};

fn check(bytes: &[u8]) {
    let Ok(database) = Database::read(bytes) else { return };
    let imported = import_database(&database, IMPORT_TIME, &MountPoints::new(), &BridgeSessions::new());
    let mut again = Replay::default();
    let records = records_of(&imported.state, |record| again.apply(record).expect("the records belong together"));
    assert_eq!(records_of(&again, |_| {}), records);
}

/// The records that produce a state.
fn records_of(state: &Replay, mut visit: impl FnMut(&Record<'_>)) -> Vec<String> {
    let mut records = Vec::new();
    let result = state.describe(
        |_| None,
        |record| {
            records.push(format!("{record:?}"));
            visit(record);
        },
    );
    result.expect("everything is in memory");
    records
}

/// Few names and numbers, so that they collide.
fn chunk() -> impl Strategy<Value = Chunk> {
    let client = prop_oneof![Just("a"), Just("b"), Just("gone")];
    let filter = prop_oneof![Just("t"), Just("#"), Just("$share/g/t"), Just("x/#/y"), Just("$as/json/t")];
    prop_oneof![
        (client.clone(), prop_oneof![Just(0u32), Just(60), Just(u32::MAX)], 0u64..3_000_000, any::<u16>())
            .prop_map(|(id, interval, at, last)| Chunk::Client(id, interval, at, last)),
        (0u64..6, prop_oneof![Just("t"), Just("u"), Just("+")], 0u8..4, any::<bool>())
            .prop_map(|(number, topic, qos, retain)| Chunk::Message(number, topic, qos, retain)),
        (client.clone(), 0u64..6, 0u16..5, (0u8..4, 0u8..13, 0u8..18, 0u8..2)).prop_map(
            |(client, message, id, (qos, state, flags, way))| {
                Chunk::Delivery(client, message, id, [qos, state, flags, way])
            }
        ),
        (0u64..6).prop_map(Chunk::Retained),
        (client, filter, 0u32..3, 0u8..4, any::<u8>())
            .prop_map(|(client, filter, id, qos, options)| Chunk::Subscription(client, filter, id, qos, options)),
    ]
}

#[derive(Debug, Clone)]
enum Chunk {
    Client(&'static str, u32, u64, u16),
    Message(u64, &'static str, u8, bool),
    Delivery(&'static str, u64, u16, [u8; 4]),
    Retained(u64),
    Subscription(&'static str, &'static str, u32, u8, u8),
}

fn write(chunks: &[Chunk]) -> Vec<u8> {
    let mut file = Writer::new(6);
    for chunk in chunks {
        match chunk {
            Chunk::Client(id, interval, at, last) => file.client(id, *interval, *at, *last),
            Chunk::Message(number, topic, qos, retain) => {
                file.message(
                    *number,
                    topic,
                    b"payload",
                    MessageOptions { qos: *qos, retain: *retain, ..MessageOptions::default() },
                );
            }
            Chunk::Delivery(client, message, id, numbers) => file.delivery(client, *message, *id, *numbers, &[]),
            Chunk::Retained(number) => file.retained(*number),
            Chunk::Subscription(client, filter, id, qos, options) => {
                file.subscription(client, filter, *id, *qos, *options);
            }
        }
    }
    file.bytes
}

proptest! {
    #[test]
    fn any_chunks_give_a_consistent_state(chunks in prop::collection::vec(chunk(), 0..40)) {
        check(&write(&chunks));
    }

    #[test]
    fn changed_or_truncated_bytes_do_no_harm(
        chunks in prop::collection::vec(chunk(), 0..12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut file = write(&chunks);
        let len = file.len();
        for (at, byte) in changes {
            file[at.index(len)] = byte;
        }
        check(&file);
        check(&file[..end.index(len)]);
    }
}
