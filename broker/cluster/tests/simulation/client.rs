//! Clients that publish, lose their connections and return, as MQTT requires.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU16;

use tautwire_cluster::names::Partition;
use tautwire_cluster::record::Place;

use crate::engine::ConnectionId;
use crate::ledger::{Ledger, Message};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FromClient {
    Connect {
        client: usize,
        is_clean: bool,
        terms: DisconnectOptions,
    },
    Publish {
        packet_id: NonZeroU16,
        topic: u8,
        is_once: bool,
        retain: u8,
        number: u64,
    },
    /// Without its will [MQTT-3.14.4-3].
    Disconnect,
    Release(NonZeroU16),
    Subscribe {
        topics: u8,
        is_member: bool,
    },
    /// PUBACK or PUBREC.
    Got(NonZeroU16),
    /// PUBCOMP.
    Completed(NonZeroU16),
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToClient {
    Connected {
        is_present: bool,
    },
    Acknowledged(NonZeroU16),
    Received(NonZeroU16),
    /// PUBACK or PUBREC with an error.
    Refused(NonZeroU16),
    Completed(NonZeroU16),
    Subscribed,
    /// Whether it is QoS 2 follows from the message.
    Deliver {
        packet_id: NonZeroU16,
        partition: Partition,
        place: Place,
        message: Message,
        is_shared: bool,
    },
    /// PUBREL.
    Release(NonZeroU16),
    Closed,
}

/// The settings of a client for the time after it disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DisconnectOptions {
    pub(crate) expiry_s: Option<u32>,
    /// The will's number, delay in seconds, topic, and retain mode.
    pub(crate) will: Option<(u64, u32, u8, u8)>,
}

/// Messages that a client has in flight.
pub(crate) const WINDOW: usize = 4;
pub(crate) const TOPICS: u64 = 3;

#[derive(Default)]
pub(crate) struct Client {
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) is_connected: bool,
    pub(crate) is_clean: bool,
    has_session: bool,
    expiry_s: Option<u32>,
    /// The time of the last packet, or of the connection.
    pub(crate) heard_at_ms: u64,
    /// It does not reconnect before this time.
    pub(crate) offline_until_ms: u64,
    pub(crate) last_will: u64,
    last_number: u64,
    in_flight: VecDeque<InFlight>,
    /// Messages published on this connection and not answered, in order.
    unanswered: VecDeque<NonZeroU16>,
    /// Its topics, as a bit mask.
    pub(crate) topics: u8,
    /// It has a shared subscription, in some of its sessions.
    shares: bool,
    sessions: u64,
    pub(crate) is_member: bool,
    pub(crate) is_subscribed: bool,
    /// QoS 2 messages received from the broker and not released.
    received: BTreeSet<NonZeroU16>,
    /// Answers that the client delays.
    late: Vec<FromClient>,
}

struct InFlight {
    packet_id: NonZeroU16,
    topic: u8,
    is_once: bool,
    retain: u8,
    number: u64,
    is_received: bool,
}

impl InFlight {
    fn packet(&self) -> FromClient {
        let InFlight { packet_id, topic, is_once, retain, number, .. } = *self;
        if self.is_received {
            FromClient::Release(packet_id)
        } else {
            FromClient::Publish { packet_id, topic, is_once, retain, number }
        }
    }
}

impl Client {
    pub(crate) fn new(topics: u8, is_member: bool) -> Client {
        Client { topics, shares: is_member, is_member, ..Client::default() }
    }

    /// A client that has discarded its state starts clean until that has succeeded.
    pub(crate) fn connect(
        &mut self,
        client: usize,
        connection: ConnectionId,
        wants_clean: bool,
        terms: DisconnectOptions,
        now_ms: u64,
    ) -> FromClient {
        let is_clean = wants_clean || self.is_clean;
        self.connection = Some(connection);
        self.is_connected = false;
        self.is_clean = is_clean;
        self.heard_at_ms = now_ms;
        self.expiry_s = terms.expiry_s;
        if is_clean {
            self.in_flight.clear();
            self.received.clear();
            self.is_subscribed = false;
        }
        // Without an expiry interval, the session may end before the client learns of this connection.
        self.has_session &= !is_clean && terms.expiry_s != Some(0);
        FromClient::Connect { client, is_clean, terms }
    }

