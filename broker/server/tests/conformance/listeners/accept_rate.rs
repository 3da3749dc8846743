//! Limits on connections and connection rates per address, enforced before anything else is done for a connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::{connect, connecting};
use crate::support::tls::Authority;
use crate::support::{Broker, Client, EXPECT_TIMEOUT, Folder, V5, Wire};
use crate::sys::await_number;

/// Another address of this machine, for clients that must not be affected.
const OTHER: &str = "[[listener]]\nname = \"other\"\naddress = \"[::1]:0\"\n";

fn is_accepted(address: SocketAddr, client_id: &str) -> Option<Client> {
    let mut client = connecting(address, client_id).send_unless_closed();
    // A refused connection is closed, perhaps before the client has written.
    let is_closed = client.is_closed_without_data();
    (!is_closed).then(|| {
        client.expect_accepted();
        client
    })
}

/// Retries until a connection is accepted.
#[track_caller]
fn eventually_accepted(address: SocketAddr, client_id: &str) -> Client {
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    loop {
        if let Some(client) = is_accepted(address, client_id) {
            return client;
        }
        assert!(Instant::now() < deadline, "no connection is accepted");
        std::thread::yield_now();
    }
}

/// `limits.connections_per_address`
#[test]
fn connections_per_address_are_limited() {
    let folder = Folder::new(&[]);
    let settings = ["limits.connections_per_address=3", "sys.interval_s=1"];
    let broker = Broker::with_listeners(2, &folder, OTHER, &settings);
    let mut clients: Vec<Client> =
        (0..3).map(|number| connect(broker.address(), &format!("client-{number}"))).collect();
    for _ in 0..3 {
        assert!(is_accepted(broker.address(), "one-more").is_none());
    }
    let mut observer = connect(broker.other_address(0), "observer");
    await_number(&mut observer, "tautwire/connections_refused_for_address", |count| count == 3.0);
    clients.pop();
    eventually_accepted(broker.address(), "one-more").ping();
    for client in &mut clients {
        client.ping();
    }
    let log = broker.end();
    assert!(
        log.contains("refused connection: limits.connections_per_address is reached listener=mqtt://127.0.0.1:0 address=127.0.0.1:"),
        "{log}"
    );
}

/// `limits.connect_rate_per_address` and its burst: a connection that exceeds the rate is refused, another address is not affected, and
/// later connections are accepted again.
#[test]
fn the_accept_rate_per_address_is_limited() {
    let folder = Folder::new(&[]);
    let settings = ["limits.connect_rate_per_address=1", "limits.connect_burst_per_address=3", "sys.interval_s=1"];
    let broker = Broker::with_listeners(1, &folder, OTHER, &settings);
    let started_at = Instant::now();
    let accepted =
        (0..20).filter(|number| is_accepted(broker.address(), &format!("client-{number}")).is_some()).count();
    let most = 3 + started_at.elapsed().as_secs() as usize + 1;
    assert!((3..=most).contains(&accepted), "{accepted} of 20, where {most} may be");
    let mut observer = connect(broker.other_address(0), "observer");
    await_number(&mut observer, "tautwire/connections_refused_for_rate", |count| count == (20 - accepted) as f64);
    eventually_accepted(broker.address(), "later").ping();
}

/// `limits.connect_rate` applies to all addresses together.
#[test]
fn the_total_accept_rate_is_limited() {
    let folder = Folder::new(&[]);
    let settings = ["limits.connect_rate=1", "limits.connect_burst=4"];
    let broker = Broker::with_listeners(1, &folder, OTHER, &settings);
    let started_at = Instant::now();
    let addresses = [broker.address(), broker.other_address(0)];
    let accepted = (0..20).filter(|number| is_accepted(addresses[number % 2], &format!("client-{number}")).is_some());
    let accepted = accepted.count();
    let most = 4 + started_at.elapsed().as_secs() as usize + 1;
    assert!((4..=most).contains(&accepted), "{accepted} of 20, where {most} may be");
    eventually_accepted(addresses[0], "later").ping();
}

/// A refused connection does not start a TLS handshake.
#[test]
fn refused_connections_need_no_handshake() {
    let (folder, authority) = (Folder::new(&[]), Authority::new());
    authority.write(&folder, "all");
    let tables = format!(
        "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n{OTHER}\
         [[listener]]\nname = \"tls\"\naddress = \"mqtts://127.0.0.1:0\"\n"
    );
    let settings = ["limits.connections_per_address=1", "sys.interval_s=1"];
    let broker = Broker::with_listeners(2, &folder, &tables, &settings);
    let address = broker.other_address(1);
    let mut first = authority.connect(TcpStream::connect(address).expect("the broker listens"), None);
    first.open(&connecting(address, "first").bytes());
    for _ in 0..10 {
        let mut refused = TcpStream::connect(address).expect("the kernel takes it");
        refused.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        let mut received = Vec::new();
        refused.read_to_end(&mut received).expect("the broker closes");
        assert_eq!(received, b"", "the broker closes without a TLS alert");
    }
    first.ping();
    let mut observer = connect(broker.other_address(0), "observer");
    await_number(&mut observer, "tautwire/connections_refused_for_address", |count| count == 10.0);
    await_number(&mut observer, "tautwire/tls_handshakes", |count| count == 1.0);
    await_number(&mut observer, "tautwire/tls_handshakes_failed", |count| count == 0.0);
}

/// Behind a proxy, the client addresses it reports count; for IPv6 their first 64 bits.
#[test]
fn clients_behind_a_proxy_are_counted_by_their_own_address() {
    let folder = Folder::new(&[]);
    let tables = format!(
        "{OTHER}[[listener]]\naddress = \"127.0.0.1:0\"\nproxy.trusted_networks = \"127.0.0.1\"\n\
                          auth.anonymous = true\n"
    );
    let settings = ["limits.connections_per_address=2", "sys.interval_s=1"];
    let broker = Broker::with_listeners(1, &folder, &tables, &settings);
    let connect_from = |source: &str, client_id: &str| {
        let mut stream = TcpStream::connect(broker.other_address(1)).expect("the broker listens");
        let connect = connecting(broker.other_address(1), client_id).bytes();
        stream.write_all(&[source.as_bytes(), &connect].concat()).expect("the broker accepts the data");
        let mut client = Client::on(Wire::Tcp(stream), V5);
        let is_closed = client.is_closed_without_data();
        (!is_closed).then_some(client)
    };
    let v6 = |network: u16, host: u16| format!("PROXY TCP6 2001:db8:0:{network:x}::{host:x} ::1 1 2\r\n");
    let mut clients: Vec<_> =
        (0..5).filter_map(|network| connect_from(&v6(network, 1), &format!("client-{network}"))).collect();
    assert_eq!(clients.len(), 5, "they exceed the limit of one address");
    clients.extend(connect_from(&v6(0, 2), "same network"));
    assert_eq!(clients.len(), 6);
    assert!(connect_from(&v6(0, 3), "one more").is_none());
    assert!(connect_from("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "v4").is_some());
    let mut observer = connect(broker.other_address(0), "observer");
    await_number(&mut observer, "tautwire/connections_refused_for_address", |count| count == 1.0);
    clients.remove(0);
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while connect_from(&v6(0, 3), "one more").is_none() {
        assert!(Instant::now() < deadline, "the limit is still reached");
    }
}
