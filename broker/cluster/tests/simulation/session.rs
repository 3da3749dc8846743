//! A model of a shard's session: its subscriptions, its window, and its encoding.

use std::num::NonZeroU16;

use tautwire_cluster::Sequence;
use tautwire_cluster::names::Partition;
use tautwire_cluster::record::{Cursors, Place};

use crate::client::ToClient;
use crate::ledger::Message;

/// The number of messages that a client receives before it acknowledges one.
pub(crate) const RECEIVE_MAX: usize = 3;

pub(crate) struct Session {
    pub(crate) client: usize,
    /// Stands for the whole state of the session, and increases with each change.
    pub(crate) number: u64,
    /// Its topics, as a bit mask.
    pub(crate) topics: u8,
    /// It is a member of the group, and the group's record contains it.
    pub(crate) is_member: bool,
    pub(crate) has_joined: bool,
    /// The number of the state that contains the subscription.
    subscribing: Option<u64>,
    window: Vec<Flight>,
    last_packet_id: u16,
    pub(crate) outgoing: Vec<ToClient>,
    /// The state has changed and must be saved.
    pub(crate) is_changed: bool,
}

struct Flight {
    packet_id: NonZeroU16,
    partition: Partition,
    place: Place,
    is_once: bool,
    is_shared: bool,
    step: Step,
}

/// What a client has acknowledged.
pub(crate) struct Done {
    pub(crate) partition: Partition,
    pub(crate) place: Place,
    pub(crate) is_shared: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Sent once the state with this number is saved.
    Saving(u64, Message),
    /// Its content must still be read.
    Unread,
    Sent,
    /// PUBREC was received; PUBREL is sent once the state with this number is saved.
    Receiving(u64),
    Released,
}

impl Session {
    pub(crate) fn new(client: usize) -> Session {
        Session {
            client,
            number: 0,
            topics: 0,
            is_member: false,
            has_joined: false,
            subscribing: None,
            window: Vec::new(),
            last_packet_id: 0,
            outgoing: Vec::new(),
            is_changed: false,
        }
    }

    pub(crate) fn unblock(&self) -> bool {
        self.window.len() < RECEIVE_MAX
    }

    pub(crate) fn is_half_empty(&self) -> bool {
        self.window.len() <= RECEIVE_MAX / 2
    }

    pub(crate) fn wants(&self, message: &Message) -> bool {
        self.topics & 1 << message.topic != 0
    }

    pub(crate) fn subscribe(&mut self, topics: u8, is_member: bool) {
        (self.topics, self.is_member) = (topics, is_member);
        self.subscribing = Some(self.number + 1);
        self.is_changed = true;
    }

    /// A message is sent to the client. QoS 2 waits for the record.
    pub(crate) fn start(&mut self, partition: Partition, place: Place, message: Message, is_shared: bool) {
        let packet_id = self.free_packet_id();
        let is_once = message.is_once && !is_shared;
        let mut flight = Flight { packet_id, partition, place, is_once, is_shared, step: Step::Sent };
        if is_once {
            flight.step = Step::Saving(self.number + 1, message);
            self.is_changed = true;
        } else {
            self.outgoing.push(ToClient::Deliver { packet_id, partition, place, message, is_shared });
        }
        self.window.push(flight);
    }

    fn free_packet_id(&mut self) -> NonZeroU16 {
        loop {
            self.last_packet_id = self.last_packet_id.wrapping_add(1);
            if let Some(id) = NonZeroU16::new(self.last_packet_id)
                && self.window.iter().all(|flight| flight.packet_id != id)
            {
                return id;
            }
        }
    }

    /// A message that was open when the session was resumed here was read.
    pub(crate) fn send_again(&mut self, partition: Partition, place: Place, message: Message) {
        let flight = self.window.iter_mut().find(|flight| flight.partition == partition && flight.place == place);
        let flight = flight.expect("open messages are in the window");
        assert!(flight.step == Step::Unread, "it is sent again once");
        flight.step = Step::Sent;
        let packet_id = flight.packet_id;
        self.outgoing.push(ToClient::Deliver { packet_id, partition, place, message, is_shared: false });
    }

    /// Messages of the group that have not been acknowledged.
    pub(crate) fn shared(&self) -> impl Iterator<Item = (Partition, Place)> {
        self.window.iter().filter(|flight| flight.is_shared).map(|flight| (flight.partition, flight.place))
    }

