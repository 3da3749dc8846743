//! Hostile and broken peers: each ends with a counted outcome, does not affect other clients, and its memory is freed.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use tautwire_protocol::{Packet, Property};

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, Client, EXPECT_TIMEOUT, ExactlyOnce, OutgoingPublish, Rng, V3_1_1, V5,
    WillMessage, every_thread_count, every_version, packet_id, sleep,
};
use crate::sys::await_number;

/// A client that must not be affected by the others.
struct BackgroundClient(Client);

impl BackgroundClient {
    fn join(broker: &Broker) -> BackgroundClient {
        let mut client = broker.connect(V5, "bystander");
        client.subscribe("bystander", AtLeastOnce);
        BackgroundClient(client)
    }

    #[track_caller]
    fn still_served(&mut self) {
        self.0.publish("bystander", AtLeastOnce, b"x");
        assert_eq!(self.0.receive().text(), "x");
    }
}

/// [MQTT-3.1.0-1]
#[test]
fn garbage_before_connect_closes_the_connection_without_a_packet() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut bystander = BackgroundClient::join(&broker);
        let mut scatter = Rng(1);
        for round in 0..200 {
            let mut client = broker.dial(V5);
            let mut garbage: Vec<u8> = (0..1 + scatter.below(2000)).map(|_| scatter.byte()).collect();
            // It must not start like a CONNECT, for which the broker would wait.
            garbage[0] = if garbage[0] >> 4 == 1 { 0 } else { garbage[0] };
            if garbage[0] & 0xf0 != 0 && garbage.len() < 6 {
                garbage[0] = 0;
            }
            client.send_bytes_unless_closed(&garbage);
            assert!(client.bytes_until_closed().is_empty(), "round {round}");
        }
        bystander.still_served();
    });
}

/// `mqtt.connect_timeout_s`: no byte, half a CONNECT, or a byte now and then.
#[test]
fn an_incomplete_connect_times_out_without_a_packet() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["mqtt.connect_timeout_s=1", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::join(&broker);
        // At ten bytes a second this would take longer than any test waits.
        let client_id = "x".repeat(1000);
        let connect = broker.connecting(V5, &client_id).bytes();
        let start = Instant::now();
        let mut silent = broker.dial(V5);
        let mut half = broker.dial(V5);
        half.send_bytes(&connect[..connect.len() / 2]);
        let mut trickling = broker.dial(V5);
        trickling.trickle_until_answered(connect);
        for client in [&mut silent, &mut half, &mut trickling] {
            assert!(client.bytes_until_closed().is_empty());
        }
        let lasted = start.elapsed();
        assert!(lasted >= Duration::from_millis(900), "{lasted:?}");
        bystander.still_served();
        await_number(&mut bystander.0, "tautwire/connect_timeouts", |count| count == 3.0);
    });
}

/// `limits.incomplete_packet_timeout_s`: after CONNECT, with keep alive off.
#[test]
fn an_incomplete_packet_times_out() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.incomplete_packet_timeout_s=1", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::join(&broker);
        let connecting = |client_id| broker.connecting(case.version, client_id).keep_alive_s(0).open();
        let mut header = connecting("header");
        header.send_bytes(&[0x30]);
        let mut half = connecting("half");
        half.send_bytes(&[0x30, 100, 0, 1]);
        let mut trickling = connecting("trickling");
        // Clients that send whole packets or none are not affected.
        let mut idle = connecting("idle");
        trickling.trickle_until_answered([0x30, 0xff, 0x7f].into_iter().chain(std::iter::repeat(0)));
        for client in [&mut header, &mut half, &mut trickling] {
            client.packets_until_closed();
        }
        idle.ping();
        bystander.still_served();
        await_number(&mut bystander.0, "tautwire/incomplete_packet_timeouts", |count| count == 3.0);
    });
}

/// No length field makes the broker allocate more than the data that has arrived.
#[test]
fn announced_packet_sizes_reserve_no_memory() {
    every_version(|case| {
        let broker = case.broker();
        let before = broker.resident_bytes();
        let mut bystander = BackgroundClient::join(&broker);
        let clients: Vec<Client> = (0..200)
            .map(|number| {
                let mut client = broker.connect(case.version, &format!("claiming-{number}"));
                // A PUBLISH that claims sixteen million bytes, which is allowed, of which ten are sent.
                client.send_bytes(&[0x30, 0xf0, 0xff, 0xff, 0x07, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0]);
                client
            })
            .collect();
        // Before CONNECT: the claim of a large CONNECT.
        let mut strangers: Vec<Client> = (0..200).map(|_| broker.dial(case.version)).collect();
        for stranger in &mut strangers {
            stranger.send_bytes(&[0x10, 0xf0, 0xff, 0xff, 0x07, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60]);
        }
        bystander.still_served();
        let held_bytes = broker.resident_bytes().saturating_sub(before);
        assert!(held_bytes < 16 * 1024 * 1024, "the broker holds {held_bytes} bytes for claims");
        drop((clients, strangers));
        bystander.still_served();
    });
}

