//! MQTT over WebSocket: section 6 of both versions, and the requirements of RFC 6455 for servers.

mod closing;
mod data_path;
mod frames;
mod handshake;

use tautwire_protocol::Packet;

use crate::support::websocket::{BINARY, FIN, WebSocket};
use crate::support::{AtMostOnce, Broker, Case, Client, OutgoingPublish, packet_id};

pub(super) const PINGREQ: [u8; 2] = [0xC0, 0];
pub(super) const PINGRESP: [u8; 2] = [0xD0, 0];

/// A connected WebSocket client.
pub(super) fn connected(broker: &Broker, case: Case, client_id: &str) -> WebSocket {
    let mut websocket = WebSocket::open(broker.websocket_address());
    websocket.send_frame(FIN | BINARY, &broker.connecting(case.version, client_id).bytes());
    assert_eq!(websocket.expect_binary()[0], 0x20);
    websocket
}

/// A PUBLISH at QoS 0, in the version of `client`.
pub(super) fn publish(client: &Client, topic: &str, payload: &[u8]) -> Vec<u8> {
    client.encoded(&Packet::Publish(OutgoingPublish::new(topic, AtMostOnce, payload).publish(packet_id(1))))
}

/// Checks that a WebSocket is served.
#[track_caller]
pub(super) fn ping(websocket: &mut WebSocket) {
    websocket.send_frame(FIN | BINARY, &PINGREQ);
    assert_eq!(websocket.expect_binary(), PINGRESP);
}
