//! Server certificates, client certificates, and which handshakes succeed.

use rustls::{AlertDescription, CertificateError, Error};
use tautwire_tls::{ClientCertificates, MinimumVersion, Protocol, TlsErrorKind, TlsServer, TlsServerConfig};

use crate::support::{Authority, Client, Pair, TLS12, TLS13, material, server};

#[test]
fn the_certificate_matches_the_requested_server_name() {
    let authority = Authority::new("a");
    let leaves = [
        authority.issue(&["First.example"], 1),
        authority.issue(&["second.example", "*.wild.example"], 2),
        authority.issue(&["127.0.0.1"], 3),
    ];
    let server = server(TlsServerConfig {
        identities: leaves.iter().map(|leaf| leaf.identity()).collect(),
        ..TlsServerConfig::default()
    });
    for (name, is_right) in [
        ("first.example", true),
        ("FIRST.example", true),
        ("second.example", true),
        ("any.wild.example", true),
        ("a.b.wild.example", false),
        ("wild.example", false),
        ("third.example", false),
        // Clients that connect to an address request no name and get the first certificate.
        ("127.0.0.1", false),
    ] {
        let mut pair = Client { name, ..Client::of(&authority) }.connect(&server);
        pair.run();
        assert_eq!(pair.client_error.is_none(), is_right, "{name}: {:?}", pair.client_error);
        assert_eq!(!pair.client.is_handshaking(), is_right);
    }
}

#[test]
fn a_client_that_refuses_the_certificate_is_reported() {
    let server = server(material(&Authority::new("a").issue(&["localhost"], 1)));
    let mut pair = Client::of(&Authority::new("b")).connect(&server);
    pair.run();
    let failure = pair.tls.take_failure().expect("the client sends an alert");
    assert_eq!(failure.kind(), TlsErrorKind::RefusedByPeer, "{failure}");
}

#[test]
fn client_certificates_are_verified() {
    let authority = Authority::new("a");
    let mine = Authority::new("mine");
    let (good, revoked) = (mine.issue(&["sensor-1"], 10), mine.issue(&["sensor-2"], 11));
    let expired = mine.issue_until(&["sensor-3"], 12, 2001);
    let untrusted = Authority::new("strange").issue(&["sensor-4"], 13);
    let base = material(&authority.issue(&["localhost"], 1));
    for required in [true, false] {
        let server = server(TlsServerConfig {
            client_certificates: if required { ClientCertificates::Required } else { ClientCertificates::Optional },
            client_authorities: vec![mine.pem()],
            revoked: vec![mine.revoke(&[&revoked], 2100)],
            ..base.clone()
        });
        for (certificate, wrong) in [
            (Some(&good), None),
            (Some(&revoked), Some("has been revoked")),
            (Some(&expired), Some("has expired")),
            (Some(&untrusted), Some("authority of tls.client_ca")),
            (None, required.then_some("presented no certificate")),
        ] {
            for versions in [&TLS13, &TLS12] {
                let mut pair =
                    Client { client_certificate: certificate, versions, ..Client::of(&authority) }.connect(&server);
                pair.client_sends(b"x");
                pair.run();
                match wrong {
                    None => {
                        assert!(pair.tls.can_send());
                        assert_eq!(pair.received, b"x");
                        assert_eq!(pair.tls.client_certificate().is_some(), certificate.is_some());
                    }
                    Some(wrong) => {
                        let failure = pair.tls.take_failure().expect("it fails");
                        assert_eq!(failure.kind(), TlsErrorKind::Certificate, "{failure}");
                        assert!(failure.to_string().contains(wrong), "{failure}");
                        assert!(pair.client_error.is_some() && pair.received.is_empty(), "the client gets an alert");
                    }
                }
            }
        }
    }
    let without_list = server(TlsServerConfig {
        client_certificates: ClientCertificates::Required,
        client_authorities: vec![mine.pem()],
        revoked: vec![mine.revoke(&[], 2002)],
        ..base
    });
    let mut pair = Client { client_certificate: Some(&good), ..Client::of(&authority) }.connect(&without_list);
    pair.run();
    let failure = pair.tls.take_failure().expect("it fails");
    assert!(failure.to_string().contains("a list in tls.crl has expired"), "{failure}");
}

