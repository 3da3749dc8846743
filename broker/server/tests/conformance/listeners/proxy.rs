//! The PROXY protocol, versions 1 and 2 (`proxy.trusted_networks`).

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::connecting;
use crate::support::tls::Authority;
use crate::support::websocket::WebSocket;
use crate::support::{AtLeastOnce, Broker, Client, Folder, V5, Wire};
use crate::sys::await_number;

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 10.0.0.1 49153 1883\r\n";

/// Version 2, for a client at `[2001:db8::7]:49153` with a certificate whose common name is `device-7`.
fn v2() -> Vec<u8> {
    let mut rest = vec![0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    rest.extend([0; 16]);
    rest.extend([0xC0, 0x01, 0x07, 0x5B]);
    let inner = [&[7, 0, 0, 0, 0, 0x22, 0, 8], &b"device-7"[..]].concat();
    rest.extend([0x20, 0, u8::try_from(inner.len()).expect("it is short")]);
    rest.extend(inner);
    let length = u16::try_from(rest.len()).expect("it is short").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x21", &length[..], &rest].concat()
}

const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

/// Four listeners for local proxies: MQTT, WebSocket, MQTT over TLS, and one that trusts other addresses.
fn tables(folder: &Folder, authority: &Authority) -> String {
    authority.write(folder, "all");
    let trusted = "auth.anonymous = true\nproxy.trusted_networks = [\"127.0.0.0/8\"]";
    format!(
        "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n\
         [[listener]]\nname = \"mqtt\"\naddress = \"127.0.0.1:0\"\n{trusted}\n\
         [[listener]]\nname = \"ws\"\naddress = \"ws://127.0.0.1:0/mqtt\"\n{trusted}\n\
         [[listener]]\nname = \"mqtts\"\naddress = \"mqtts://127.0.0.1:0\"\n{trusted}\n\
         [[listener]]\nname = \"others\"\naddress = \"127.0.0.1:0\"\nauth.anonymous = true\n\
         proxy.trusted_networks = [\"192.0.2.0/24\", \"::1\"]\n"
    )
}

fn start(folder: &Folder, authority: &Authority, settings: &[&str]) -> Broker {
    let settings = [&["log.level=debug", "sys.interval_s=1"], settings].concat();
    Broker::with_listeners(2, folder, &tables(folder, authority), &settings)
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the broker listens");
    stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
    stream
}

/// A connection on which these bytes have been sent.
fn dial_with(address: SocketAddr, bytes: &[u8]) -> Client {
    let mut stream = dial(address);
    stream.write_all(bytes).expect("the broker accepts the data");
    Client::on(Wire::Tcp(stream), V5)
}

#[test]
fn the_proxy_header_has_the_client_address() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &[]);
    let address = broker.other_address(0);
    let mut clients = Vec::new();
    for (number, header) in [V1, &v2(), LOCAL, b"PROXY UNKNOWN\r\n"].into_iter().enumerate() {
        let client_id = format!("client-{number}");
        let connect = connecting(address, &client_id).bytes();
        // All bytes at once, and MQTT long after the header.
        let mut client = dial_with(address, &[header, &connect].concat());
        client.expect_accepted();
        client.subscribe("t", AtLeastOnce);
        clients.push(client);
        let mut client = dial_with(address, header);
        client.send_bytes(&connecting(address, &format!("later-{number}")).bytes());
        client.expect_accepted();
    }
    broker.connect(V5, "publisher").publish("t", AtLeastOnce, b"x");
    for client in &mut clients {
        assert_eq!(client.receive().text(), "x");
    }
    await_number(&mut broker.connect(V5, "observer"), "tautwire/proxy_headers", |count| count == 8.0);
    let log = broker.end();
    assert!(log.contains("listener mqtt: a proxy speaks for 192.0.2.7:49153"), "{log}");
    assert!(log.contains("listener mqtt: a proxy speaks for [2001:db8::7]:49153"), "{log}");
    assert!(!log.contains("device-7"), "names of clients are not for the log: {log}");
}