    /// Handles PUBACK or PUBREC. Returns the completed position.
    pub(crate) fn acknowledged(&mut self, packet_id: NonZeroU16) -> Option<Done> {
        let at = self.window.iter().position(|flight| flight.packet_id == packet_id)?;
        let Flight { partition, place, is_once, is_shared, step, .. } = self.window[at];
        // A late answer to a message that was sent before the session was resumed here.
        if step != Step::Sent {
            return None;
        }
        if is_once {
            self.window[at].step = Step::Receiving(self.number + 1);
            self.is_changed = true;
        } else {
            self.window.remove(at);
        }
        Some(Done { partition, place, is_shared })
    }

    /// PUBCOMP.
    pub(crate) fn completed(&mut self, packet_id: NonZeroU16) {
        self.window.retain(|flight| flight.packet_id != packet_id || flight.step != Step::Released);
    }

    /// The state with this number is persisted.
    pub(crate) fn saved(&mut self, number: u64) {
        if self.has_joined == self.is_member && self.subscribing.take_if(|at| *at <= number).is_some() {
            self.outgoing.push(ToClient::Subscribed);
        }
        for flight in &mut self.window {
            let Flight { packet_id, partition, place, .. } = *flight;
            match flight.step {
                Step::Saving(at, message) if at <= number => {
                    flight.step = Step::Sent;
                    self.outgoing.push(ToClient::Deliver { packet_id, partition, place, message, is_shared: false });
                }
                Step::Receiving(at) if at <= number => {
                    flight.step = Step::Released;
                    self.outgoing.push(ToClient::Release(packet_id));
                }
                _ => {}
            }
        }
    }

    /// Encodes the state, with the next number.
    pub(crate) fn encode(&mut self, cursors: &Cursors) -> Vec<u8> {
        self.number += 1;
        self.is_changed = false;
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.push(self.topics | u8::from(self.is_member) << 7);
        bytes.extend(self.last_packet_id.to_le_bytes());
        let window = self.window.iter().filter(|flight| !flight.is_shared);
        bytes.push(window.clone().count() as u8);
        for flight in window {
            bytes.extend(flight.packet_id.get().to_le_bytes());
            bytes.push(flight.partition.index() as u8);
            bytes.extend(flight.place.sequence.0.to_le_bytes());
            bytes.extend(flight.place.index.to_le_bytes());
            let is_released = matches!(flight.step, Step::Receiving(_) | Step::Released);
            bytes.extend([u8::from(flight.is_once), u8::from(is_released)]);
        }
        bytes.extend(cursors.encode());
        bytes
    }

    /// Decodes the state. Open messages must be sent again, and so must PUBREL.
    pub(crate) fn decode(client: usize, bytes: &[u8]) -> (Session, Cursors) {
        let mut session = Session::new(client);
        let (head, mut rest) = bytes.split_at(12);
        session.number = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        (session.topics, session.is_member) = (head[8] & 0x7f, head[8] & 0x80 != 0);
        session.last_packet_id = u16::from_le_bytes([head[9], head[10]]);
        for _ in 0..head[11] {
            let (flight, behind) = rest.split_at(17);
            rest = behind;
            let packet_id = NonZeroU16::new(u16::from_le_bytes([flight[0], flight[1]])).expect("not 0");
            let partition = Partition::new(flight[2]).expect("exists");
            let sequence = Sequence(u64::from_le_bytes(flight[3..11].try_into().expect("eight bytes")));
            let place = Place { sequence, index: u32::from_le_bytes(flight[11..15].try_into().expect("four bytes")) };
            let is_released = flight[16] == 1;
            if is_released {
                session.outgoing.push(ToClient::Release(packet_id));
            }
            let step = if is_released { Step::Released } else { Step::Unread };
            session.window.push(Flight {
                packet_id,
                partition,
                place,
                is_once: flight[15] == 1,
                is_shared: false,
                step,
            });
        }
        (session, Cursors::decode(rest).expect("cursors"))
    }

    /// Whether an encoded state is that of a member.
    pub(crate) fn is_member_of(bytes: &[u8]) -> bool {
        bytes.get(8).is_some_and(|flags| flags & 0x80 != 0)
    }

    /// Returns the number of an encoded state.
    pub(crate) fn number_of(bytes: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
    }
}