#[test]
fn another_alpn_protocol_is_refused_and_none_is_accepted() {
    let authority = Authority::new("a");
    let material = material(&authority.issue(&["localhost"], 1));
    for (protocol, alpn, is_right) in [
        (Protocol::Mqtt, &[][..], true),
        (Protocol::Mqtt, &[&b"mqtt"[..]], true),
        (Protocol::Mqtt, &[&b"http/1.1"[..]], false),
        (Protocol::Http, &[&b"h2"[..], &b"http/1.1"[..]], true),
        (Protocol::Http, &[&b"mqtt"[..]], false),
    ] {
        let server = TlsServer::new(material.clone(), protocol).expect("right");
        let mut pair = Client { alpn, ..Client::of(&authority) }.connect(&server);
        pair.run();
        assert_eq!(pair.tls.can_send(), is_right);
        if !is_right {
            assert_eq!(pair.tls.take_failure().expect("it fails").kind(), TlsErrorKind::NoCommonParameters);
            let error = pair.client_error.expect("the client gets an alert");
            assert_eq!(error, Error::AlertReceived(AlertDescription::NoApplicationProtocol));
        }
    }
}

#[test]
fn a_disabled_version_is_refused() {
    let authority = Authority::new("a");
    let mut material = material(&authority.issue(&["localhost"], 1));
    material.minimum_version = MinimumVersion::Tls13;
    let server = server(material);
    let mut pair = Client { versions: &TLS12, ..Client::of(&authority) }.connect(&server);
    pair.run();
    assert_eq!(pair.tls.take_failure().expect("it fails").kind(), TlsErrorKind::NoCommonParameters);
    assert!(pair.client_error.is_some());
}

/// Also after a change of certificates, but not of trusted authorities: a resumed session presents no certificate again.
#[test]
fn a_returning_client_resumes_its_session() {
    let authority = Authority::new("a");
    let mine = Authority::new("mine");
    let client = mine.issue(&["sensor"], 5);
    let base = TlsServerConfig {
        client_certificates: ClientCertificates::Required,
        client_authorities: vec![mine.pem()],
        ..material(&authority.issue(&["localhost"], 1))
    };
    for versions in [&TLS13, &TLS12] {
        let server = server(base.clone());
        let config = Client { client_certificate: Some(&client), versions, ..Client::of(&authority) }.config();
        let is_resumed = || {
            let mut pair = Pair::new(config.clone(), "localhost", &server);
            pair.run();
            pair.send(b"the ticket comes with this or before");
            pair.run();
            assert!(pair.tls.can_send() && pair.tls.client_certificate().is_some());
            pair.tls.is_resumed()
        };
        assert!(!is_resumed());
        assert!(is_resumed());
        let renewed =
            TlsServerConfig { identities: vec![authority.issue(&["localhost"], 2).identity()], ..base.clone() };
        server.adopt(server.prepare(renewed).expect("right"));
        assert!(is_resumed());
        let stricter = TlsServerConfig { revoked: vec![mine.revoke(&[], 2100)], ..base.clone() };
        server.adopt(server.prepare(stricter).expect("right"));
        assert!(!is_resumed());
    }
}

#[test]
fn new_certificates_apply_to_new_connections() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let server = server(material(&one.issue(&["localhost"], 1)));
    let mut before = Client::of(&one).connect(&server);
    before.run();
    let prepared = server.prepare(material(&two.issue(&["localhost"], 1))).expect("right");
    let mut until_then = Client::of(&one).connect(&server);
    until_then.run();
    assert!(until_then.client_error.is_none());
    server.adopt(prepared);
    let mut after = Client::of(&one).connect(&server);
    after.run();
    assert!(matches!(
        after.client_error,
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature))
    ));
    before.send(b"still there");
    assert_eq!(before.client_has(11), b"still there");
}