/// A proxy that has verified a certificate reports its subject, and access rules use it.
#[test]
fn the_common_name_of_a_certificate_is_the_user() {
    let rules = "[[role]]\nname = \"own\"\nrules = [{ allow = \"publish\", topics = \"{user}/#\" }]\n[[assign]]\nuser = \"*\"\nroles = \"own\"\n";
    let (folder, authority) = (Folder::new(&[("access.toml", rules)]), Authority::new());
    let setting = format!("acl.file={}", folder.path().join("access.toml").display());
    let broker = start(&folder, &authority, &[&setting]);
    for (header, reason) in [(v2(), 0x10), (V1.to_vec(), 0x87)] {
        let mut client = dial_with(broker.other_address(0), &header);
        client.send_bytes(&connecting(broker.other_address(0), "client").bytes());
        client.expect_accepted();
        assert_eq!(client.publish("device-7/x", AtLeastOnce, b"x"), reason);
        assert_eq!(client.publish("device-8/x", AtLeastOnce, b"x"), 0x87);
    }
}

/// If a certificate is required, the proxy's report of one satisfies that.
#[test]
fn a_client_without_certificate_is_refused_where_required() {
    let folder = Folder::new(&[]);
    let table =
        "[[listener]]\naddress = \"127.0.0.1:0\"\nauth.anonymous = false\nproxy.trusted_networks = \"127.0.0.1\"\n";
    let broker = Broker::with_listeners(1, &folder, table, &[]);
    let address = broker.other_address(0);
    for (header, code) in [(v2(), 0), (V1.to_vec(), 0x87), (LOCAL.to_vec(), 0x87)] {
        let mut client = dial_with(address, &header);
        client.send_bytes(&connecting(address, "client").bytes());
        assert_eq!(client.expect_connack_code(), code);
    }
}

/// `proxy.require_tls` and `proxy.require_certificate`: a header that does not report these is refused and counted. A LOCAL header says
/// nothing about a client.
#[test]
fn a_header_must_have_the_required_fields() {
    let folder = Folder::new(&[]);
    let table = |requires: &str| {
        format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\nauth.anonymous = true\nproxy.trusted_networks = \"127.0.0.1\"\n{requires}"
        )
    };
    let tables = [table("proxy.require_tls = true\n"), table("proxy.require_certificate = true\n")].concat();
    let broker = Broker::with_listeners(2, &folder, &tables, &["sys.interval_s=1"]);
    // With TLS and a certificate; with an unverified certificate; without TLS.
    let (whole, mut unverified, mut plain) = (v2(), v2(), v2());
    let flags = whole.len() - (1 + 4 + 3 + "device-7".len());
    unverified[flags + 4] = 1;
    plain[flags] = 6;
    let cases = [(whole, [true, true]), (unverified, [true, false]), (plain, [false, false])];
    let others = [(V1.to_vec(), [false, false]), (LOCAL.to_vec(), [false, false])];
    let mut refused = 0;
    for (header, accepted) in cases.into_iter().chain(others) {
        for (index, is_accepted) in accepted.into_iter().enumerate() {
            let address = broker.other_address(index);
            let mut client = dial_with(address, &header);
            client.send_bytes_unless_closed(&connecting(address, "client").bytes());
            if is_accepted {
                client.expect_accepted();
            } else {
                assert!(client.bytes_until_closed().is_empty());
                refused += 1;
            }
        }
    }
    let mut observer = broker.connect(V5, "observer");
    await_number(&mut observer, "tautwire/proxy_headers_refused", |count| count == f64::from(refused));
    let log = broker.end();
    assert!(log.contains("which proxy.require_tls requires"), "{log}");
    assert!(log.contains("which proxy.require_certificate requires"), "{log}");
    let stderr =
        Broker::refused_with_listeners(&folder, "[[listener]]\naddress = \"127.0.0.1:0\"\nproxy.require_tls = true\n");
    assert!(stderr.contains("has proxy.require_tls but no proxy.trusted_networks"), "{stderr}");
}

/// The header comes before TLS and before the WebSocket handshake; none of their bytes is taken for it.
#[test]
fn the_header_precedes_all_other_layers() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &[]);
    for header in [V1, &v2()] {
        let mut stream = dial(broker.other_address(1));
        stream.write_all(header).expect("the broker accepts the data");
        let mut websocket = WebSocket { stream };
        websocket.try_open().expect("the handshake is accepted");
        for number in 0..4 {
            // With two threads, so that handshakes run on both.
            let mut stream = dial(broker.other_address(2));
            stream.write_all(header).expect("the broker accepts the data");
            let mut secured = authority.connect(stream, None);
            secured.open(&connecting(broker.other_address(2), &format!("client-{number}")).bytes());
            secured.ping();
        }
    }
}

