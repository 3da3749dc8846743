//! Listeners, TLS, and settings of a `[[listener]]` table that override the global ones.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::Write as _;
use tautwire_protocol::PropertyId;

use super::auth::by_certificate;
use super::limits::connect_five;
use super::offer::{connect_result, connects_without_client_id, is_assigned_prefixed_client_id};
use super::{ACCEPTED, After, Before, NO, ReloadTest, Row, YES, code, connack_of, try_all, yes_if};
use crate::support::{AtLeastOnce, Client, ConnectBuilder, Transport, V5, program};

const PLAIN: &str = "[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\n{}\n";
const FOR_ALL: &str = "tls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n{}\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n";
const TRUSTING: &str = "tls.client_ca = \"all-ca.pem\"\ntls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n{}\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n";
const OF_ONE: &str = "tls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n{}\n";
const WITH_CLIENTS: &str = "tls.certificate = \"all.pem\"\ntls.key = \"all.key\"\ntls.client_certificates = \"required\"\n{}\n\
     [[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n";
const OF_ONE_WITH_CLIENTS: &str = "tls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n[[listener]]\nname = \"own\"\n\
     address = \"mqtts://127.0.0.1:0\"\ntls.client_certificates = \"required\"\n{}\n";
const REVOKING: &str = "tls.certificate = \"made/server.pem\"\ntls.key = \"made/server.key\"\ntls.client_ca = \"made/ca.pem\"\n\
     tls.client_certificates = \"required\"\n{}\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n";
const ONE_REVOKING: &str = "tls.certificate = \"made/server.pem\"\ntls.key = \"made/server.key\"\ntls.client_ca = \"made/ca.pem\"\n\
     tls.client_certificates = \"required\"\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n{}\n";
const BY_CERTIFICATE: &str = "auth.password_file = \"users\"\ntls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n\
     tls.client_ca = \"all-ca.pem\"\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n\
     tls.client_certificates = \"required\"\n{}\n";

const OF_PROXY: &str = "[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\nauth.anonymous = true\nproxy.trusted_networks = [\"127.0.0.1\"]\n{}\n";

/// What a proxy reports with `PP2_TYPE_SSL`: whether the client uses TLS and has a certificate, and the verification result (0: valid).
type OfClient = [u8; 5];
const PLAIN_CLIENT: OfClient = [0, 0, 0, 0, 1];
const TLS_CLIENT: OfClient = [1, 0, 0, 0, 1];
const CERTIFIED_CLIENT: OfClient = [7, 0, 0, 0, 0];

const SUITE: &str = "TLS13_CHACHA20_POLY1305_SHA256";

