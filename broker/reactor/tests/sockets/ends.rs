//! How connections end.

use std::thread;
use std::time::Instant;

use tautwire_protocol::{DisconnectReason, Packet, ProtocolVersion};

use crate::client::{Client, PATIENCE, connect_bytes, eventually, publish_bytes, quiet, start};

#[test]
fn many_connecting_and_disconnecting_clients_leave_nothing() {
    const THREADS: usize = 4;
    const EACH: usize = 60;
    let broker = start(quiet(), 2);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let broker = &broker;
            scope.spawn(move || {
                for n in 0..EACH {
                    // Some send DISCONNECT, some vanish, some never send CONNECT.
                    let mut client = Client::open(broker, ProtocolVersion::V5);
                    match n % 4 {
                        0 => {}
                        1 => client.write(&connect_bytes(&format!("{thread}-{n}"), ProtocolVersion::V5)),
                        2 => {
                            client.write(&connect_bytes(&format!("{thread}-{n}"), ProtocolVersion::V5));
                            client.expect_connack();
                        }
                        _ => {
                            client.write(&connect_bytes(&format!("{thread}-{n}"), ProtocolVersion::V5));
                            client.expect_connack();
                            client.write(&[0xE0, 0]);
                        }
                    }
                }
            });
        }
    });
    eventually("all connections and sessions end", || {
        let totals = broker.control().totals();
        totals.connections_accepted == (THREADS * EACH) as u64 && totals.connections == 0 && totals.sessions == 0
    });
    let totals = broker.control().totals();
    assert_eq!((totals.output_bytes, totals.stored_bytes), (0, 0));
}

/// Data and the end of the stream may be reported as one event.
#[test]
fn the_end_of_a_stream_after_data_is_detected() {
    let broker = start(quiet(), 1);
    let clients: Vec<Client> = (0..50)
        .map(|n| {
            let mut client = Client::open(&broker, ProtocolVersion::V5);
            let mut bytes = connect_bytes(&format!("c{n}"), ProtocolVersion::V5);
            bytes.extend(publish_bytes("t", None, false, b"x"));
            client.write(&bytes);
            client.finish_writing();
            client
        })
        .collect();
    // The sockets stay open here, so that only the end of the stream can be noticed.
    eventually("all connections end", || {
        let totals = broker.control().totals();
        totals.connects == clients.len() as u64 && totals.connections == 0
    });
    assert_eq!(broker.control().totals().publishes_received, clients.len() as u64);
}

#[test]
fn stopping_sends_disconnect_and_closes_connections() {
    let broker = start(quiet(), 2);
    let mut new: Vec<_> = (0..10).map(|n| Client::connect(&broker, &format!("v5-{n}"))).collect();
    let mut old = Client::open(&broker, ProtocolVersion::V3_1_1);
    old.write(&connect_bytes("old", ProtocolVersion::V3_1_1));
    old.expect_connack();
    let mut nameless = Client::open(&broker, ProtocolVersion::V5);
    eventually("all are accepted", || broker.control().totals().connections == 12);
    let address = broker.addresses()[0];
    let begun = Instant::now();
    let stopping = thread::spawn(move || broker.stop());
    for client in &mut new {
        let packet = client.next().expect("DISCONNECT");
        let Packet::Disconnect(goodbye) = packet.as_packet() else { panic!("{packet:?}") };
        assert_eq!(goodbye.reason, DisconnectReason::ServerShuttingDown);
        assert!(client.next().is_none());
    }
    assert!(old.next().is_none(), "3.1.1 has no goodbye from a server");
    assert!(nameless.next().is_none());
    drop((new, old, nameless));
    stopping.join().expect("the broker stops");
    assert!(begun.elapsed() < PATIENCE / 2);
    assert!(std::net::TcpStream::connect(address).is_err(), "the listener is closed");
}
