//! Reloads that add, remove and change listeners: clients of other listeners are not affected.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use super::{World, keys};
use crate::support::http::Answer;
use crate::support::tls::{Authority, Secured};
use crate::support::{AtLeastOnce, Client, ConnectBuilder, Folder, Transport, V3_1_1, V5};

fn connecting(address: SocketAddr, client_id: &str) -> ConnectBuilder<'_> {
    ConnectBuilder::new(Transport::Tcp(address), V5, client_id)
}

/// The address of a listener added by a reload.
pub(crate) fn added(answer: &Answer, name: &str) -> SocketAddr {
    let (_, rest) = answer.body.split_once("\"addresses\":{").unwrap_or_else(|| panic!("{}", answer.body));
    let (_, rest) = rest.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("{}", answer.body));
    rest.split('"').next().and_then(|address| address.parse().ok()).expect("an address")
}

fn table(name: &str, address: &str, more: &str) -> String {
    format!("[[listener]]\nname = \"{name}\"\naddress = \"{address}\"\n{more}\n")
}

#[test]
fn removing_a_listener_disconnects_its_clients() {
    for threads in [1, 2] {
        let world = World::new(threads, "", &[]);
        let mut stays = world.broker.connect(V5, "stays");
        stays.subscribe("t", AtLeastOnce);
        let answer = world.reload(&table("extra", "127.0.0.1:0", "")).expect(200);
        assert_eq!(keys(&answer, "listeners_added"), ["extra"]);
        let extra = added(&answer, "extra");
        let mut five: Vec<Client> =
            ["five", "six", "seven", "eight"].map(|id| connecting(extra, id).session_expiry_s(600).open()).into();
        five[0].subscribe("t", AtLeastOnce);
        let mut three = ConnectBuilder::new(Transport::Tcp(extra), V3_1_1, "three").open();
        let mut silent = Client::dial(Transport::Tcp(extra), V5);

        let answer = world.reload("").expect(200);
        assert_eq!(keys(&answer, "listeners_removed"), ["extra"]);
        assert!(TcpStream::connect(extra).is_err(), "the port is closed");
        for client in &mut five {
            assert_eq!(client.expect_disconnect(), 0x98);
        }
        three.expect_closed();
        silent.expect_closed();
        stays.publish("t", AtLeastOnce, b"still there");
        assert_eq!(stays.receive().text(), "still there");
        // Sessions do not depend on the listener.
        let mut back = world.broker.connecting(V5, "five").clean_start(false).session_expiry_s(600).open();
        assert!(back.session_present());
        assert_eq!(back.receive().text(), "still there");
        assert_eq!(world.metric("listener_removed_disconnects"), 6);
        // A new listener with the same name has no state of the first one.
        let answer = world.reload(&table("extra", "127.0.0.1:0", "")).expect(200);
        connecting(added(&answer, "extra"), "again").open().ping();
    }
}

#[test]
fn a_port_in_use_refuses_the_whole_reload() {
    let world = World::new(2, "", &[]);
    let mut client = world.broker.connect(V5, "c");
    let before = world.config();
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = other.local_addr().expect("an address");
    let socket = world.folder.path().join("s");
    let local = format!("[limits]\ntopic_levels = 2\n{}", table("local", &format!("unix:{}", socket.display()), ""));
    let refused = world.reload(&format!("{local}{}", table("taken", &taken.to_string(), ""))).expect(422);
    assert!(refused.body.contains(&taken.to_string()) && refused.body.contains("in use"), "{}", refused.body);
    assert_eq!(world.config(), before);
    assert!(!socket.exists(), "sockets already bound are removed");
    assert_eq!(client.publish("a/b/c", AtLeastOnce, b""), 0x10);
    world.reload(&local).expect(200);
    assert!(socket.exists());
    assert_eq!(client.publish("a/b/c", AtLeastOnce, b""), 0x90);
}

/// A changed name or transport makes another listener; the port stays open in between.
#[test]
fn another_listener_can_take_over_a_port() {
    let folder = Folder::new(&[]);
    let authority = Authority::new();
    authority.write(&folder, "all");
    let tls = "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n";
    let world = World::within(folder, 2, &format!("{tls}{}", table("one", "127.0.0.1:0", "")), &[]);
    let free = world.broker.other_address(0);
    let mut one = connecting(free, "one").open();
    world.reload(&format!("{tls}{}", table("two", &free.to_string(), ""))).expect(200);
    assert_eq!(one.expect_disconnect(), 0x98);
    let mut two = connecting(free, "two").open();
    world.reload(&format!("{tls}{}", table("two", &format!("mqtts://{free}"), ""))).expect(200);
    assert_eq!(two.expect_disconnect(), 0x98);
    secured(&authority, free).open(&connecting(free, "three").bytes());
}

fn secured(authority: &Authority, address: SocketAddr) -> Secured {
    authority.connect(TcpStream::connect(address).expect("the broker listens"), None)
}

