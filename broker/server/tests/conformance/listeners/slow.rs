//! Slow connections: they time out, take little memory, and do not affect others.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support::tls::Authority;
use crate::support::{AtLeastOnce, Broker, EXPECT_TIMEOUT, Folder, V5};
use crate::sys::await_number;

/// The start of a ClientHello of 512 bytes.
const HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3, 7, 7, 7, 7, 7];
const REQUEST: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upg";
const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 10.0";

fn start(folder: &Folder, settings: &[&str]) -> Broker {
    Authority::new().write(folder, "all");
    let tables = "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n\
                  [[listener]]\naddress = \"mqtts://127.0.0.1:0\"\n\
                  [[listener]]\naddress = \"wss://127.0.0.1:0/mqtt\"\n\
                  [[listener]]\naddress = \"127.0.0.1:0\"\nproxy.trusted_networks = \"127.0.0.1\"\n\
                  auth.anonymous = true\n";
    Broker::with_listeners(2, folder, tables, settings)
}

fn dial(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the broker listens");
    stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
    stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
    stream.write_all(bytes).expect("the broker accepts the data");
    stream
}

/// Everything received until the broker closes.
fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut read_to_close = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut read_to_close);
    read_to_close
}

/// `mqtt.connect_timeout_s` covers the TLS and WebSocket handshakes and the proxy header, even if a byte arrives now and then.
#[test]
fn slow_connections_time_out() {
    let folder = Folder::new(&[]);
    let broker = start(&folder, &["mqtt.connect_timeout_s=2", "sys.interval_s=1"]);
    let variants = [
        (broker.websocket_address(), REQUEST),
        (broker.other_address(0), HELLO),
        (broker.other_address(1), HELLO),
        (broker.other_address(2), HEADER),
    ];
    let mut bystander = broker.connect(V5, "bystander");
    bystander.subscribe("t", AtLeastOnce);
    let started_at = Instant::now();
    let mut silent: Vec<TcpStream> =
        (0..25).flat_map(|_| variants).map(|(address, bytes)| dial(address, bytes)).collect();
    let mut trickling: Vec<(TcpStream, &[u8])> =
        variants.iter().map(|(address, bytes)| (dial(*address, &bytes[..1]), &bytes[1..])).collect();
    while started_at.elapsed() < Duration::from_secs(2) {
        for (stream, rest) in &mut trickling {
            if let Some((byte, later)) = rest.split_first() {
                // The connection may have been closed.
                let _ = stream.write_all(&[*byte]);
                *rest = later;
            }
        }
        bystander.publish("t", AtLeastOnce, b"x");
        assert_eq!(bystander.receive().text(), "x");
    }
    for (number, stream) in silent.iter_mut().chain(trickling.iter_mut().map(|(stream, _)| stream)).enumerate() {
        let read_to_close = read_to_close(stream);
        if number % variants.len() == 0 {
            assert!(read_to_close.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&read_to_close));
        }
    }
    assert!(started_at.elapsed() < Duration::from_secs(2) + EXPECT_TIMEOUT);
    await_number(&mut bystander, "tautwire/connect_timeouts", |count| count == 104.0);
}

/// A connection before CONNECT takes at most 2 KiB, excluding TLS.
#[test]
fn connections_before_connect_use_little_memory() {
    const CONNECTIONS: u64 = 1500;
    const MOST_BYTES: u64 = 2048;
    let folder = Folder::new(&[]);
    let broker = start(&folder, &["mqtt.connect_timeout_s=600", "sys.interval_s=1"]);
    let mut witness = broker.connect(V5, "witness");
    let mut kept = Vec::new();
    let variants = [
        ("MQTT", broker.address(), &[0x10, 0x20][..]),
        ("WebSocket", broker.websocket_address(), REQUEST),
        ("PROXY", broker.other_address(2), HEADER),
    ];
    for (name, address, bytes) in variants {
        // The first ones grow tables and buffers that all share.
        let mut open_connections = |connections: u64| {
            kept.extend((0..connections).map(|_| dial(address, bytes)));
            await_number(&mut witness, "tautwire/connections", |count| count == (kept.len() + 1) as f64);
            broker.resident_bytes()
        };
        let before = open_connections(100);
        let after = open_connections(CONNECTIONS);
        let each = after.saturating_sub(before) / CONNECTIONS;
        println!("{name}: {each} bytes for each connection");
        assert!(each <= MOST_BYTES, "{name}: {each} bytes for each connection");
    }
}
