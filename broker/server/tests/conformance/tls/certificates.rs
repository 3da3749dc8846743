//! Server certificates presented to clients, and verification of client certificates.

use super::support::{Broker, Certificates, Client};

#[test]
fn the_certificate_matches_the_requested_server_name() {
    let (lan, public) = (Certificates::made(&["broker.lan"]), Certificates::made(&["broker.example.org"]));
    let list = |key: &str, name: &str| {
        format!("{key}=[\"{}\", \"{}\"]", lan.path(name).display(), public.path(name).display())
    };
    let broker = Broker::start(&[list("tls.certificate", "server.pem"), list("tls.key", "server.key")]);
    for (trusts, name) in [(&lan, "broker.lan"), (&public, "broker.example.org")] {
        for address in [broker.mqtts, broker.wss] {
            let mut connection = Client { name, ..Client::of(trusts) }.dial(address);
            connection.0.conn.complete_io(&mut connection.0.sock).expect("the name matches");
            assert_eq!(connection.shown(), trusts.certificate("server.pem"), "{name}");
        }
    }
    // For an unknown name the broker presents the first certificate, and the client detects the mismatch.
    let refused = Client { name: "elsewhere.example", ..Client::of(&lan) }.refused(broker.mqtts);
    assert!(refused.contains("not valid for name"), "{refused}");
    broker.wait_for("tls_refused_by_client");
}

#[test]
fn client_certificates_are_required_and_verified() {
    let ours = Certificates::made(&["--client", "good", "--client", "revoked-one"]);
    ours.make(&["--client", "late", "--days", "-1"]);
    ours.make(&["--revoke", &ours.path("revoked-one.pem").display().to_string()]);
    let strange = Certificates::made(&["--client", "stranger"]);
    let [certificate, key] = ours.settings();
    let (authority, revoked) = (ours.setting("tls.client_ca", "ca.pem"), ours.setting("tls.crl", "revoked.pem"));
    for mode in ["required", "optional"] {
        let mode_setting = format!("tls.client_certificates={mode}");
        let settings = [&certificate, &key, &authority, &revoked, &mode_setting];
        let broker = Broker::start(&settings.map(String::clone));
        for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let client = |shows| Client { shows, versions, ..Client::of(&ours) };
            client(Some((&ours, "good"))).connect(broker.mqtts).ping();
            for (shows, alert, logged) in [
                ((&ours, "revoked-one"), "CertificateRevoked", "has been revoked"),
                ((&ours, "late"), "CertificateExpired", "has expired"),
                ((&strange, "stranger"), "UnknownCA", "not issued by an authority of tls.client_ca"),
                ((&ours, "server"), "UnsupportedCertificate", "extended key usage"),
            ] {
                let refused = client(Some(shows)).refused(broker.mqtts);
                assert!(refused.contains(alert), "{refused}");
                broker.wait_for(logged);
            }
            match mode {
                "optional" => client(None).connect(broker.mqtts).ping(),
                _ => {
                    let refused = client(None).refused(broker.mqtts);
                    assert!(
                        refused.contains("CertificateRequired") || refused.contains("HandshakeFailure"),
                        "{refused}"
                    );
                    broker.wait_for("the client presented no certificate");
                }
            }
        }
    }
}

#[test]
fn certificates_change_without_disconnecting_a_client() {
    let ours = Certificates::made(&["--client", "device"]);
    let [certificate, key] = ours.settings();
    let broker = Broker::start(&[
        certificate,
        key,
        ours.setting("tls.client_ca", "ca.pem"),
        "tls.client_certificates=optional".to_owned(),
    ]);
    let first = ours.certificate("server.pem");
    let mut early = Client::of(&ours).connect(broker.mqtts);
    assert_eq!(early.shown(), first);

    ours.make(&["--force"]);
    broker.reload();
    broker.wait_for("reloaded the configuration and its files");
    let second = ours.certificate("server.pem");
    assert_ne!(second, first);
    assert_eq!(Client::of(&ours).connect(broker.mqtts).shown(), second);
    early.ping();

    // Files that do not match change nothing.
    let right = std::fs::read_to_string(ours.path("server.key")).expect("a key");
    ours.write("server.key", &std::fs::read_to_string(ours.path("device.key")).expect("a key"));
    broker.reload();
    broker.wait_for("tls_key_mismatch");
    assert_eq!(Client::of(&ours).connect(broker.mqtts).shown(), second);
    ours.write("server.key", &right);
    broker.reload();
    broker.wait_for("reloaded the configuration and its files");
    early.ping();
}
