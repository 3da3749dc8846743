//! Tests how much heap memory retained messages take and free.

use allocation_counter::measure;
use tautwire_message::MessageRef;
use tautwire_protocol::QoS;
use tautwire_router::{Exchange, RetainedLimits};

const PAYLOAD: &[u8] = &[7; 64];

fn retain(exchange: &Exchange, topic: &str, payload: &[u8]) {
    let message = MessageRef {
        id: tautwire_message::MessageId::NONE,
        topic,
        properties: &[],
        payload,
        qos: QoS::AtLeastOnce,
        retain: true,
        expires_at_ms: None,
    };
    exchange.retain(&message, || message.to_message()).expect("not full");
}

fn topic(number: u64) -> String {
    format!("r/s{}/d{}", number / 100, number % 100)
}

/// Creates an exchange with the messages that the broker itself retains.
fn exchange() -> Exchange {
    let exchange = Exchange::new(1, RetainedLimits { messages: 1_000_000, bytes: 1 << 30 });
    for number in 0..100 {
        retain(&exchange, &format!("$SYS/broker/some/counter/{number}"), b"0");
    }
    exchange
}

#[test]
fn a_retained_message_uses_little_memory() {
    for (messages, most_bytes) in [(1_000, 280), (10_000, 260), (100_000, 250)] {
        let exchange = exchange();
        let taken = measure(|| {
            for number in 0..messages {
                retain(&exchange, &topic(number), PAYLOAD);
            }
        });
        let each = taken.bytes_current / messages as i64;
        assert!(each <= most_bytes, "{each} bytes for each of {messages} messages");
        let told = exchange.retained_held_bytes() as i64;
        assert!((taken.bytes_current - told).abs() < told / 3, "{told} bytes are told of {}", taken.bytes_current);
    }
}

#[test]
fn cleared_messages_use_no_memory() {
    const MESSAGES: u64 = 100_000;
    let exchange = exchange();
    let left = measure(|| {
        for number in 0..MESSAGES {
            retain(&exchange, &topic(number), PAYLOAD);
        }
        for number in 0..MESSAGES {
            retain(&exchange, &topic(number), b"");
        }
    });
    assert_eq!(exchange.retained().0, 100);
    assert!(left.bytes_current < 128 << 10, "{} bytes stay", left.bytes_current);
    assert!(left.bytes_max > MESSAGES * 105, "{} bytes at most", left.bytes_max);
}