pub(super) const ROWS: &[Row] = &[
    Row {
        keys: &["listen"],
        file: "{}\n",
        off: "",
        on: "listen = [\"127.0.0.1:0\", \"ws://127.0.0.1:0/mqtt\", \"unix:SOCKET\"]",
        see: After(|scene| yes_if(scene.folder.path().join("socket").exists())),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["limits.tls_handshakes"],
        file: FOR_ALL,
        off: "",
        on: "limits.tls_handshakes = 1",
        see: After(|scene| {
            let silent = [1, 2].map(|_| Client::dial(Transport::Tcp(scene.own()), V5));
            let one = |client: &Client| client.has_input_within(scene.patience(NO) / 2);
            yes_if(!silent.iter().any(one))
        }),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["tls.certificate", "tls.key"],
        file: "{}\n[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n",
        off: "tls.certificate = \"all.pem\"\ntls.key = \"all.key\"",
        on: "tls.certificate = \"other.pem\"\ntls.key = \"other.key\"",
        see: After(is_other_certificate_served),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["tls.client_certificates"],
        file: TRUSTING,
        off: "tls.client_certificates = \"optional\"",
        on: "tls.client_certificates = \"required\"",
        see: After(connects_without_certificate),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["tls.client_ca"],
        file: WITH_CLIENTS,
        off: "tls.client_ca = \"all-ca.pem\"",
        on: "tls.client_ca = \"other-ca.pem\"",
        see: After(connects_with_certificate),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["tls.crl"],
        file: REVOKING,
        off: "",
        on: "tls.crl = \"made/revoked.pem\"",
        see: After(connects_with_revoked),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["tls.minimum_version"],
        file: FOR_ALL,
        off: "",
        on: "tls.minimum_version = \"1.3\"",
        see: After(accepts_tls_1_2),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["tls.cipher_suites"],
        file: FOR_ALL,
        off: "",
        on: "tls.cipher_suites = [\"TLS13_CHACHA20_POLY1305_SHA256\"]",
        see: After(|scene| yes_if(suite(scene) == SUITE)),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["listener name"],
        file: "[[listener]]\naddress = \"127.0.0.1:0\"\n{}\n",
        off: "name = \"own\"",
        on: "name = \"another\"",
        see: After(|scene| yes_if(scene.ask("GET", "/config").body.contains("name = \"another\""))),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["listener address"],
        file: "[[listener]]\nname = \"own\"\n{}\n",
        off: "address = \"127.0.0.1:0\"",
        on: "address = \"127.0.0.2:0\"",
        see: After(|scene| {
            assert_eq!(scene.connects(), ACCEPTED);
            scene.own().ip().to_string()
        }),
        without: "127.0.0.1",
        with: "127.0.0.2",
    },
    Row {
        keys: &["listener limits.connections"],
        file: PLAIN,
        off: "",
        on: "limits.connections = 3",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener mode"],
        file: "[[listener]]\nname = \"own\"\naddress = \"unix:SOCKET\"\n{}\n",
        off: "",
        on: "mode = \"600\"",
        see: After(|scene| {
            let metadata = fs::metadata(scene.folder.path().join("socket")).expect("the socket exists");
            format!("{:o}", metadata.permissions().mode() & 0o777)
        }),
        without: "660",
        with: "600",
    },
    Row {
        keys: &["listener auth.anonymous"],
        file: "auth.password_file = \"users\"\n[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\n{}\n",
        off: "",
        on: "auth.anonymous = true",
        see: After(|scene| super::connect_result(&ConnectBuilder::new(Transport::Tcp(scene.own()), V5, &scene.name()))),
        without: "0x87",
        with: ACCEPTED,
    },
    Row {
        keys: &["listener auth.password_file"],
        file: PLAIN,
        off: "",
        on: "auth.password_file = \"users\"",
        see: After(|scene| super::connect_result(&scene.connecting(&scene.name()).password(b"wrong"))),
        without: ACCEPTED,
        with: "0x86",
    },
    Row {
        keys: &["listener auth.plaintext_passwords"],
        file: "auth.password_file = \"users\"\n[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\n\
               proxy.trusted_networks = [\"127.0.0.1\"]\n{}\n",
        off: "",
        on: "auth.plaintext_passwords = true",
        see: After(super::auth::connect_from_other_address),
        without: "0x87",
        with: ACCEPTED,
    },
    Row {
        keys: &["listener auth.certificate_identity"],
        file: BY_CERTIFICATE,
        off: "",
        on: "auth.certificate_identity = \"none\"",
        see: After(by_certificate),
        without: ACCEPTED,
        with: "0x87",
    },
    Row {
        keys: &["listener auth.certificate_rules"],
        file: BY_CERTIFICATE,
        off: "",
        on: "auth.certificate_rules = [{ cn = \"other-*\", user = \"{*}\" }]",
        see: After(by_certificate),
        without: ACCEPTED,
        with: "0x87",
    },
    Row {
        keys: &["listener acl.file"],
        file: PLAIN,
        off: "",
        on: "acl.file = \"rules.toml\"",
        see: Before(super::files::may_publish),
        without: "0x10",
        with: "0x87",
    },
    Row {
        keys: &["listener limits.connections_per_address"],
        file: PLAIN,
        off: "",
        on: "limits.connections_per_address = 3",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener limits.connect_rate"],
        file: PLAIN,
        off: "",
        on: "limits.connect_rate = 1",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener limits.connect_burst"],
        file: "[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\nlimits.connect_rate = 1\n{}\n",
        off: "",
        on: "limits.connect_burst = 1000",
        see: After(connect_five),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["listener limits.connect_rate_per_address"],
        file: PLAIN,
        off: "",
        on: "limits.connect_rate_per_address = 1",
        see: After(connect_five),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener limits.connect_burst_per_address"],
        file: "[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\nlimits.connect_rate_per_address = 1\n{}\n",
        off: "",
        on: "limits.connect_burst_per_address = 1000",
        see: After(connect_five),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["listener mount_point"],
        file: PLAIN,
        off: "",
        on: "mount_point = \"inside/\"",
        see: After(|scene| {
            let name = scene.name();
            let mut outside = scene.broker.connect(V5, "outside");
            outside.subscribe(&format!("+/{name}"), AtLeastOnce);
            outside.subscribe(&name, AtLeastOnce);
            assert_eq!(scene.connecting(&name).open().publish(&name, AtLeastOnce, b""), 0);
            outside.receive().topic().trim_end_matches(&name).to_owned()
        }),
        without: "",
        with: "inside/",
    },
    Row {
        keys: &["listener mqtt.receive_maximum"],
        file: PLAIN,
        off: "",
        on: "mqtt.receive_maximum = 7",
        see: After(|scene| connect_result(scene, PropertyId::ReceiveMaximum)),
        without: "1024",
        with: "7",
    },
    Row {
        keys: &["listener mqtt.maximum_packet_size"],
        file: PLAIN,
        off: "",
        on: "mqtt.maximum_packet_size = 5000",
        see: After(|scene| connect_result(scene, PropertyId::MaximumPacketSize)),
        without: "16777216",
        with: "5000",
    },
    Row {
        keys: &["listener mqtt.max_keep_alive_s"],
        file: PLAIN,
        off: "",
        on: "mqtt.max_keep_alive_s = 5",
        see: After(|scene| connect_result(scene, PropertyId::ServerKeepAlive)),
        without: "none",
        with: "5",
    },
    Row {
        keys: &["listener mqtt.max_session_expiry_s"],
        file: PLAIN,
        off: "",
        on: "mqtt.max_session_expiry_s = 5",
        see: After(|scene| connect_result(scene, PropertyId::SessionExpiryInterval)),
        without: "none",
        with: "5",
    },
    Row {
        keys: &["listener mqtt.max_qos"],
        file: PLAIN,
        off: "",
        on: "mqtt.max_qos = 1",
        see: After(|scene| connect_result(scene, PropertyId::MaximumQoS)),
        without: "none",
        with: "AtLeastOnce",
    },
    Row {
        keys: &["listener mqtt.topic_alias_maximum"],
        file: PLAIN,
        off: "",
        on: "mqtt.topic_alias_maximum = 3",
        see: After(|scene| connect_result(scene, PropertyId::TopicAliasMaximum)),
        without: "64",
        with: "3",
    },
    Row {
        keys: &["listener mqtt.protocol_versions"],
        file: PLAIN,
        off: "",
        on: "mqtt.protocol_versions = \"3.1.1\"",
        see: After(ReloadTest::connects),
        without: ACCEPTED,
        with: "0x84",
    },
    Row {
        keys: &["listener mqtt.allow_empty_client_id"],
        file: PLAIN,
        off: "",
        on: "mqtt.allow_empty_client_id = false",
        see: After(connects_without_client_id),
        without: ACCEPTED,
        with: "0x85",
    },
    Row {
        keys: &["listener mqtt.assigned_client_id_prefix"],
        file: PLAIN,
        off: "",
        on: "mqtt.assigned_client_id_prefix = \"gate-\"",
        see: After(is_assigned_prefixed_client_id),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["listener proxy.trusted_networks"],
        file: "[[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\nauth.anonymous = true\n{}\n",
        off: "",
        on: "proxy.trusted_networks = [\"127.0.0.1\"]",
        see: After(|scene| scene.connects()),
        without: ACCEPTED,
        with: super::CLOSED,
    },
    Row {
        keys: &["listener proxy.require_tls"],
        file: OF_PROXY,
        off: "",
        on: "proxy.require_tls = true",
        see: After(|scene| by_proxy(scene, [PLAIN_CLIENT, TLS_CLIENT])),
        without: "0x0 0x0",
        with: "closed 0x0",
    },
    Row {
        keys: &["listener proxy.require_certificate"],
        file: OF_PROXY,
        off: "",
        on: "proxy.require_certificate = true",
        see: After(|scene| by_proxy(scene, [TLS_CLIENT, CERTIFIED_CLIENT])),
        without: "0x0 0x0",
        with: "closed 0x0",
    },
    Row {
        keys: &["listener tls.certificate", "listener tls.key"],
        file: "[[listener]]\nname = \"own\"\naddress = \"mqtts://127.0.0.1:0\"\n{}\n",
        off: "tls.certificate = \"all.pem\"\ntls.key = \"all.key\"",
        on: "tls.certificate = \"other.pem\"\ntls.key = \"other.key\"",
        see: After(is_other_certificate_served),
        without: NO,
        with: YES,
    },
    Row {
        keys: &["listener tls.client_certificates"],
        file: "tls.client_ca = \"all-ca.pem\"\ntls.certificate = \"all.pem\"\ntls.key = \"all.key\"\n[[listener]]\nname = \"own\"\n\
               address = \"mqtts://127.0.0.1:0\"\n{}\n",
        off: "tls.client_certificates = \"optional\"",
        on: "tls.client_certificates = \"required\"",
        see: After(connects_without_certificate),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener tls.client_ca"],
        file: OF_ONE_WITH_CLIENTS,
        off: "tls.client_ca = \"all-ca.pem\"",
        on: "tls.client_ca = \"other-ca.pem\"",
        see: After(connects_with_certificate),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener tls.crl"],
        file: ONE_REVOKING,
        off: "",
        on: "tls.crl = \"made/revoked.pem\"",
        see: After(connects_with_revoked),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener tls.minimum_version"],
        file: OF_ONE,
        off: "",
        on: "tls.minimum_version = \"1.3\"",
        see: After(accepts_tls_1_2),
        without: YES,
        with: NO,
    },
    Row {
        keys: &["listener tls.cipher_suites"],
        file: OF_ONE,
        off: "",
        on: "tls.cipher_suites = [\"TLS13_CHACHA20_POLY1305_SHA256\"]",
        see: After(|scene| yes_if(suite(scene) == SUITE)),
        without: NO,
        with: YES,
    },
];

