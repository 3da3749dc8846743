//! Tests the credentials of a node, and changing them at runtime.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tautwire_nats::{Command, ConnectionStatus, Credentials, EndReason, Error, Tls};

use crate::node::{BrokerEvent, Node, settings};
use crate::servers::{Config, Servers, program};

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path
}

#[test]
fn secrets_are_read_from_files_and_can_change_at_run_time() {
    let Some(program) = program() else { return };
    let key = nkeys::KeyPair::new_user();
    let users =
        format!("authorization {{ users: [ {{ user: one, password: first }}, {{ nkey: {} }} ] }}", key.public_key());
    let servers = Servers::start(&program, 1, &Config { more: users, ..Config::default() });
    let password = write(servers.folder(), "password", "first\n");
    let seed = write(servers.folder(), "seed", &key.seed().expect("a seed"));
    let mut settings = settings(&servers);
    settings.storage.replicas = 1;
    settings.access.credentials = Credentials::Password { user: "one".to_owned(), file: password };
    let node = Node::start(settings.clone(), None);
    let first = node.serve(100, "client");

    let mut access = settings.access.clone();
    access.credentials = Credentials::NKey(seed);
    node.give(Command::Reconnect(Box::new(access.clone())));
    let changed = BrokerEvent::ConnectionStatus(ConnectionStatus::AccessChanged);
    node.told.wait_for("the access has changed", |told| told.contains(&changed).then_some(()));
    node.publish(first.client, 1, "t", b"by the new connection");
    node.wait_stored(first.client, 1);

    // Unusable credentials change nothing.
    access.credentials = Credentials::Token("missing".into());
    node.give(Command::Reconnect(Box::new(access)));
    node.told.wait_for("the access is refused", |told| {
        let refused = |told: &BrokerEvent| {
            matches!(told, BrokerEvent::ConnectionStatus(ConnectionStatus::AccessRefused(Error::File { .. })))
        };
        told.iter().any(refused).then_some(())
    });
    node.publish(first.client, 2, "t", b"still by it");
    node.wait_stored(first.client, 2);
    assert!(node.handle().is_serving());
}

#[test]
fn a_missing_file_fails_at_once_and_a_wrong_secret_is_retried() {
    let Some(program) = program() else { return };
    let users = "authorization { user: one, password: right }".to_owned();
    let servers = Servers::start(&program, 1, &Config { more: users, ..Config::default() });
    let mut settings = settings(&servers);
    settings.storage.replicas = 1;
    settings.access.credentials = Credentials::Token("missing".into());
    let node = Node::begin(settings.clone(), None);
    node.told.wait_for("it is refused", |told| {
        told.iter()
            .any(|told| matches!(told, BrokerEvent::EndReason(EndReason::Refused(Error::File { .. }))))
            .then_some(())
    });

    // The file is read for each attempt, so a corrected file needs no notification.
    let password = write(servers.folder(), "password", "wrong");
    settings.access.credentials = Credentials::Password { user: "one".to_owned(), file: password };
    let node = Node::begin(settings, None);
    let why = node.told.wait_for("it waits", |told| {
        told.iter().find_map(|told| match told {
            BrokerEvent::ConnectionStatus(ConnectionStatus::Waiting(Error::Connection { why })) => Some(why.clone()),
            _ => None,
        })
    });
    assert!(why.contains("authorization") && !why.contains("wrong"), "{why}");
    write(servers.folder(), "password", "right");
    node.told.wait_for("it serves", |told| {
        told.contains(&BrokerEvent::Decision(tautwire_cluster::Decision::Resumed)).then_some(())
    });
}

#[test]
fn mutual_tls_authenticates_both_sides() {
    let Some(program) = program() else { return };
    let folder = std::env::temp_dir().join(format!("nats-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a directory");
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let issue = |name: &str, file: &str| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &authority).expect("a certificate");
        let path = write(&folder, &format!("{file}.pem"), &certificate.pem());
        (path, write(&folder, &format!("{file}.key"), &key.serialize_pem()))
    };
    let authorities = write(&folder, "authority.pem", &authority.pem());
    let (server, server_key) = issue("127.0.0.1", "server");
    let certificate = issue("node", "node");
    let more = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        server.display(),
        server_key.display(),
        authorities.display()
    );
    let servers = Servers::start(&program, 1, &Config { more, ..Config::default() });
    let mut settings = settings(&servers);
    settings.storage.replicas = 1;
    settings.access.tls = Tls { is_required: true, authorities: Some(authorities), certificate: Some(certificate) };
    let node = Node::start(settings.clone(), None);
    node.serve(100, "client");

    settings.access.tls.certificate = None;
    let node = Node::begin(settings, None);
    node.told.wait_for("it is rejected", |told| {
        let waits = |told: &BrokerEvent| {
            matches!(told, BrokerEvent::ConnectionStatus(ConnectionStatus::Waiting(Error::Connection { .. })))
        };
        told.iter().any(waits).then_some(())
    });
    drop(servers);
    let _ = fs::remove_dir_all(&folder);
}
