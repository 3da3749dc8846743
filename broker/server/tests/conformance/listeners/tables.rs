//! Tables `[[listener]]` of the configuration file.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::{connect, connecting, counted};
use crate::support::{AtLeastOnce, Broker, EXPECT_TIMEOUT, Folder, TOKEN, V5};

/// Starts a broker with these tables and an admin API.
fn with_admin(folder: &Folder, tables: &str) -> Broker {
    folder.write("token", TOKEN);
    let token = format!("admin.token_file={}", folder.path().join("token").display());
    Broker::with_listeners(2, folder, tables, &["admin.listen=127.0.0.1:0", &token])
}

/// Clients of all listeners exchange messages.
#[test]
fn listener_tables_are_used_with_the_list() {
    let folder = Folder::new(&[]);
    let tables = "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n\
                  [[listener]]\naddress = \"[::1]:0\"\nlimits.connections = 5\n";
    let broker = Broker::with_listeners(1, &folder, tables, &[]);
    assert!(broker.other(1).starts_with("mqtt://[::1]:"), "{}", broker.other(1));
    let mut publisher = connect(broker.other_address(0), "publisher");
    let mut by_ipv6 = connect(broker.other_address(1), "subscriber");
    let mut by_list = broker.connect(V5, "other");
    for subscriber in [&mut by_ipv6, &mut by_list] {
        subscriber.subscribe("t", AtLeastOnce);
    }
    publisher.publish("t", AtLeastOnce, b"x");
    assert_eq!((by_ipv6.receive().text(), by_list.receive().text()), ("x", "x"));
}

/// `[::]` serves IPv4 as well, unless the system is configured otherwise (`net.ipv6.bindv6only`).
#[test]
fn the_unspecified_address_of_ipv6_serves_both_families() {
    let folder = Folder::new(&[]);
    let broker = Broker::with_listeners(1, &folder, "[[listener]]\naddress = \"[::]:0\"\nauth.anonymous = true\n", &[]);
    let port = broker.other_address(0).port();
    connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "v4").ping();
    connect(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)), "v6").ping();
}

/// `connections` of a table: further connections are refused and counted, other listeners are not affected, and a closed connection makes
/// room.
#[test]
fn a_listener_has_its_own_connection_limit() {
    let folder = Folder::new(&[]);
    let broker =
        with_admin(&folder, "[[listener]]\nname = \"few\"\naddress = \"127.0.0.1:0\"\nlimits.connections = 2\n");
    let (address, admin) = (broker.other_address(0), broker.admin_address());
    let mut first = connect(address, "first");
    let second = connect(address, "second");
    let mut third = connecting(address, "third").send_unless_closed();
    assert!(third.bytes_until_closed().is_empty());
    assert_eq!(counted(admin, "connections", "few"), 2);
    assert_eq!(
        (counted(admin, "connections_accepted_total", "few"), counted(admin, "connections_refused_total", "few")),
        (2, 1)
    );
    broker.connect(V5, "elsewhere").ping();
    first.ping();
    drop(second);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while counted(admin, "connections", "few") == 2 {
        assert!(Instant::now() < deadline, "the limit is still reached");
    }
    connect(address, "fourth").ping();
    let log = broker.end();
    assert!(
        log.contains(
            "refused connection: the connection limit of the listener is reached listener=few address=127.0.0.1:"
        ),
        "{log}"
    );
}

/// A connection counts for its listener until it is closed, on whichever thread it is served.
#[test]
fn connections_are_counted_for_their_listener_on_all_threads() {
    let folder = Folder::new(&[]);
    let broker = with_admin(&folder, "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n");
    let admin = broker.admin_address();
    let names: Vec<String> = (0..16).map(|number| format!("client-{number}")).collect();
    let clients: Vec<_> = names.iter().map(|name| connect(broker.other_address(0), name)).collect();
    assert_eq!(counted(admin, "connections", "a"), 16);
    assert_eq!(
        counted(admin, "connections_accepted_total", "a"),
        16,
        "moving to another thread is not a new connection"
    );
    drop(clients);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while counted(admin, "connections", "a") > 0 {
        assert!(Instant::now() < deadline, "closed connections are still counted");
    }
}