/// A header sent byte by byte, with MQTT in the last piece.
#[test]
fn a_header_can_arrive_byte_by_byte() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &[]);
    let address = broker.other_address(0);
    for (number, header) in [V1, &v2()].into_iter().enumerate() {
        let mut stream = dial(address);
        let (last, pieces) = header.split_last().expect("it has bytes");
        for piece in pieces {
            stream.write_all(&[*piece]).expect("the broker accepts the data");
            // Each piece is a separate packet; the result does not depend on the timing of reads.
            thread::yield_now();
        }
        let connect = connecting(address, &format!("client-{number}")).bytes();
        stream.write_all(&[&[*last], &connect[..]].concat()).expect("the broker accepts the data");
        let mut client = Client::on(Wire::Tcp(stream), V5);
        client.expect_accepted();
        client.ping();
    }
}

#[test]
fn a_connection_without_a_header_is_closed() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &[]);
    let address = broker.other_address(0);
    let connect = connecting(address, "client").bytes();
    let mut endless = b"PROXY UNKNOWN ".to_vec();
    endless.extend([b'x'; 200]);
    for wrong in [&connect, &b"GET /mqtt HTTP/1.1\r\n\r\n"[..], b"PROXY TCP4 a b 1 2\r\n", &endless] {
        assert!(dial_with(address, wrong).bytes_until_closed().is_empty());
    }
    // Two headers: the second is read as the start of MQTT.
    let mut twice = dial_with(address, &[V1, V1, &connect].concat());
    assert!(twice.bytes_until_closed().is_empty());
    let mut observer = broker.connect(V5, "observer");
    await_number(&mut observer, "tautwire/proxy_headers_refused", |count| count == 4.0);
    let log = broker.end();
    assert!(log.contains("refused connection: PROXY header rejected: there is none"), "{log}");
}

/// A listener without `proxy.trusted_networks` does not read headers.
#[test]
fn a_header_is_not_accepted_on_other_listeners() {
    let broker = Broker::start();
    let mut client = broker.dial(V5);
    client.send_bytes_unless_closed(&[V1, &broker.connecting(V5, "client").bytes()].concat());
    assert!(client.bytes_until_closed().is_empty());
}

/// `proxy.trusted_networks`: other addresses are refused before reading, and counted.
#[test]
fn only_trusted_proxies_are_accepted() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &[]);
    let mut stranger = Client::on(Wire::Tcp(dial(broker.other_address(3))), V5);
    stranger.send_bytes_unless_closed(V1);
    assert!(stranger.bytes_until_closed().is_empty());
    let mut observer = broker.connect(V5, "observer");
    await_number(&mut observer, "tautwire/proxy_untrusted_connections_refused", |count| count == 1.0);
    let log = broker.end();
    assert!(
        log.contains("refused connection: its address is not in proxy.trusted_networks listener=others address="),
        "{log}"
    );
}

/// `mqtt.connect_timeout_s` applies from the first byte of the header.
#[test]
fn a_missing_header_times_out() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &["mqtt.connect_timeout_s=1"]);
    let begun_at = Instant::now();
    let v2 = v2();
    let addresses = [0, 1, 2].map(|index| broker.other_address(index));
    let beginnings = [&b""[..], b"PROXY", &v2[..20]];
    let clients: Vec<_> =
        addresses.iter().flat_map(|address| beginnings.map(|beginning| dial_with(*address, beginning))).collect();
    for mut client in clients {
        assert!(client.bytes_until_closed().is_empty());
        assert!(begun_at.elapsed() >= Duration::from_millis(900));
    }
    await_number(&mut broker.connect(V5, "observer"), "tautwire/connect_timeouts", |count| count == 9.0);
}

/// Peers that disconnect within a header leak nothing.
#[test]
fn disconnected_peers_leave_nothing() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    let broker = start(&folder, &authority, &[]);
    for address in [0, 1, 2].map(|index| broker.other_address(index)) {
        drop(dial_with(address, b"PROXY TCP4"));
        let half = dial(address);
        half.shutdown(std::net::Shutdown::Write).expect("the connection is open");
        assert!(Client::on(Wire::Tcp(half), V5).bytes_until_closed().is_empty());
    }
    await_number(&mut broker.connect(V5, "observer"), "tautwire/connections", |count| count == 1.0);
}
