//! TLS of a table `[[listener]]`.

use std::net::{SocketAddr, TcpStream};

use super::connecting;
use crate::support::tls::{Authority, Secured};
use crate::support::{Broker, Folder};

fn dial(authority: &Authority, address: SocketAddr) -> Secured {
    authority.connect(TcpStream::connect(address).expect("the broker listens"), None)
}

/// The keys of the table go before those of `[tls]`, one by one.
#[test]
fn a_listener_shows_a_certificate_of_its_own_and_asks_for_those_of_clients() {
    let folder = Folder::new(&[]);
    let (all, own) = (Authority::new(), Authority::new());
    all.write(&folder, "all");
    own.write(&folder, "own");
    let tables = "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\n\
                  [[listener]]\nname = \"a\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                  [[listener]]\nname = \"b\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                  [listener.tls]\ncertificate = \"own.pem\"\nkey = \"own.key\"\n\
                  [[listener]]\nname = \"c\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                  tls.client_certificates = \"required\"\ntls.client_ca = \"own-ca.pem\"\n";
    let broker = Broker::with_listeners(2, &folder, tables, &["log.level=debug"]);
    let (a, b, c) = (broker.other_address(0), broker.other_address(1), broker.other_address(2));
    let connect = connecting(a, "client").bytes();
    let mut by_a = dial(&all, a);
    by_a.open(&connect);
    dial(&own, b).open(&connecting(b, "other").bytes());
    assert!(dial(&all, b).exchange(&connect, &mut [0; 4]).is_err(), "the broker shows the other certificate");
    assert!(dial(&all, c).exchange(&connect, &mut [0; 4]).is_err(), "it shows none");
    let mut by_c = all.connect(TcpStream::connect(c).expect("the broker listens"), Some(own.client("device-7")));
    by_c.open(&connecting(c, "third").bytes());
    by_a.ping();
    let log = broker.end();
    assert!(log.contains("listener a: a handshake of TLS is over, without a certificate of the client"), "{log}");
    assert!(log.contains("listener c: a handshake of TLS is over, with a certificate of the client"), "{log}");
    for listener in ["b", "c"] {
        assert!(log.contains(&format!("listener {listener}: a TLS handshake failed")), "{log}");
    }
    assert!(!log.contains("device-7"), "names of clients are not for the log: {log}");
}