/// Random bytes after a valid CONNECT: the connection may end or not, the broker and its other clients continue.
#[test]
fn random_bytes_after_connect_affect_no_other_client() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.incomplete_packet_timeout_s=1"]);
        let mut bystander = BackgroundClient::join(&broker);
        let mut scatter = Rng(2);
        for round in 0..300 {
            let mut client = broker.connect(case.version, &format!("random-{}", round % 7));
            let bytes: Vec<u8> = (0..1 + scatter.below(500)).map(|_| scatter.byte()).collect();
            client.send_bytes_unless_closed(&bytes);
            if round % 20 == 0 {
                bystander.still_served();
            }
        }
        bystander.still_served();
    });
}

/// Valid packets with one byte changed reach deeper code than random bytes.
#[test]
fn packets_with_one_wrong_byte_affect_no_other_client() {
    every_version(|case| {
        let broker = case.broker();
        let mut bystander = BackgroundClient::join(&broker);
        let mut scatter = Rng(3);
        let connecting = broker.connecting(case.version, "mutated");
        let mut client = broker.dial(case.version);
        let mut stream = connecting.bytes();
        let publish = OutgoingPublish::new("a/b", AtLeastOnce, b"payload");
        stream.extend(client.encoded(&Packet::Publish(publish.publish(packet_id(7)))));
        stream.extend([0x62, 2, 0, 7, 0xc0, 0]);
        let subscribe: &[u8] = if case.version.is_v5() {
            &[0x82, 9, 0, 1, 0, 0, 3, b'a', b'/', b'+', 1]
        } else {
            &[0x82, 8, 0, 1, 0, 3, b'a', b'/', b'+', 1]
        };
        stream.extend(subscribe);
        for round in 0..stream.len() * 8 {
            let mut mutated = stream.clone();
            mutated[round / 8] ^= 1 << (round % 8);
            if scatter.below(4) == 0 {
                mutated.truncate(1 + scatter.below(mutated.len()));
            }
            client.send_bytes_unless_closed(&mutated);
            client = broker.dial(case.version);
            if round % 50 == 0 {
                bystander.still_served();
            }
        }
        bystander.still_served();
    });
}

/// Consecutive blocked writes, a fifth of a second each, after which the broker counts as not reading. A kernel under load drops what does
/// not fit into the receiver's buffer, and retransmits it after 0.2, 0.6 and 1.4 s.
const REFUSALS: u32 = 9;

/// Sends pings until the broker stops reading, or `limit` bytes are sent. Returns the number of bytes.
fn flood_with_pings(client: &mut Client, bystander: &mut BackgroundClient, limit: usize) -> usize {
    let pings = [0xc0, 0x00].repeat(32 * 1024);
    let mut sent = 0;
    let mut refused_in_a_row = 0;
    while sent < limit && refused_in_a_row < REFUSALS {
        // The rest of a partially written packet comes first.
        match client.send_what_fits(&pings[sent % 2..]) {
            0 => {
                refused_in_a_row += 1;
                // The broker has had enough turns to read the kernel's buffer, if it reads at all.
                (0..50).for_each(|_| bystander.still_served());
            }
            count => {
                refused_in_a_row = 0;
                sent += count;
            }
        }
    }
    sent
}

/// Reading from a client that never reads its answers pauses once they pile up; memory is bounded, others continue.
#[test]
fn reading_pauses_for_a_client_that_never_reads_answers() {
    every_version(|case| {
        let broker = case.broker_set(&["limits.connection_output_bytes=1000000", "sys.interval_s=1"]);
        let mut bystander = BackgroundClient::join(&broker);
        let before = broker.resident_bytes();
        let mut asking = broker.connect(case.version, "asking");
        let sent = flood_with_pings(&mut asking, &mut bystander, 128 * 1024 * 1024);
        assert!(sent < 128 * 1024 * 1024, "the broker has read {sent} bytes of pings from a client that does not read");
        let held_bytes = broker.resident_bytes().saturating_sub(before);
        assert!(held_bytes < 16 * 1024 * 1024, "the broker holds {held_bytes} bytes");
        bystander.still_served();
        await_number(&mut bystander.0, "tautwire/clients_paused_for_output", |count| count >= 1.0);
        // Once it reads, each ping is answered.
        assert!(asking.bytes(sent / 2 * 2).chunks(2).all(|answer| answer == [0xd0, 0x00]));
    });
}