#[test]
fn listener_changes_apply_to_new_connections() {
    for threads in [1, 2] {
        let world = World::new(threads, &table("one", "127.0.0.1:0", ""), &[]);
        let address = world.broker.other_address(0);
        let mut first: Vec<Client> = ["a", "b", "c"].map(|id| connecting(address, id).open()).into();
        let answer = world.reload(&table("one", "127.0.0.1:0", "limits.connections = 2\nack = \"os\"")).expect(200);
        assert_eq!(keys(&answer, "applied"), ["listener one: limits.connections"]);
        assert_eq!(keys(&answer, "applied_to_new_connections"), ["listener one: ack"]);
        assert_eq!(keys(&answer, "listeners_added").len(), 0);
        assert!(Client::dial(Transport::Tcp(address), V5).is_closed_without_data(), "the limit is reached");
        first.iter_mut().for_each(Client::ping);
        // From here on each connection starts with a PROXY header.
        world
            .reload(&table("one", "127.0.0.1:0", "auth.anonymous = true\nproxy.trusted_networks = [\"127.0.0.0/8\"]"))
            .expect(200);
        first.iter_mut().for_each(Client::ping);
        let mut client = Client::dial(Transport::Tcp(address), V5);
        client.send_bytes(&connecting(address, "no-header").bytes());
        client.expect_closed();
        let mut client = Client::dial(Transport::Tcp(address), V5);
        client.send_bytes(b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 1883\r\n");
        client.send_bytes(&connecting(address, "header").bytes());
        client.expect_accepted();
        // A limit per address; existing connections were not counted.
        let limited = "[limits]\nconnections_per_address = 1\n";
        world.reload(&format!("{limited}{}", table("one", "127.0.0.1:0", ""))).expect(200);
        let mut one = connecting(address, "counted").open();
        assert!(Client::dial(Transport::Tcp(address), V5).is_closed_without_data());
        first.iter_mut().for_each(Client::ping);
        drop(first);
        one.ping();
        assert!(Client::dial(Transport::Tcp(address), V5).is_closed_without_data());
    }
}

#[test]
fn the_mode_of_a_unix_socket_can_change() {
    let folder = Folder::new(&[]);
    let path = folder.path().join("s");
    let at = format!("unix:{}", path.display());
    let world = World::within(folder, 1, &table("local", &at, ""), &[]);
    let mode = || fs::metadata(&path).expect("the socket exists").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o660);
    world.reload(&table("local", &at, "mode = \"600\"")).expect(200);
    assert_eq!(mode(), 0o600);
    world.reload("").expect(200);
    assert!(!path.exists());
}

/// Changed keys, authorities and client certificate rules apply to new handshakes.
#[test]
fn tls_keys_apply_to_new_handshakes() {
    let folder = Folder::new(&[]);
    let (all, own) = (Authority::new(), Authority::new());
    all.write(&folder, "all");
    own.write(&folder, "own");
    let listeners = format!("{}{}", table("a", "mqtts://127.0.0.1:0", ""), table("b", "mqtts://127.0.0.1:0", ""));
    let tls = |name: &str, more: &str| format!("[tls]\ncertificate = \"{name}.pem\"\nkey = \"{name}.key\"\n{more}\n");
    let world = World::within(folder, 2, &format!("{}{listeners}", tls("all", "")), &[]);
    let (a, b) = (world.broker.other_address(0), world.broker.other_address(1));
    let mut old = secured(&all, a);
    old.open(&connecting(a, "old").bytes());
    let mut other = secured(&all, b);
    other.open(&connecting(b, "other").bytes());

    // A certificate of another authority, and `b` requests a client certificate.
    let asks = "tls.client_certificates = \"required\"\ntls.client_ca = \"own-ca.pem\"";
    let listeners = format!("{}{}", table("a", "mqtts://127.0.0.1:0", ""), table("b", "mqtts://127.0.0.1:0", asks));
    let answer = world.reload(&format!("{}{listeners}", tls("own", "minimum_version = \"1.3\""))).expect(200);
    let new = ["tls.certificate", "tls.key", "tls.minimum_version"].map(str::to_owned).into_iter();
    let of_b = ["client_certificates", "client_ca"].map(|key| format!("listener b: tls.{key}"));
    assert_eq!(keys(&answer, "applied_to_new_connections"), new.chain(of_b).collect::<Vec<_>>());
    assert!(secured(&all, a).exchange(&connecting(a, "c").bytes(), &mut [0; 4]).is_err(), "it has another certificate");
    secured(&own, a).open(&connecting(a, "c").bytes());
    assert!(
        secured(&own, b).exchange(&connecting(b, "d").bytes(), &mut [0; 4]).is_err(),
        "a client certificate is missing"
    );
    let stream = TcpStream::connect(b).expect("the broker listens");
    own.connect(stream, Some(own.client("device"))).open(&connecting(b, "d").bytes());
    old.ping();
    other.ping();

    // An invalid configuration changes nothing.
    let before = world.config();
    let refused = world.reload(&format!("{}{listeners}", tls("missing", ""))).expect(422);
    assert!(refused.body.contains("missing.pem"), "{}", refused.body);
    assert_eq!(world.config(), before);
    secured(&own, a).open(&connecting(a, "e").bytes());
    old.ping();
}
