//! Compares a session with a simple model over long random histories, and with a replay of its changes.

use std::collections::VecDeque;

use tautwire_message::MessageRef;
use tautwire_protocol::{PacketId, QoS, SubscriptionOptions};
use tautwire_session::{Change, PendingMessage, Resend, Session, StoredWill, SubscriptionIds, SubscriptionRecord};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Messages in flight in the order of sending, and queued messages.
#[derive(Default, Clone)]
struct Model {
    started: Vec<Started>,
    queue: VecDeque<u32>,
}

#[derive(Clone)]
struct Started {
    id: PacketId,
    number: u32,
    released: bool,
    /// Sent on the present connection.
    sent: bool,
}

fn delivery(number: u32) -> PendingMessage {
    let message = MessageRef {
        id: tautwire_message::MessageId::NONE,
        topic: "t",
        properties: &[],
        payload: &number.to_le_bytes(),
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

fn number_of(delivery: &PendingMessage) -> u32 {
    delivery.message.loaded().expect("in memory").payload().try_into().map(u32::from_le_bytes).expect("four bytes")
}

struct Life {
    session: Session,
    model: Model,
    changes: Vec<Change>,
    next_number: u32,
}

impl Life {
    fn new() -> Life {
        Life { session: Session::new("c"), model: Model::default(), changes: Vec::new(), next_number: 0 }
    }

    fn apply(&mut self, change: Change) {
        self.changes.push(change.clone());
        self.session.apply(change);
    }

    fn next_id(&self) -> Option<PacketId> {
        self.session.next_packet_id()
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    fn start(&mut self) {
        if self.model.started.iter().any(|started| !started.sent) {
            return;
        }
        self.resend();
        let Some(id) = self.next_id() else { return };
        assert!(self.model.started.iter().all(|started| started.id != id), "{id:?} is in use");
        let number = match self.model.queue.pop_front() {
            Some(number) => {
                self.apply(Change::StartedQueued);
                number
            }
            None => {
                let number = self.number();
                self.apply(Change::Started(delivery(number)));
                number
            }
        };
        self.model.started.push(Started { id, number, released: false, sent: true });
    }

    fn queue(&mut self) {
        let number = self.number();
        self.model.queue.push_back(number);
        self.apply(Change::Queued(delivery(number)));
    }

    fn withdraw(&mut self) {
        self.model.queue.pop_front();
        self.apply(Change::Unqueued);
    }

    fn receive(&mut self, at: usize) {
        self.model.started[at].released = true;
        let id = self.model.started[at].id;
        self.apply(Change::Received(id));
    }

    fn complete(&mut self, at: usize) {
        let id = self.model.started.remove(at).id;
        self.apply(Change::Completed(id));
    }

    fn rewind(&mut self) {
        self.model.started.iter_mut().for_each(|started| started.sent = false);
        if let Some(outbound) = self.session.outbound_mut() {
            outbound.rewind();
        }
    }

    fn resend(&mut self) {
        let expected = self.model.started.iter_mut().find(|started| !started.sent);
        let resent = self.session.outbound_mut().and_then(|outbound| outbound.resend());
        match (expected, resent) {
            (None, None) => {}
            (Some(expected), Some(Resend::Publish(id, delivery))) => {
                assert_eq!((id, number_of(delivery), false), (expected.id, expected.number, expected.released));
                expected.sent = true;
            }
            (Some(expected), Some(Resend::Release(id))) => {
                assert_eq!((id, true), (expected.id, expected.released));
                expected.sent = true;
            }
            (expected, resent) => panic!("{resent:?} for message {:?}", expected.map(|expected| expected.number)),
        }
    }

    fn check(&self) {
        let Some(outbound) = self.session.outbound() else {
            assert!(self.model.started.is_empty() && self.model.queue.is_empty());
            return;
        };
        assert_eq!(outbound.in_flight(), self.model.started.iter().filter(|started| started.sent).count());
        // Whether a completed message may be skipped on resend is visible only at the next resend.
        assert!(!outbound.is_resent() || self.model.started.iter().all(|started| started.sent));
        assert_eq!(outbound.is_empty(), self.model.started.is_empty() && self.model.queue.is_empty());
        assert_eq!(outbound.queued(), self.model.queue.len());
        assert_eq!(outbound.front().map(number_of), self.model.queue.front().copied());
    }

    fn check_each(&self) {
        let Some(outbound) = self.session.outbound() else { return };
        for started in &self.model.started {
            assert_eq!(outbound.is_released(started.id), started.released);
            assert_eq!(
                outbound.unacknowledged(started.id).map(number_of),
                (!started.released).then_some(started.number)
            );
        }
        assert!(outbound.in_flight() <= self.model.started.len());
    }

    /// The changes alone give the same session, and so do those that describe it.
    fn check_replay(self) {
        let mut replayed = Session::new("c");
        for change in &self.changes {
            replayed.apply(change.clone());
        }
        let mut described = Session::new("c");
        self.session.describe(|change, packet_id| {
            assert!(packet_id.is_none() || described.next_packet_id() == packet_id, "{change:?} assigns {packet_id:?}");
            described.apply(change.clone());
        });
        self.check_same(replayed);
        self.check_same(described);
    }

    /// Checks that `session` behaves like this one.
    fn check_same(&self, session: Session) {
        let mut second = Life { session, model: self.model.clone(), ..Life::new() };
        second.rewind();
        second.check();
        second.check_each();
        assert_eq!(second.next_id(), self.next_id(), "identifiers go on where they were");
        for _ in 0..=second.model.started.len() {
            second.resend();
        }
        while !second.model.queue.is_empty() {
            second.start();
        }
        second.check_each();
    }
}

/// Runs one history. `laziness` is the percentage of messages that stay unacknowledged for long.
fn live(seed: u64, steps: usize, laziness: usize) {
    let mut random = Random(seed);
    let mut life = Life::new();
    for step in 0..steps {
        let started = life.model.started.len();
        match random.below(100) {
            0..=39 => life.start(),
            40..=44 => life.queue(),
            45..=46 if !life.model.queue.is_empty() => life.withdraw(),
            // Acknowledgements are mostly for the newest message, sometimes for an old one.
            47..=89 if started > 0 && random.below(100) >= laziness => {
                let recent = random.below(started.min(4));
                let at = if random.below(50) == 0 { random.below(started) } else { started - 1 - recent };
                if life.model.started[at].released || random.below(2) == 0 {
                    life.complete(at);
                } else {
                    life.receive(at);
                }
            }
            90 if life.model.started.is_empty() || random.below(40) == 0 => {
                life.rewind();
                life.session.shrink();
            }
            91..=99 => life.resend(),
            _ => {}
        }
        if step.is_multiple_of(8) {
            life.check();
        }
        if step.is_multiple_of(997) {
            life.check_each();
        }
    }
    life.check_each();
    life.check_replay();
}

#[test]
fn random_sessions_agree_with_the_model_and_can_be_replayed() {
    for seed in 0..60 {
        live(seed, 3_000, [0, 30, 95][seed as usize % 3]);
    }
}

/// Old messages stay while the identifiers wrap around more than once.
#[test]
fn long_sessions_with_stragglers_agree_with_the_model() {
    live(1_000, 250_000, 10);
}

/// A few messages stay unacknowledged while others are sent one at a time, so that the window is nearly empty.
#[test]
fn stragglers_keep_their_identifiers_while_others_wrap_around() {
    let mut life = Life::new();
    for _ in 0..3 {
        life.start();
    }
    for step in 0..150_000 {
        life.start();
        if step % 5_000 == 17 {
            // This one stays too, for a while.
            continue;
        }
        life.complete(life.model.started.len() - 1);
        if step % 40_000 == 39_999 {
            life.complete(1);
            life.rewind();
            while life.model.started.iter().any(|started| !started.sent) {
                life.resend();
            }
        }
        life.check();
    }
    life.check_each();
    life.check_replay();
}

fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).expect("it is not 0")
}

/// State other than outbound messages is described too.
#[test]
fn a_session_is_described_completely() {
    let mut session = Session::new("c");
    let will = StoredWill {
        message: delivery(1).message.loaded().cloned().expect("in memory"),
        delay_s: 5,
        message_expiry_s: Some(9),
    };
    let record = SubscriptionRecord { options: SubscriptionOptions::default(), identifier: None, format: None };
    let changes = [
        Change::ExpiryInterval(60),
        Change::Will(Some(Box::new(will))),
        Change::Subscribed("a/#".into(), record),
        Change::Subscribed("b".into(), record),
        Change::Taken(packet_id(1)),
        Change::Taken(packet_id(65_535)),
    ];
    for change in &changes {
        session.apply(change.clone());
    }
    let mut described = Vec::new();
    session.describe(|change, packet_id| described.push((change.clone(), packet_id)));
    assert_eq!(described, changes.map(|change| (change, None)));
}