    /// Its session has ended, on the client as well as in the cluster [MQTT-4.1.0-2].
    pub(crate) fn forget(&mut self) {
        self.in_flight.clear();
        self.received.clear();
        self.has_session = false;
        self.is_subscribed = false;
    }

    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
        self.is_connected = false;
        self.late.clear();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns the next message, if the window has space.
    pub(crate) fn publish(&mut self, topic: u8, is_once: bool, retain: u8) -> Option<FromClient> {
        if self.in_flight.len() >= WINDOW {
            return None;
        }
        // The lowest free one, so that identifiers are reused soon.
        let packet_id =
            (1..).filter_map(NonZeroU16::new).find(|id| self.in_flight.iter().all(|one| one.packet_id != *id))?;
        self.last_number += 1;
        let message = InFlight { packet_id, topic, is_once, retain, number: self.last_number, is_received: false };
        let packet = message.packet();
        self.in_flight.push_back(message);
        self.unanswered.push_back(packet_id);
        Some(packet)
    }

    /// Returns the delayed answers.
    pub(crate) fn late_answers(&mut self) -> Vec<FromClient> {
        std::mem::take(&mut self.late)
    }

    pub(crate) fn receive(
        &mut self,
        client: usize,
        packet: ToClient,
        now_ms: u64,
        ledger: &mut Ledger,
    ) -> Vec<FromClient> {
        self.heard_at_ms = now_ms;
        match packet {
            ToClient::Closed => {
                self.disconnect();
                Vec::new()
            }
            ToClient::Connected { is_present } => {
                let has_ended = ledger.sessions.ended.remove(&client);
                assert!(is_present || self.is_clean || !self.has_session || has_ended, "the session is lost");
                assert!(!is_present || !self.is_clean, "the session exists");
                // The existing session may be that of a connection that this client gave up before CONNACK.
                if !is_present || has_ended {
                    self.in_flight.clear();
                    self.received.clear();
                    self.is_subscribed = false;
                    self.sessions += 1;
                    self.is_member = self.shares && !self.sessions.is_multiple_of(3);
                    ledger.session_is_new(client);
                }
                self.is_connected = true;
                self.has_session = self.expiry_s != Some(0);
                self.is_clean = false;
                // All incomplete messages are sent again, in the same order [MQTT-4.4.0-1].
                self.unanswered =
                    self.in_flight.iter().filter(|one| !one.is_received).map(|one| one.packet_id).collect();
                let (topics, is_member) = (self.topics, self.is_member);
                let subscribe = (!self.is_subscribed).then_some(FromClient::Subscribe { topics, is_member });
                self.in_flight.iter().map(InFlight::packet).chain(subscribe).collect()
            }
            ToClient::Subscribed => {
                self.is_subscribed = true;
                ledger.subscribed(client, self.topics, self.is_member);
                Vec::new()
            }
            ToClient::Deliver { packet_id, partition, place, message, is_shared: true } => {
                ledger.shared(partition, place, &message);
                vec![FromClient::Got(packet_id)]
            }
            ToClient::Deliver { packet_id, partition, place, message, .. } => {
                let is_new = !message.is_once || self.received.insert(packet_id);
                let connection = self.connection.unwrap_or_default();
                ledger.delivered(client, connection, partition, place, &message, is_new);
                if message.number % 4 == 0 {
                    self.late.push(FromClient::Got(packet_id));
                    return Vec::new();
                }
                vec![FromClient::Got(packet_id)]
            }
            ToClient::Release(packet_id) => {
                self.received.remove(&packet_id);
                vec![FromClient::Completed(packet_id)]
            }
            ToClient::Acknowledged(packet_id) => {
                self.answered(packet_id);
                self.in_flight.retain(|one| one.packet_id != packet_id);
                ledger.tally.done += 1;
                Vec::new()
            }
            ToClient::Refused(packet_id) => {
                self.answered(packet_id);
                self.in_flight.retain(|one| one.packet_id != packet_id);
                Vec::new()
            }
            ToClient::Received(packet_id) => {
                self.answered(packet_id);
                let one = self.in_flight.iter_mut().find(|one| one.packet_id == packet_id).expect("it is in flight");
                one.is_received = true;
                vec![one.packet()]
            }
            ToClient::Completed(packet_id) => {
                self.in_flight.retain(|one| one.packet_id != packet_id);
                ledger.tally.done_once += 1;
                Vec::new()
            }
        }
    }

    /// Answers arrive in the order of the messages [MQTT-4.6.0-2].
    fn answered(&mut self, packet_id: NonZeroU16) {
        assert_eq!(self.unanswered.pop_front(), Some(packet_id), "answers are out of order");
    }
}
