//! A broker that sends exactly what a test specifies, to one client.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tautwire_protocol::{
    ConnAck, ConnectReason, DecodeOptions, OwnedPacket, Packet, Properties, Property, ProtocolVersion, decode,
};

/// Timeout of an expectation; only reached if a test fails.
const EXPECT_TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) struct ScriptedBroker {
    listener: TcpListener,
}

/// The connection of the client under test.
pub(crate) struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
    version: ProtocolVersion,
}

impl ScriptedBroker {
    pub(crate) fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").expect("binds") }
    }

    pub(crate) fn port(&self) -> String {
        self.listener.local_addr().expect("an address").port().to_string()
    }

    /// The next client, up to its CONNECT.
    pub(crate) fn accept(&self, version: ProtocolVersion) -> Peer {
        let (stream, _) = self.listener.accept().expect("a client");
        stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("sets");
        let mut peer = Peer { stream, received: Vec::new(), version };
        assert!(matches!(peer.packet().as_packet(), Packet::Connect(_)));
        peer
    }

    /// The next client, connected.
    pub(crate) fn accept_with_connack(&self, properties: &[Property<'_>]) -> Peer {
        let mut peer = self.accept(ProtocolVersion::V5);
        peer.connack(ConnectReason::Success, properties);
        peer
    }
}

impl Peer {
    pub(crate) fn connack(&mut self, reason: ConnectReason, properties: &[Property<'_>]) {
        let properties = Properties::from_list(properties);
        self.send(&Packet::ConnAck(ConnAck { session_present: false, reason, properties }));
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("encodes");
        self.send_bytes(&bytes);
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("writes");
    }

    /// The client's next packet.
    pub(crate) fn packet(&mut self) -> OwnedPacket {
        self.next().expect("the client closed the connection")
    }

    /// Fails unless the client closes the connection without another packet.
    pub(crate) fn expect_close(&mut self) {
        assert_eq!(self.next().map(|packet| format!("{:?}", packet.as_packet())), None);
    }

    fn next(&mut self) -> Option<OwnedPacket> {
        loop {
            match decode(&self.received, &DecodeOptions::new(self.version)) {
                Ok((packet, consumed)) => {
                    let packet = packet.to_owned_packet().expect("is owned");
                    self.received.drain(..consumed);
                    return Some(packet);
                }
                Err(error) => assert!(error.is_incomplete(), "{error}"),
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                // With a timeout, the kernel does not restart the call.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("reads in time: {error}"),
            }
        }
    }
}
