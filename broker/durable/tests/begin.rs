//! Tests creating a log with a state.

use tautwire_durable::{Inspection, create_log_with};
use tautwire_journal::disk::FaultyDisk;
use tautwire_journal::{Epoch, LogError, LogId};
use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::QoS;
use tautwire_session::{Change, Record, Replay, RetainedChange, SessionNumber};

fn epochs(first: u64) -> [Epoch; 2] {
    [first, first + 1].map(|number| Epoch::new(number).expect("not 0"))
}

fn state() -> Replay {
    let mut state = Replay::default();
    let session = SessionNumber(4);
    let message = MessageRef {
        id: MessageId { run: 1, number: 1 },
        topic: "t",
        properties: &[],
        payload: &[7; 9_000],
        qos: QoS::AtLeastOnce,
        retain: true,
        expires_at_ms: None,
    };
    let change = RetainedChange::Set(message.to_message());
    let records = [
        Record::Opened { session, client_id: "c", at_ms: 0 },
        Record::Changed { session, change: &Change::ExpiryInterval(60), packet_id: None },
        Record::Left { session, at_ms: 500 },
        Record::Retained { sequence: 3, change: &change },
    ];
    records.iter().for_each(|record| state.apply(record).expect("fits"));
    state
}

#[test]
fn a_log_created_from_a_state_contains_it_and_is_closed() {
    for state in [Replay::default(), state()] {
        let disk = FaultyDisk::new(1);
        create_log_with(&disk, &state, LogId(7), epochs(1), 1_000).expect("no faults");
        let found = Inspection::of(&disk, false).expect("exists");
        assert!(found.is_whole() && found.end.closed && found.end.torn.is_none(), "{found:?}");
        assert_eq!((found.frames, found.snapshot.written_at_ms), (0, 1_000), "all is in the snapshot");
        assert_eq!(found.state, state);
    }
}

#[test]
fn an_existing_log_is_not_replaced() {
    let disk = FaultyDisk::new(1);
    create_log_with(&disk, &state(), LogId(7), epochs(1), 1_000).expect("no faults");
    let again = create_log_with(&disk, &Replay::default(), LogId(8), epochs(3), 2_000);
    assert!(matches!(again, Err(LogError::Settings(_))), "{again:?}");
    assert_eq!(Inspection::of(&disk, false).expect("exists").state, state());
}
