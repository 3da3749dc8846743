//! Memory: everything held on behalf of clients stays within its limits, no acknowledged message is lost for lack of memory, and one client
//! cannot exhaust the memory of others.

mod gauges;
mod overload;
mod queues;
mod refusals;
mod slow_consumers;

use crate::support::{AtLeastOnce, Broker, Client, ProtocolVersion, QoS, reconnect};

const KILOBYTE: usize = 1024;
const MEGABYTE: usize = 1024 * 1024;

/// The Reason Code of a refusal for lack of memory.
const QUOTA_EXCEEDED: u8 = 0x97;

/// A session of an offline client, subscribed to `filter`.
fn create_offline_session(broker: &Broker, version: ProtocolVersion, client_id: &str, filter: &str, qos: QoS) {
    let mut client = broker.connecting(version, client_id).persistent().open();
    client.subscribe(filter, qos);
    client.disconnect();
}

/// A payload of `len` bytes that starts with a number.
fn numbered(number: usize, len: usize) -> Vec<u8> {
    let mut payload = format!("{number}:").into_bytes();
    payload.resize(len.max(payload.len()), b'.');
    payload
}

/// The number at the start of a payload.
fn number_of(payload: &[u8]) -> usize {
    let digits = payload.split(|byte| *byte == b':').next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).expect("the payload begins with a number")
}

/// Receives and acknowledges all queued messages. Returns the numbers in the payloads.
#[track_caller]
fn receive_numbers(client: &mut Client, count: usize) -> Vec<usize> {
    (0..count).map(|_| number_of(client.receive().payload())).collect()
}

/// A client that must not be affected by anything else.
struct BackgroundClient {
    publisher: Client,
    subscriber: Client,
    served: usize,
}

impl BackgroundClient {
    fn new(broker: &Broker, version: ProtocolVersion) -> BackgroundClient {
        let mut subscriber = broker.connect(version, "bystander-subscriber");
        subscriber.subscribe("bystander", AtLeastOnce);
        BackgroundClient { publisher: broker.connect(version, "bystander-publisher"), subscriber, served: 0 }
    }

    /// Checks that a message is delivered.
    #[track_caller]
    fn is_served(&mut self) {
        self.served += 1;
        let text = self.served.to_string();
        assert_eq!(self.publisher.publish("bystander", AtLeastOnce, text.as_bytes()), 0);
        assert_eq!(self.subscriber.receive().text(), text);
    }
}