#[test]
fn listener_and_tls_keys_apply_and_can_be_reverted() {
    try_all(ROWS, &[]);
}

/// Certificates that can be revoked, in the folder `made`.
pub(super) fn make_certificates(folder: &crate::support::Folder) {
    let made = folder.path().join("made");
    let run = |arguments: &[&str]| {
        let output = Command::new(program()).args(["cert", "--dir"]).arg(&made).args(arguments).output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{output:?}");
    };
    run(&["--client", "device"]);
    run(&["--revoke", &made.join("device.pem").display().to_string()]);
}

fn connect_bytes(scene: &ReloadTest) -> Vec<u8> {
    scene.connecting(&scene.name()).bytes()
}

/// The results for two clients that a proxy describes like this.
fn by_proxy(scene: &ReloadTest, clients: [OfClient; 2]) -> String {
    clients.map(|of_client| address_from_proxy(scene, of_client)).join(" ")
}

fn address_from_proxy(scene: &ReloadTest, of_client: OfClient) -> String {
    // Version 2, TCP over IPv4, with addresses and one TLV.
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14".to_vec();
    bytes.extend([192, 0, 2, 7, 10, 0, 0, 1, 0xC0, 0x01, 0x07, 0x5B]);
    bytes.extend([0x20, 0, 5]);
    bytes.extend(of_client);
    bytes.extend(connect_bytes(scene));
    let mut client = Client::dial(Transport::Tcp(scene.own()), V5);
    client.send_bytes_unless_closed(&bytes);
    connack_of(&mut client)
}

