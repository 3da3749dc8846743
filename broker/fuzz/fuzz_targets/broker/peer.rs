//! The peer of one connection: it may send anything, and checks the broker's packets.

use std::collections::{BTreeMap, BTreeSet};

use tautwire_protocol::{DecodeOptions, Packet, ProtocolVersion, QoS, decode};
use tautwire_session::Volatile;

use crate::support::{SimulatedBroker, SocketId};

pub(crate) struct Peer {
    socket: SocketId,
    sent: Vec<u8>,
    input: Vec<u8>,
    /// The fields of CONNECT, once it is complete.
    announced: Option<Announced>,
    is_cut: bool,
    has_connack: bool,
    /// Identifiers of messages on this connection that are not fully acknowledged.
    in_flight: BTreeMap<u16, QoS>,
    /// Identifiers whose exchange was completed before the message was read here.
    ended_ahead: BTreeSet<u16>,
}

#[derive(Clone, Copy)]
struct Announced {
    version: ProtocolVersion,
    receive_maximum: usize,
    maximum_packet_bytes: usize,
    topic_alias_maximum: u16,
}

impl Peer {
    pub(crate) fn new(socket: SocketId) -> Peer {
        Peer {
            socket,
            sent: Vec::new(),
            input: Vec::new(),
            announced: None,
            is_cut: false,
            has_connack: false,
            in_flight: BTreeMap::new(),
            ended_ahead: BTreeSet::new(),
        }
    }

    pub(crate) fn socket(&self) -> SocketId {
        self.socket
    }

    pub(crate) fn send(&mut self, broker: &mut SimulatedBroker<Volatile>, bytes: &[u8]) {
        if self.is_cut {
            return;
        }
        broker.send(self.socket, bytes);
        self.sent.extend_from_slice(bytes);
        self.note_sent();
    }

    /// Parses sent bytes as the broker does: CONNECT first, and packets that complete exchanges.
    fn note_sent(&mut self) {
        let mut at = 0;
        let version = self.announced.map_or(ProtocolVersion::V5, |announced| announced.version);
        while let Ok((packet, length)) = decode(&self.sent[at..], &DecodeOptions::new(version)) {
            at += length;
            match packet {
                Packet::Connect(connect) if self.announced.is_none() => {
                    let receive_maximum = connect.properties.receive_maximum().map_or(65_535, |maximum| maximum.get());
                    let maximum = connect.properties.maximum_packet_size().map_or(u32::MAX, |maximum| maximum.get());
                    self.announced = Some(Announced {
                        version: connect.version,
                        receive_maximum: receive_maximum.into(),
                        maximum_packet_bytes: maximum as usize,
                        topic_alias_maximum: connect.properties.topic_alias_maximum().unwrap_or(0),
                    });
                    self.sent.drain(..at);
                    return self.note_sent();
                }
                Packet::PubAck(ack) => self.end(ack.packet_id.get()),
                Packet::PubRec(ack) if ack.reason.is_error() => self.end(ack.packet_id.get()),
                Packet::PubComp(ack) => self.end(ack.packet_id.get()),
                _ => {}
            }
        }
        self.sent.drain(..at);
    }

    /// From now on the broker may reuse the identifier.
    fn end(&mut self, packet_id: u16) {
        if self.in_flight.remove(&packet_id).is_none() {
            self.ended_ahead.insert(packet_id);
        }
    }

    pub(crate) fn cut(&mut self, broker: &mut SimulatedBroker<Volatile>) {
        self.is_cut = true;
        broker.cut(self.socket);
    }

    /// Reads and checks received bytes.
    pub(crate) fn read(&mut self, broker: &mut SimulatedBroker<Volatile>, most: usize) {
        let bytes = broker.take(self.socket, most);
        self.input.extend_from_slice(&bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while at < input.len() {
            let length = match self.announced {
                Some(announced) => self.check(&input[at..], announced),
                None => check_refusal(&input[at..]),
            };
            let Some(length) = length else { break };
            at += length;
        }
        self.input = input[at..].to_vec();
    }

    /// Checks the packet at the start of `bytes`; `None` while it is incomplete.
    fn check(&mut self, bytes: &[u8], announced: Announced) -> Option<usize> {
        let options = DecodeOptions::new(announced.version);
        let (packet, length) = match decode(bytes, &options) {
            Ok(decoded) => decoded,
            Err(error) if error.is_incomplete() => return None,
            Err(error) => panic!("the broker sent {error}: {bytes:02x?}"),
        };
        if announced.version.is_v5() {
            assert!(length <= announced.maximum_packet_bytes, "{length} bytes of {packet:?}");
        }
        assert_eq!(matches!(packet, Packet::ConnAck(_)), !self.has_connack, "CONNACK comes first and once: {packet:?}");
        self.has_connack = true;
        match packet {
            Packet::Publish(publish) => {
                let alias = publish.properties.topic_alias().map_or(0, |alias| alias.get());
                assert!(alias <= announced.topic_alias_maximum, "topic alias {alias}");
                if let Some(packet_id) = publish.packet_id()
                    && !self.ended_ahead.remove(&packet_id.get())
                {
                    let held = self.in_flight.insert(packet_id.get(), publish.qos());
                    assert!(held.is_none(), "identifier {} is in use", packet_id.get());
                    assert!(self.in_flight.len() <= announced.receive_maximum, "{} in flight", self.in_flight.len());
                }
            }
            Packet::Connect(_) | Packet::Subscribe(_) | Packet::Unsubscribe(_) | Packet::PingReq | Packet::Auth(_) => {
                panic!("{packet:?} from a server")
            }
            _ => {}
        }
        Some(length)
    }
}

/// Before a CONNECT that can be decoded, only a CONNACK with a refusal is allowed, in any version.
fn check_refusal(bytes: &[u8]) -> Option<usize> {
    let versions = [ProtocolVersion::V5, ProtocolVersion::V3_1_1];
    let decoded = versions.into_iter().find_map(|version| decode(bytes, &DecodeOptions::new(version)).ok());
    let (packet, length) = decoded?;
    let Packet::ConnAck(connack) = packet else { panic!("{packet:?} before CONNECT") };
    assert!(connack.reason.is_error(), "{connack:?} without CONNECT");
    Some(length)
}
