//! A builder for CONNECT.

use tautwire_protocol::{Connect, Packet, Properties, Property, ProtocolVersion, QoS, TopicName, Will};

use super::client::Client;
use super::wire::Transport;

/// Never: the largest Session Expiry Interval.
pub(crate) const NEVER: u32 = u32::MAX;

/// A CONNECT to send. Defaults: clean start, a keep alive of 600 s, no properties.
#[derive(Clone)]
pub(crate) struct ConnectBuilder<'a> {
    transport: Transport,
    version: ProtocolVersion,
    client_id: &'a str,
    clean_start: bool,
    keep_alive_s: u16,
    user_name: Option<&'a str>,
    password: Option<&'a [u8]>,
    properties: Vec<Property<'a>>,
    will: Option<WillMessage<'a>>,
}

/// A Will Message.
#[derive(Clone)]
pub(crate) struct WillMessage<'a> {
    topic: &'a str,
    payload: &'a [u8],
    qos: QoS,
    retain: bool,
    properties: Vec<Property<'a>>,
}

impl<'a> WillMessage<'a> {
    /// A will at QoS 0, not retained, without properties.
    pub(crate) fn new(topic: &'a str, payload: &'a [u8]) -> WillMessage<'a> {
        WillMessage { topic, payload, qos: QoS::AtMostOnce, retain: false, properties: Vec::new() }
    }

    pub(crate) fn qos(mut self, qos: QoS) -> WillMessage<'a> {
        self.qos = qos;
        self
    }

    pub(crate) fn retained(mut self) -> WillMessage<'a> {
        self.retain = true;
        self
    }

    pub(crate) fn property(mut self, property: Property<'a>) -> WillMessage<'a> {
        self.properties.push(property);
        self
    }

    pub(crate) fn delay_s(self, seconds: u32) -> WillMessage<'a> {
        self.property(Property::WillDelayInterval(seconds))
    }
}

impl<'a> ConnectBuilder<'a> {
    pub(crate) fn new(transport: Transport, version: ProtocolVersion, client_id: &'a str) -> ConnectBuilder<'a> {
        ConnectBuilder {
            transport,
            version,
            client_id,
            clean_start: true,
            // No test is silent for this long, however busy the machine is.
            keep_alive_s: 600,
            user_name: None,
            password: None,
            properties: Vec::new(),
            will: None,
        }
    }

    pub(crate) fn clean_start(mut self, clean_start: bool) -> ConnectBuilder<'a> {
        self.clean_start = clean_start;
        self
    }

    /// A persistent session: clean session 0, or clean start 0 without expiry.
    pub(crate) fn persistent(self) -> ConnectBuilder<'a> {
        if self.version.is_v5() { self.clean_start(false).session_expiry_s(NEVER) } else { self.clean_start(false) }
    }

    pub(crate) fn session_expiry_s(self, seconds: u32) -> ConnectBuilder<'a> {
        self.property(Property::SessionExpiryInterval(seconds))
    }

    pub(crate) fn keep_alive_s(mut self, seconds: u16) -> ConnectBuilder<'a> {
        self.keep_alive_s = seconds;
        self
    }

    pub(crate) fn user_name(mut self, user_name: &'a str) -> ConnectBuilder<'a> {
        self.user_name = Some(user_name);
        self
    }

    pub(crate) fn password(mut self, password: &'a [u8]) -> ConnectBuilder<'a> {
        self.password = Some(password);
        self
    }

    pub(crate) fn property(mut self, property: Property<'a>) -> ConnectBuilder<'a> {
        self.properties.push(property);
        self
    }

    pub(crate) fn will(mut self, will: WillMessage<'a>) -> ConnectBuilder<'a> {
        self.will = Some(will);
        self
    }

    /// Connects and expects success.
    #[track_caller]
    pub(crate) fn open(&self) -> Client {
        let mut client = self.send();
        client.expect_accepted();
        client
    }

    /// Connects, and expects a CONNACK with an error and the end of the connection. Returns the code: a Reason Code of 5.0, or a return
    /// code of 3.1.1.
    #[track_caller]
    pub(crate) fn refused(&self) -> u8 {
        let mut client = self.send();
        let code = client.expect_connack_code();
        client.expect_closed();
        code
    }

    /// Sends the CONNECT and reads nothing.
    pub(crate) fn send(&self) -> Client {
        let mut client = Client::dial(self.transport, self.version);
        client.send_bytes(&self.bytes());
        client
    }

    /// Sends the CONNECT, unless the broker closes the connection first.
    pub(crate) fn send_unless_closed(&self) -> Client {
        let mut client = Client::dial(self.transport, self.version);
        client.send_bytes_unless_closed(&self.bytes());
        client
    }

    /// The encoded CONNECT.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let will = self.will.as_ref().map(|will| Will {
            topic: TopicName::new(will.topic).expect("the test names a valid will topic"),
            payload: will.payload,
            qos: will.qos,
            retain: will.retain,
            properties: Properties::from(will.properties.as_slice()),
        });
        let packet = Packet::Connect(Connect {
            version: self.version,
            clean_start: self.clean_start,
            keep_alive_s: self.keep_alive_s,
            client_id: self.client_id,
            will,
            user_name: self.user_name,
            password: self.password,
            properties: Properties::from(self.properties.as_slice()),
        });
        let mut bytes = Vec::new();
        packet.append_to(self.version, &mut bytes).expect("the test builds a legal CONNECT");
        bytes
    }
}
