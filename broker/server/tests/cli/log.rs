//! The log must not block the broker.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::process::Broker;

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(90);

/// More than a pipe and the broker's queue for log lines can hold together.
const LOGGED_BYTES: usize = 3 << 20;
const NAME_BYTES: usize = 60_000;

/// A client that sends CONNECT twice: the broker logs its long identifier.
fn disturb(broker: &Broker) {
    let mut connect = b"\x10\xE9\xD4\x03\0\x04MQTT\x04\x02\0\0".to_vec();
    connect.extend((NAME_BYTES as u16).to_be_bytes());
    connect.resize(connect.len() + NAME_BYTES, b'n');
    let remaining = connect.len() - 4;
    connect[1..4].copy_from_slice(&[remaining as u8 | 0x80, (remaining >> 7) as u8 | 0x80, (remaining >> 14) as u8]);
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", broker.port())).expect("connects");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes options");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a socket takes options");
    stream.write_all(&connect).and_then(|()| stream.write_all(&connect)).expect("the broker reads");
    let mut answer = Vec::new();
    // The broker closes the connection, with a reset if it has not read everything.
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"\x20\x02\0\0", "the first CONNECT was accepted");
}

#[test]
fn the_broker_keeps_serving_while_its_log_is_not_read() {
    let settings = ["log.level=debug", "limits.client_id_bytes=65535", "sys.interval_s=1"];
    let mut broker = Broker::with(&settings);
    for _ in 0..LOGGED_BYTES / NAME_BYTES {
        disturb(&broker);
    }
    let subscriber = broker.subscribe(&["-C", "1", "demo/hello"]);
    broker.publish(&["-q", "1", "demo/hello", "hi"]).expect(0);
    assert_eq!(subscriber.end().expect(0).text(), "hi\n");
    // The metric is published every second.
    let started = Instant::now();
    while broker.subscribe_to_end(&["-C", "1", "$SYS/broker/tautwire/log_lines_dropped"]).expect(0).text() == "0\n" {
        assert!(started.elapsed() < TIMEOUT, "nothing was lost, so nothing was full");
    }
    broker.process().wait_for("log lines were lost here");
}

#[test]
fn a_broker_stops_although_its_log_is_not_read() {
    let mut broker = Broker::with(&["log.level=debug", "limits.client_id_bytes=65535"]);
    for _ in 0..LOGGED_BYTES / NAME_BYTES {
        disturb(&broker);
    }
    broker.process().interrupt();
    assert_eq!(broker.process().exit_code(), Some(0));
}
