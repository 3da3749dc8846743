//! `tautwire cert`: created files work, and existing files are kept.

use std::fs;

use crate::secured::{Broker, Folder};

const ACCEPTED: &[u8] = b"\x20\x02\x00\x00";

#[test]
fn one_command_creates_everything_for_a_broker_and_its_clients() {
    let folder = Folder::new();
    let text = folder.cert(&[]).expect(0).text();
    for part in
        ["ca.pem", "server.key", "localhost, 127.0.0.1, ::1", "--listen mqtts://127.0.0.1:8883", "tautwire sub --ca"]
    {
        assert!(text.contains(part), "{text}");
    }
    let broker = Broker::start(&folder, &[]);
    for name in ["localhost", "127.0.0.1", "::1"] {
        assert_eq!(broker.connect(&folder, name, None).expect("connects"), ACCEPTED, "{name}");
    }
    let other = broker.connect(&folder, "broker.example.org", None).expect_err("another name");
    assert!(other.contains("NotValidForName") || other.contains("not valid for name"), "{other}");
}

#[test]
fn given_names_replace_the_default_ones() {
    let folder = Folder::new();
    folder.cert(&["broker.example.org", "*.devices.example.org", "10.0.0.1"]).expect(0);
    let broker = Broker::start(&folder, &[]);
    for name in ["broker.example.org", "a.devices.example.org", "10.0.0.1"] {
        assert_eq!(broker.connect(&folder, name, None).expect("connects"), ACCEPTED, "{name}");
    }
    assert!(broker.connect(&folder, "localhost", None).is_err());
}

#[test]
fn a_client_is_identified_by_its_certificate_until_it_is_revoked() {
    let folder = Folder::new();
    folder.cert(&["--client", "sensor-7", "--client", "sensor-8"]).expect(0);
    folder.cert(&["--client", "late", "--days", "-1"]).expect(0);
    let (authority, required) =
        (format!("tls.client_ca={}", folder.path("ca.pem")), "tls.client_certificates=required");
    let broker = Broker::start(&folder, &[&authority, required]);
    assert_eq!(broker.connect(&folder, "localhost", Some("sensor-7")).expect("connects"), ACCEPTED);
    assert!(broker.connect(&folder, "localhost", None).is_err());
    assert!(broker.connect(&folder, "localhost", Some("late")).is_err());

    folder.cert(&["--revoke", &folder.path("sensor-7.pem")]).expect(0);
    let revoked = format!("tls.crl={}", folder.path("revoked.pem"));
    let broker = Broker::start(&folder, &[&authority, required, &revoked]);
    let refused = broker.connect(&folder, "localhost", Some("sensor-7")).expect_err("revoked");
    assert!(refused.contains("CertificateRevoked"), "{refused}");
    assert_eq!(broker.connect(&folder, "localhost", Some("sensor-8")).expect("connects"), ACCEPTED);
}

#[test]
fn existing_files_are_replaced_only_on_request() {
    let folder = Folder::new();
    folder.cert(&["--client", "a"]).expect(0);
    let all = ["ca.pem", "ca.key", "server.pem", "server.key", "a.pem", "a.key"];
    let before = all.map(|name| folder.read(name));
    assert!(folder.cert(&[]).expect(0).text().contains("existing certificate"));
    for arguments in [&["localhost"][..], &["--client", "a"], &["--client", "b", "--client", "a"]] {
        let ended = folder.cert(arguments).expect(1);
        assert!(ended.stderr.contains("--force") && ended.stderr.contains("[cert_exists]"), "{}", ended.stderr);
    }
    assert_eq!(all.map(|name| folder.read(name)), before);
    assert!(!folder.has("b.pem"), "nothing is made where something is refused");

    folder.cert(&["--client", "a", "--force"]).expect(0);
    let after = all.map(|name| folder.read(name));
    assert_eq!(after[..4], before[..4], "only what was asked for is replaced");
    assert!(after[4] != before[4] && after[5] != before[5]);
    folder.cert(&["--force"]).expect(0);
    assert!(folder.read("server.key") != before[3]);
    assert_eq!(folder.read("ca.key"), before[1], "an authority is never replaced");
    folder.cert(&["--revoke", &folder.path("a.pem")]).expect(0);
    assert!(folder.cert(&["--revoke", &folder.path("a.pem")]).expect(1).stderr.contains("[cert_exists]"));
    let names = fs::read_dir(folder.path("")).expect("reads").count();
    assert_eq!(names, all.len() + 1, "nothing is left beside them");
}

#[test]
fn the_key_of_the_authority_is_sufficient_to_continue() {
    let folder = Folder::new();
    folder.cert(&[]).expect(0);
    let first = Broker::start(&folder, &[]);
    fs::remove_file(folder.path("ca.pem")).expect("is removed");
    let made_again = folder.cert(&["--client", "a"]).expect(0).text();
    assert!(made_again.contains("ca.pem") && !made_again.contains("ca.key"), "{made_again}");
    // Clients that trust the new certificate also trust certificates issued before.
    assert_eq!(first.connect(&folder, "localhost", None).expect("connects"), ACCEPTED);
}

#[test]
fn files_that_do_not_match_are_refused_with_advice() {
    let (folder, other) = (Folder::new(), Folder::new());
    folder.cert(&["--days", "-1"]).expect(0);
    other.cert(&[]).expect(0);
    let stderr_text = |arguments: &[&str]| folder.cert(arguments).expect(1).stderr;
    let expired = stderr_text(&[]);
    assert!(expired.contains("has expired (20") && expired.contains("[cert_expired]"), "{expired}");
    let stranger = stderr_text(&["--revoke", &other.path("server.pem")]);
    assert!(stranger.contains("was not issued by") && stranger.contains("[cert_other_authority]"), "{stranger}");
    let nothing = stderr_text(&["--revoke", &folder.path("ca.key")]);
    assert!(nothing.contains("has no certificate"), "{nothing}");

    fs::copy(other.path("ca.pem"), folder.path("ca.pem")).expect("copies");
    assert!(stderr_text(&["--force"]).contains("[cert_authority]"));
    fs::remove_file(folder.path("ca.key")).expect("is removed");
    assert!(stderr_text(&["--force"]).contains("the key of the authority is missing"));
    fs::write(folder.path("ca.key"), "no key").expect("writes");
    assert!(stderr_text(&["--force"]).contains("not a private key"));
    let empty = Folder::new();
    assert!(empty.cert(&["--revoke", &other.path("server.pem")]).expect(1).stderr.contains("[cert_no_authority]"));
    assert!(!empty.has("ca.pem"));
}

#[test]
fn invalid_names_are_refused() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (&["mqtts://localhost"][..], "neither a host name nor an IP address"),
        (&["--client", "a/b"], "cannot be a file name"),
        (&["--client", "ca"], "choose another name"),
        (&["--days", "many"], "expected a whole number"),
        (&["--ca-days", "0"], "expected a whole number from 1"),
    ] {
        let ended = folder.cert(arguments).expect(1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    assert_eq!(fs::read_dir(folder.path("")).expect("reads").count(), 0);
}

#[cfg(unix)]
#[test]
fn keys_are_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    folder.cert(&["--client", "a"]).expect(0);
    folder.cert(&["--client", "a", "--force"]).expect(0);
    for name in ["ca.key", "server.key", "a.key"] {
        let mode = fs::metadata(folder.path(name)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
