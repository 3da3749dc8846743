//! Memory gauges: memory held on behalf of clients is freed when they have disconnected and their sessions have ended.

use std::collections::BTreeMap;

use tautwire_memory::Kind;
use tautwire_protocol::Packet;

use super::{KILOBYTE, create_offline_session, numbered, reconnect};
use crate::support::property::{receive_maximum, topic_alias};
use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, ExactlyOnce, OutgoingPublish, ProtocolVersion, V5, WillMessage,
    every_case, options, packet_id,
};
use crate::sys::await_live_numbers;

/// The current gauges of all kinds, once they are as they `should` be.
#[track_caller]
fn gauges_until(
    observer: &mut Client,
    should: impl Fn(&BTreeMap<&'static str, i64>) -> Result<(), String>,
) -> BTreeMap<&'static str, i64> {
    let mut gauges = BTreeMap::new();
    await_live_numbers(observer, |numbers| {
        let value = |gauge: &str| numbers.get(&format!("tautwire/{gauge}")).map(|value| *value as i64);
        let values: Option<_> = Kind::ALL.iter().map(|kind| Some((kind.gauge(), value(kind.gauge())?))).collect();
        gauges = values.ok_or("a gauge is missing")?;
        should(&gauges)
    });
    gauges
}

/// Makes the broker hold memory of every kind.
fn fill_all_memory_kinds(broker: &Broker, version: ProtocolVersion) {
    let mut publisher = broker.connect(version, "publisher");
    for number in 0..4 {
        let (waits, sent) = (format!("waits-{number}"), format!("sent-{number}"));
        create_offline_session(broker, version, &waits, &waits, ExactlyOnce);
        let mut unread = broker.connecting(version, &sent).persistent();
        if version.is_v5() {
            unread = unread.property(receive_maximum(3));
        }
        let mut unread = unread.will(WillMessage::new("will", &numbered(0, 10 * KILOBYTE))).open();
        unread.subscribe(&sent, ExactlyOnce);
        let many: Vec<String> = (0..500).map(|filter| format!("{sent}/{filter}/+")).collect();
        let filters: Vec<_> = many.iter().map(|filter| (filter.as_str(), options(AtLeastOnce))).collect();
        unread.subscribe_all(&filters, &[]);
        for message in 0..20 {
            for topic in [&waits, &sent] {
                publisher.publish(topic, ExactlyOnce, &numbered(message, 5 * KILOBYTE));
                publisher.publish(topic, AtLeastOnce, &numbered(message, KILOBYTE));
            }
        }
        if version.is_v5() {
            let topic = "x".repeat(10_000);
            unread.send_publish(&OutgoingPublish::new(&topic, AtMostOnce, b"").property(topic_alias(1)));
        }
        // QoS 2 messages without PUBREL, then an incomplete packet.
        for _ in 0..50 {
            unread.send_publish(&OutgoingPublish::new("held", ExactlyOnce, b"x"));
        }
        let large = numbered(0, 100 * KILOBYTE);
        let bytes =
            unread.encoded(&Packet::Publish(OutgoingPublish::new("never", AtMostOnce, &large).publish(packet_id(1))));
        unread.send_bytes(&bytes[..50 * KILOBYTE]);
        // Ends without DISCONNECT, with a will.
        drop(unread);
    }
}

#[test]
fn all_memory_gauges_return_to_zero() {
    every_case(|case| {
        let broker = case.broker_set(&["sys.interval_s=1"]);
        let mut observer = broker.connect(V5, "observer");
        let before = gauges_until(&mut observer, |_| Ok(()));
        for round in 0..3 {
            fill_all_memory_kinds(&broker, case.version);
            let message = Kind::Message.gauge();
            gauges_until(&mut observer, |now| {
                let grown = now[message] - before[message];
                if grown > 100_000 { Ok(()) } else { Err(format!("{grown} bytes of messages: nothing is held")) }
            });
            for number in 0..4 {
                // Some read part of the queue first; the session of each ends with this connection.
                if round == 1 {
                    let mut client = reconnect(&broker, case.version, &format!("waits-{number}"));
                    client.receive();
                    client.receive();
                }
                for name in ["waits", "sent"] {
                    broker.connect(case.version, &format!("{name}-{number}")).disconnect();
                }
            }
            gauges_until(&mut observer, |now| {
                for (gauge, value) in now {
                    // The `$SYS` tree is retained and its numbers grow by some digits; it is being sent to the observer.
                    let allowed = match *gauge {
                        gauge if gauge == message => 4_000,
                        gauge if gauge == Kind::Output.gauge() => 64_000,
                        _ => 0,
                    };
                    if value - before[gauge] > allowed {
                        return Err(format!("{gauge} was {} and is {value}", before[gauge]));
                    }
                }
                Ok(())
            });
        }
    });
}
