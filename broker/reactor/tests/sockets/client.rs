//! A minimal client.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tautwire_engine::Settings;
use tautwire_protocol::{
    Connect, DecodeOptions, Delivery, OwnedPacket, Packet, PacketId, Properties, ProtocolVersion, PubAck, Publish, QoS,
    Subscribe, SubscriptionOptions, SubscriptionRequest, TopicFilter, TopicName, decode,
};
use tautwire_reactor::{AcceptOptions, Broker, ListenerConfig};
use tautwire_router::RetainedLimits;
use tautwire_session::AckLevel;

/// Longer than anything here may take. A test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A broker that is stopped at the end of the test. Create it before its clients, so that they are dropped first and need not be
/// waited for.
pub(crate) struct Running(Option<Broker>);

impl Deref for Running {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        self.0.as_ref().expect("it runs until it is stopped")
    }
}

impl Running {
    pub(crate) fn stop(mut self) {
        if let Some(broker) = self.0.take() {
            broker.stop();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(broker) = self.0.take() {
            broker.stop();
        }
    }
}

pub(crate) fn start(settings: Settings, threads: usize) -> Running {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let retained = RetainedLimits { messages: 100_000, bytes: 100 << 20 };
    let broker = Broker::start(
        settings,
        retained,
        Arc::default(),
        AcceptOptions::open(&[ListenerConfig::plain(address, AckLevel::default())]),
        threads,
        None,
    );
    Running(Some(broker.expect("the broker starts on a port chosen by the kernel")))
}

/// Without `$SYS` topics, nothing wakes a thread by chance.
pub(crate) fn quiet() -> Settings {
    Settings { sys_interval_s: 0, ..Settings::default() }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) struct Client {
    stream: TcpStream,
    version: ProtocolVersion,
    input: Vec<u8>,
}

impl Client {
    /// Connects with a session that ends with the connection.
    pub(crate) fn connect(broker: &Broker, id: &str) -> Client {
        let mut client = Client::open(broker, ProtocolVersion::V5);
        client.write(&connect_bytes(id, ProtocolVersion::V5));
        client.expect_connack();
        client
    }

    pub(crate) fn open(broker: &Broker, version: ProtocolVersion) -> Client {
        let stream = TcpStream::connect(broker.addresses()[0]).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes options");
        Client { stream, version, input: Vec::new() }
    }

    /// Returns the same connection, for writing while this one reads.
    pub(crate) fn second_hand(&self) -> Client {
        let stream = self.stream.try_clone().expect("a socket can be shared");
        Client { stream, version: self.version, input: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the broker reads");
    }

    /// Disables `TCP_NODELAY`, as for sockets where it is not set.
    pub(crate) fn delay_small_packets(&self) {
        self.stream.set_nodelay(false).expect("a socket takes options");
    }

    pub(crate) fn finish_writing(&self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }

    pub(crate) fn expect_connack(&mut self) {
        let packet = self.next().expect("the broker answers");
        let Packet::ConnAck(connack) = packet.as_packet() else { panic!("{packet:?}") };
        assert!(!connack.reason.is_error(), "{connack:?}");
    }

    /// Returns the next packet, or `None` if the connection has ended.
    pub(crate) fn next(&mut self) -> Option<OwnedPacket> {
        loop {
            match decode(&self.input, &DecodeOptions::new(self.version)) {
                Ok((packet, length)) => {
                    let owned = packet.to_owned_packet().expect("decoded records are valid");
                    self.input.drain(..length);
                    return Some(owned);
                }
                Err(error) => assert!(error.is_incomplete(), "the broker sent {error}"),
            }
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                // With a timeout, the kernel does not restart the call by itself.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the broker writes or closes in time: {error}"),
            }
        }
    }

    /// Returns the payload of the next message; acknowledges a QoS 1 message.
    pub(crate) fn next_payload(&mut self) -> Vec<u8> {
        self.next_message().1
    }

    /// Returns topic and payload of the next message; acknowledges a QoS 1 message.
    pub(crate) fn next_message(&mut self) -> (String, Vec<u8>) {
        let packet = self.next().expect("the connection is open");
        let Packet::Publish(publish) = packet.as_packet() else { panic!("{packet:?}") };
        let topic = publish.topic.expect("we accept no aliases").as_str().to_owned();
        let payload = publish.payload.to_vec();
        if let Some(packet_id) = publish.packet_id() {
            self.write_packet(&Packet::PubAck(PubAck::success(packet_id)));
        }
        (topic, payload)
    }

    pub(crate) fn write_packet(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("our packets are valid");
        self.write(&bytes);
    }

    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) {
        let filter = TopicFilter::new(filter).expect("our filters are valid");
        let requests = [SubscriptionRequest { filter, options: SubscriptionOptions::with_qos(qos) }];
        self.write_packet(&Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(1).expect("not zero"),
            properties: Properties::EMPTY,
            requests: (&requests[..]).into(),
        }));
        let packet = self.next().expect("the broker answers");
        assert!(matches!(packet.as_packet(), Packet::SubAck(_)), "{packet:?}");
    }
}

pub(crate) fn connect_bytes(id: &str, version: ProtocolVersion) -> Vec<u8> {
    let connect = Connect {
        version,
        clean_start: true,
        keep_alive_s: 0,
        client_id: id,
        will: None,
        user_name: None,
        password: None,
        properties: Properties::EMPTY,
    };
    let mut bytes = Vec::new();
    connect.append_to(version, &mut bytes).expect("our CONNECT is valid");
    bytes
}

/// Encodes a PUBLISH of MQTT 5.0, with QoS 1 if there is a Packet Identifier.
pub(crate) fn publish_bytes(topic: &str, packet_id: Option<u16>, retain: bool, payload: &[u8]) -> Vec<u8> {
    let delivery = match packet_id.and_then(PacketId::new) {
        Some(packet_id) => Delivery::AtLeastOnce { packet_id, dup: false },
        None => Delivery::AtMostOnce,
    };
    let publish =
        Publish { delivery, retain, topic: TopicName::new(topic).ok(), properties: Properties::EMPTY, payload };
    let mut bytes = Vec::new();
    publish.append_to(ProtocolVersion::V5, &mut bytes).expect("our PUBLISH is valid");
    bytes
}

/// Returns bytes that reveal missing, duplicated or misplaced parts.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(97)) as u8).collect()
}