fn is_other_certificate_served(scene: &ReloadTest) -> String {
    let shows = |authority| scene.secured(authority).exchange(&connect_bytes(scene), &mut [0; 4]).is_ok();
    let (all, other) = (shows(&scene.all), shows(&scene.other));
    assert_ne!(all, other, "one of the two is shown");
    yes_if(other)
}

fn connects_without_certificate(scene: &ReloadTest) -> String {
    yes_if(scene.secured(&scene.all).exchange(&connect_bytes(scene), &mut [0; 4]).is_ok())
}

fn connects_with_certificate(scene: &ReloadTest) -> String {
    let stream = TcpStream::connect(scene.own()).expect("the broker listens");
    let mut client = scene.all.connect(stream, Some(scene.all.client("device")));
    yes_if(client.exchange(&connect_bytes(scene), &mut [0; 4]).is_ok())
}

fn connects_with_revoked(scene: &ReloadTest) -> String {
    let made = scene.folder.path().join("made");
    let mut roots = RootCertStore::empty();
    roots.add(pem(&made.join("ca.pem"))).expect("an authority");
    let config = builder(rustls::ALL_VERSIONS).with_root_certificates(roots);
    let key = rustls::pki_types::pem::PemObject::from_pem_file(made.join("device.key")).expect("a key");
    let config = config.with_client_auth_cert(vec![pem(&made.join("device.pem"))], key).expect("they fit");
    yes_if(negotiated_suite(config, scene.own(), &connect_bytes(scene)).is_some())
}

fn accepts_tls_1_2(scene: &ReloadTest) -> String {
    yes_if(negotiated_suite(trusting(scene, &[&rustls::version::TLS12]), scene.own(), &connect_bytes(scene)).is_some())
}

/// The cipher suite negotiated by a client that offers all.
fn suite(scene: &ReloadTest) -> String {
    negotiated_suite(trusting(scene, rustls::ALL_VERSIONS), scene.own(), &connect_bytes(scene)).expect("it is accepted")
}

fn builder(
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions")
}

fn trusting(scene: &ReloadTest, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(pem(&scene.folder.path().join("all-ca.pem"))).expect("an authority");
    builder(versions).with_root_certificates(roots).with_no_client_auth()
}

fn pem(path: &std::path::Path) -> rustls::pki_types::CertificateDer<'static> {
    rustls::pki_types::pem::PemObject::from_pem_file(path).expect("a certificate")
}

/// Connects, and returns the cipher suite after CONNACK.
fn negotiated_suite(config: ClientConfig, address: SocketAddr, connect: &[u8]) -> Option<String> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(address).expect("the broker listens");
    stream.set_read_timeout(Some(crate::support::EXPECT_TIMEOUT)).expect("a timeout");
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(connect).ok()?;
    let mut start = [0; 4];
    std::io::Read::read_exact(&mut stream, &mut start).ok()?;
    assert_eq!(code(start[3]), ACCEPTED);
    stream.conn.negotiated_cipher_suite()?.suite().as_str().map(str::to_owned)
}