/// Pending work - unread output, half a packet, no CONNECT, unread requests - takes no CPU time.
#[test]
fn incomplete_operations_do_not_keep_the_broker_busy() {
    every_thread_count(|case| {
        let broker = case.broker_set(&["limits.connection_output_bytes=100000", "sys.interval_s=0"]);
        let mut bystander = BackgroundClient::join(&broker);
        let mut stuck = broker.connect(V5, "stuck");
        stuck.subscribe("flood", AtLeastOnce);
        let payload = vec![b'x'; 64 * 1024];
        for _ in 0..300 {
            bystander.0.publish("flood", AtLeastOnce, &payload);
        }
        let mut half = broker.connect(V5, "half");
        half.send_bytes(&[0x30, 100, 0]);
        let mut stranger = broker.dial(V5);
        stranger.send_bytes(&[0x10]);
        let mut asking = broker.connect(V5, "asking");
        flood_with_pings(&mut asking, &mut bystander, 128 * 1024 * 1024);
        let mut absent = broker.connecting(V5, "absent").persistent().open();
        absent.subscribe("flood", AtLeastOnce);
        absent.cut();
        bystander.still_served();
        // The broker becomes idle eventually: a thread other than the bystander's may still have much to answer.
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            let before = broker.cpu_time();
            sleep(Duration::from_secs(1));
            let used = broker.cpu_time() - before;
            if used < Duration::from_millis(200) {
                break;
            }
            assert!(Instant::now() < deadline, "{used:?} of processor time in a second of nothing");
        }
        bystander.still_served();
    });
}

/// Secrets and payloads never appear in the log, at any level.
#[test]
fn the_log_contains_no_passwords_or_payloads() {
    let broker = Broker::set(&["log.level=debug"]);
    let will = WillMessage::new("will/topic", b"secret-will").qos(AtLeastOnce).retained();
    let connecting = broker.connecting(V5, "logged").user_name("someone").password(b"secret-password").will(will);
    let mut client = connecting.open();
    client.subscribe("#", ExactlyOnce);
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        client.deliver(&OutgoingPublish::new("a", qos, b"secret-payload").retained());
        client.deliver(&OutgoingPublish::new("$SYS/x", qos, b"secret-payload"));
        client.receive();
    }
    client.cut();
    // Refused and malformed ones too.
    connecting.clone().property(Property::AuthenticationMethod("none")).refused();
    let mut client = broker.connect(V5, "logged");
    client.send_bytes(b"\x36\x13\x00\x01asecret-payload\x00\x01");
    client.packets_until_closed();
    let mut stranger = broker.dial(V5);
    stranger.send_bytes(b"GET /secret-payload HTTP/1.1\r\n\r\n");
    stranger.bytes_until_closed();
    let log = broker.end();
    assert!(log.contains("logged"), "the log at its most talkative names the client:\n{log}");
    assert!(!log.contains("secret"), "{log}");
}

/// Connecting and disconnecting leaks no descriptors and no memory.
#[test]
fn churn_leaves_nothing() {
    every_thread_count(|case| {
        let broker = case.broker();
        let mut bystander = BackgroundClient::join(&broker);
        let descriptors = || fs::read_dir(format!("/proc/{}/fd", broker.pid())).map_or(0, Iterator::count);
        let before = (descriptors(), broker.resident_bytes());
        for round in 0..500 {
            let version = if round % 2 == 0 { V5 } else { V3_1_1 };
            let mut client = broker.connect(version, &format!("churning-{}", round % 50));
            client.subscribe("churn/#", AtMostOnce);
            client.publish("churn/x", AtMostOnce, b"x");
            match round % 3 {
                0 => client.disconnect(),
                1 => client.cut(),
                // With an unread message, so that the kernel resets the connection.
                _ => drop(client),
            }
        }
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while descriptors() > before.0 {
            assert!(Instant::now() < deadline, "{} descriptors, {} before", descriptors(), before.0);
            bystander.still_served();
        }
        broker.resident_comes_down_to(before.1 + 8 * 1024 * 1024);
    });
}

/// Out of file descriptors: connected clients are served, and once some are free new ones are accepted.
#[test]
fn running_out_of_descriptors_affects_no_connected_client() {
    for threads in [1, 2] {
        let mut broker = Broker::with_descriptors(64, threads, &[]);
        let mut bystander = BackgroundClient::join(&broker);
        let crowd: Vec<Client> =
            (0..150).map(|number| broker.connecting(V5, &format!("crowd-{number}")).send_unless_closed()).collect();
        for _ in 0..20 {
            bystander.still_served();
        }
        drop(crowd);
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        loop {
            // Some of the crowd may still be in the listen queue; each attempt waits behind them.
            let mut newcomer = broker.connecting(V5, "newcomer").send_unless_closed();
            if newcomer.next_or_closed().is_some() {
                newcomer.ping();
                break;
            }
            assert!(Instant::now() < deadline, "no newcomer is served");
        }
        bystander.still_served();
        assert!(broker.is_running());
    }
}

/// A port in use: reported on stderr with the address, and a failing exit code at once.
#[test]
fn a_port_in_use_is_reported() {
    let broker = Broker::start();
    let address = broker.address().to_string();
    let output = Command::new("timeout")
        .args(["10", &crate::support::broker::program(), "serve", "--memory", "--listen", &address])
        .output()
        .expect("the program starts");
    let code = output.status.code().expect("the program ends by itself");
    assert!(code != 0 && code != 124, "exit code {code}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&address), "{stderr}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("listening on"));
    broker.connect(V5, "client").ping();
}
