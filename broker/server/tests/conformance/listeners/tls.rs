//! TLS settings of a table `[[listener]]`.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use super::connecting;
use crate::support::tls::{Authority, Secured};
use crate::support::{Broker, EXPECT_TIMEOUT, Folder};

fn dial(authority: &Authority, address: SocketAddr) -> Secured {
    authority.connect(TcpStream::connect(address).expect("the broker listens"), None)
}

/// The keys of the table override those of `[tls]`, each by itself.
#[test]
fn a_listener_has_its_own_certificate_and_client_authority() {
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
    assert!(log.contains("listener a: TLS handshake completed without a client certificate"), "{log}");
    assert!(log.contains("listener c: TLS handshake completed with a client certificate"), "{log}");
    for listener in ["b", "c"] {
        assert!(
            log.lines().any(|line| {
                line.contains("refused connection: the TLS handshake failed")
                    && line.contains(&format!(" listener={listener} address=127.0.0.1:"))
            }),
            "{log}"
        );
    }
    assert!(!log.contains("device-7"), "names of clients are not for the log: {log}");
}

/// `auth.certificate_rules`: the first matching rule names the user and the client; a client without a match is refused.
#[test]
fn certificates_identify_clients_by_rules() {
    let folder = Folder::new(&[]);
    let authority = Authority::new();
    authority.write(&folder, "all");
    let tables = "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\nclient_certificates = \"required\"\nclient_ca = \"all-ca.pem\"\n\
                  [audit]\nfile = \"audit.log\"\n\
                  [auth]\ncertificate_identity = \"none\"\n\
                  [[auth.certificate_rules]]\nissuer = \"somebody else\"\nuser = \"wrong\"\n\
                  [[auth.certificate_rules]]\nissuer = \"rcgen *\"\ncn = \"sensor-*\"\nuser = \"device {cn}\"\nclient_id = \"{cn}/{issuer}\"\n\
                  [[auth.certificate_rules]]\ncn = \"guest\"\nuser = \"{cn}\"\n\
                  [[listener]]\nname = \"a\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                  [[listener]]\nname = \"b\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                  auth.certificate_identity = \"user_and_client_id\"\n\
                  [[listener]]\nname = \"c\"\naddress = \"mqtts://127.0.0.1:0\"\n\
                  auth.certificate_rules = [{ cn = \"*\", user = \"{*}\" }]\n";
    let broker = Broker::with_listeners(1, &folder, tables, &["auth.anonymous=true"]);
    let (a, b, c) = (broker.other_address(0), broker.other_address(1), broker.other_address(2));
    let answer = |address, certificate: &str, client_id: &str| {
        let stream = TcpStream::connect(address).expect("the broker listens");
        let mut client = authority.connect(stream, Some(authority.client(certificate)));
        client.connack(&connecting(address, client_id).bytes())
    };
    let names = |connack: &[u8], name: &str| connack.windows(name.len()).any(|window| window == name.as_bytes());
    let assigned = answer(a, "sensor-7", "");
    assert_eq!(assigned[1], 0);
    assert!(names(&assigned, "sensor-7/rcgen self signed cert"), "[MQTT-3.2.2-16]");
    let replaced = answer(a, "sensor-8", "what it likes");
    assert_eq!((replaced[1], names(&replaced, "sensor-8")), (0, false), "no identifier was requested");
    assert_eq!(answer(a, "guest", "its own")[1], 0);
    assert_eq!(answer(a, "stranger", "stranger")[1], 0x87, "although anonymous clients are accepted");
    assert_eq!(answer(b, "stranger", "what it likes")[1], 0);
    assert_eq!(answer(c, "sensor-9", "mine")[1], 0);
    broker.end();
    let log = folder.read("audit.log");
    let connected = |client_id: &str, user: &str| {
        let (client_id, user) = (format!("\"client_id\":\"{client_id}\""), format!("\"user\":\"{user}\""));
        log.lines().any(|line| line.contains("connect") && line.contains(&client_id) && line.contains(&user))
    };
    for (client_id, user) in [
        ("sensor-7/rcgen self signed cert", "device sensor-7"),
        ("sensor-8/rcgen self signed cert", "device sensor-8"),
        ("its own", "guest"),
        ("stranger", "stranger"),
        ("mine", "sensor-9"),
    ] {
        assert!(connected(client_id, user), "{client_id}, {user}: {log}");
    }
    assert!(!log.contains("what it likes"), "{log}");
}

/// A client that resumes its TLS session shows no certificate, and gets a new ticket. It is not accepted indefinitely with an expired
/// certificate, whether the certificate identifies it or not.
#[test]
fn an_expired_certificate_is_not_resumed_by_tickets() {
    for auth in ["", "auth.certificate_identity = \"none\"\nauth.anonymous = true\n"] {
        let folder = Folder::new(&[]);
        let authority = Authority::new();
        authority.write(&folder, "all");
        let tables = format!(
            "[tls]\ncertificate = \"all.pem\"\nkey = \"all.key\"\nclient_certificates = \"required\"\nclient_ca = \"all-ca.pem\"\n\
             [[listener]]\naddress = \"mqtts://127.0.0.1:0\"\n{auth}"
        );
        // It reconnects repeatedly without DISCONNECT.
        let broker = Broker::with_listeners(1, &folder, &tables, &["limits.flapping_disconnects=0"]);
        let address = broker.other_address(0);
        let soon = SystemTime::now() + Duration::from_secs(3);
        let config = authority.config(Some(authority.client_until("device", soon)));
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        for is_resumed in std::iter::once(false).chain(std::iter::repeat(true)) {
            let stream = TcpStream::connect(address).expect("the broker listens");
            let mut client = Secured::on(config.clone(), stream);
            match client.connack(&connecting(address, "device").bytes())[1] {
                0 => client.ping(),
                code => {
                    assert_eq!((code, SystemTime::now() > soon), (0x87, true));
                    break;
                }
            }
            assert_eq!(client.is_resumed(), is_resumed);
            assert!(Instant::now() < deadline, "it is accepted although its certificate has expired");
        }
    }
}
