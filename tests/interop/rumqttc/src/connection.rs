//! The options, messages and events of a connection, the same for both of rumqttc's clients.

use rumqttc::v5::mqttbytes::v5::{ConnAckProperties, ConnectProperties, LastWillProperties, PublishProperties};

/// The payload of every will.
pub const WILL_PAYLOAD: &str = "gone";

/// rumqttc refuses packets beyond its limit, which by default is far below the large payload.
pub const MAXIMUM_PACKET_SIZE_BYTES: u32 = 2 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    V3,
    V5,
}

/// Options of a connection; the default is a clean session with an identifier of its own.
#[derive(Default)]
pub struct Options {
    pub client_id: String,
    /// Requests a session that outlives the connection.
    pub persistent: bool,
    /// Leaves messages unacknowledged unless the case acknowledges them.
    pub manual_acks: bool,
    pub will: Option<Will>,
    /// MQTT 5.0 only.
    pub properties: Option<ConnectProperties>,
}

#[derive(Default)]
pub struct Will {
    pub topic: String,
    pub qos: u8,
    pub retain: bool,
    /// MQTT 5.0 only.
    pub properties: Option<LastWillProperties>,
}

/// A received PUBLISH.
#[derive(Debug)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: u8,
    pub retain: bool,
    pub dup: bool,
    pub packet_id: u16,
    pub properties: PublishProperties,
    pub original: Original,
}

impl Message {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}

/// The library's own packet, which it needs to acknowledge it.
#[derive(Debug)]
pub enum Original {
    V3(rumqttc::Publish),
    V5(rumqttc::v5::mqttbytes::v5::Publish),
}

/// Events from the network side.
#[derive(Debug)]
pub enum Event {
    Connected {
        session_present: bool,
        properties: Option<Box<ConnAckProperties>>,
    },
    Received(Box<Message>),
    SubAck(Vec<u8>),
    UnsubAck(Vec<u8>),
    /// PUBACK, or PUBCOMP.
    Published(u8),
    /// The connection has ended, with the broker's reason code if it gave one.
    Closed {
        reason: Option<u8>,
        error: String,
    },
}

/// The common interface of rumqttc's two event loops.
pub trait EventLoop {
    async fn next(&mut self) -> Option<Event>;
    fn cut(&mut self);
}
