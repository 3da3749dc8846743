//! `pub` and `sub` over TLS: options and errors.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::process::{Broker as PlainBroker, Process, run};
use crate::secured::{Broker, Folder};

/// Checks that `pub` with these options ends with this exit code and message.
#[track_caller]
fn refused(broker: &Broker, options: &[&str], exit: i32, code: &str, part: &str) {
    let ended = broker.publish(options).expect(exit);
    assert!(
        ended.stderr.contains(&format!("[{code}]")) && ended.stderr.contains(part),
        "{options:?}: {}",
        ended.stderr
    );
}

/// A self-signed certificate for localhost, and its key.
fn self_signed(folder: &Folder, is_ca: IsCa) -> [String; 2] {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.is_ca = is_ca;
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    let paths = [folder.path("self.pem"), folder.path("self.key")];
    fs::write(&paths[0], certificate).expect("writes");
    fs::write(&paths[1], key.serialize_pem()).expect("writes");
    paths
}

#[test]
fn messages_pass_over_tls_and_websocket_over_tls() {
    let folder = Folder::new();
    folder.cert(&[]).expect(0);
    let broker = Broker::start(&folder, &[]);
    let (ca, port) = (folder.path("ca.pem"), broker.port.to_string());
    let url = format!("wss://localhost:{}/mqtt", broker.web_port);
    let mut subscriber = Process::start(&["sub", "-d", "-C", "2", "-v", "--url", &url, "--ca", &ca, "demo/#"]);
    subscriber.wait_for("subscribed ");
    broker.publish(&["--ca", &ca, "--alpn", "mqtt", "-q", "1"]).expect(0);
    run(&["pub", "--url", &format!("mqtts://127.0.0.1:{port}"), "--ca", &ca, "demo/b", "there"]).expect(0);
    assert_eq!(subscriber.end().expect(0).text(), "demo/hello hi\ndemo/b there\n");
    run(&["discover", "-p", &port, "--ca", &ca]).expect(0);
}

#[test]
fn tls_errors_of_the_broker_are_reported() {
    let (folder, other) = (Folder::new(), Folder::new());
    folder.cert(&[]).expect(0);
    other.cert(&[]).expect(0);
    let (ca, strange) = (folder.path("ca.pem"), other.path("ca.pem"));
    let broker = Broker::start(&folder, &[]);
    refused(&broker, &["--ca", &strange], 2, "tls_unknown_authority", "an authority that is not trusted");
    let named = ["--ca", &ca, "--server-name", "broker.example.org"];
    refused(&broker, &named, 2, "tls_name_mismatch", "is for localhost, 127.0.0.1, ::1");
    refused(&broker, &named, 2, "tls_name_mismatch", "not for broker.example.org");
    refused(&broker, &["--ca", &ca, "--alpn", "h2"], 2, "tls_no_shared_parameters", "ALPN");
    refused(&broker, &[], 2, "tls_needed", "mqtts://");
    broker.publish(&["--dangerously-accept-any-certificate"]).expect(0);
    let plain = PlainBroker::start();
    let ended = run(&["pub", "-p", plain.port(), "--ca", &ca, "a", "b"]).expect(2);
    assert!(ended.stderr.contains("[tls_closed]"), "{}", ended.stderr);

    folder.cert(&["--revoke", &folder.path("server.pem")]).expect(0);
    let revoked = folder.path("revoked.pem");
    refused(&broker, &["--ca", &ca, "--crl", &revoked], 2, "tls_revoked", "has been revoked");

    folder.cert(&["--force", "--days", "-1"]).expect(0);
    let broker = Broker::start(&folder, &[]);
    refused(&broker, &["--ca", &ca], 2, "tls_expired", "expired on 20");
}

#[test]
fn a_self_signed_broker_is_trusted_with_its_certificate() {
    let folder = Folder::new();
    folder.cert(&[]).expect(0);
    let ca = folder.path("ca.pem");
    let [certificate, key] = self_signed(&folder, IsCa::ExplicitNoCa);
    let settings = [format!("tls.certificate={certificate}"), format!("tls.key={key}")];
    let settings = settings.each_ref().map(String::as_str);
    let broker = Broker::with(&settings);
    refused(&broker, &["--ca", &ca], 2, "tls_self_signed", "self-signed");
    broker.publish(&["--ca", &certificate]).expect(0);

    // A certificate like `openssl req -x509` creates it.
    self_signed(&folder, IsCa::Ca(BasicConstraints::Unconstrained));
    let broker = Broker::with(&settings);
    refused(&broker, &["--ca", &ca], 2, "tls_self_signed", "self-signed");
    refused(&broker, &["--ca", &certificate], 2, "tls_certificate", "CA:TRUE");
}

#[test]
fn tls_errors_of_the_client_are_reported() {
    let (folder, other) = (Folder::new(), Folder::new());
    folder.cert(&["--client", "good", "--client", "revoked-one"]).expect(0);
    folder.cert(&["--client", "late", "--days", "-1"]).expect(0);
    folder.cert(&["--revoke", &folder.path("revoked-one.pem")]).expect(0);
    other.cert(&["--client", "stranger"]).expect(0);
    let ca = folder.path("ca.pem");
    let settings = [format!("tls.client_ca={ca}"), format!("tls.crl={}", folder.path("revoked.pem"))];
    let required = "tls.client_certificates=required";
    let mut broker = Broker::start(&folder, &[&settings[0], &settings[1], required]);
    let with = |folder: &Folder, name: &str| {
        let file = |ending| folder.path(&format!("{name}.{ending}"));
        ["--ca".to_owned(), ca.clone(), "--cert".to_owned(), file("pem"), "--key".to_owned(), file("key")]
    };
    broker.publish(&with(&folder, "good").each_ref().map(String::as_str)).expect(0);
    refused(&broker, &["--ca", &ca], 2, "tls_client_certificate_required", "asks for a certificate");
    for (folder, name, why, logged) in [
        (&folder, "revoked-one", "it has been revoked", "has been revoked"),
        (&folder, "late", "it has expired", "has expired"),
        (
            &other,
            "stranger",
            "the server does not trust the authority that issued it",
            "not issued by an authority of tls.client_ca",
        ),
        (&folder, "server", "it is not a client certificate", "extended key usage"),
    ] {
        let options = with(folder, name);
        refused(&broker, &options.each_ref().map(String::as_str), 2, "tls_client_certificate_refused", why);
        broker.process().wait_for(logged);
    }
}

#[test]
fn unusable_files_are_wrong_arguments() {
    let folder = Folder::new();
    folder.cert(&["--client", "a"]).expect(0);
    let broker = Broker::start(&folder, &[]);
    let (ca, key, server) = (folder.path("ca.pem"), folder.path("a.key"), folder.path("server.pem"));
    refused(&broker, &["--ca", &key], 1, "tls_options", "contains no certificate");
    refused(&broker, &["--ca", "no-such.pem"], 1, "tls_options", "no-such.pem");
    refused(
        &broker,
        &["--ca", &ca, "--cert", &server, "--key", &key],
        1,
        "tls_options",
        "does not match the client certificate",
    );
    refused(
        &broker,
        &["--ca", &ca, "--cert", &server, "--key", &ca],
        1,
        "tls_options",
        "contains no readable private key",
    );
    refused(&broker, &["--ca", &ca, "--crl", &ca], 1, "tls_options", "contains no list of revoked certificates");
    let wrong = broker.publish(&["--cert", &server]).expect(1);
    assert!(wrong.stderr.contains("--cert and --key go together"), "{}", wrong.stderr);
}
