//! Anonymous clients, and passwords that others can read.

use std::net::IpAddr;

use tautwire_identity::{Anonymous, AuthAttempt, AuthBackend, Chain, JWT_METHOD, RefusalCode, Secret};
use tautwire_protocol::ConnectReason;

use super::support::{admitted, chain, ends, from, nobody, refused, user, users};

#[test]
fn clients_without_credentials_are_accepted_only_if_the_chain_allows_it() {
    let refusal = refused(&chain(vec![users()]), nobody());
    assert_eq!((refusal.code, refusal.reason), (RefusalCode::NoCredentials, ConnectReason::NotAuthorized));
    let refusal = refused(&chain(vec![]), nobody());
    assert_eq!(refusal.code, RefusalCode::NoCredentials);
    let (principal, work) =
        ends(&chain(vec![users(), AuthBackend::Anonymous(Anonymous::WithoutCredentials)]), nobody());
    let principal = principal.expect("admitted");
    assert_eq!((principal.user, principal.backend, work), (None, "anonymous", 0));
}

#[test]
fn clients_with_credentials_must_authenticate_even_if_anonymous_clients_are_allowed() {
    let chain = chain(vec![AuthBackend::Anonymous(Anonymous::WithoutCredentials), users()]);
    assert_eq!(admitted(&chain, user("dave", "password")).user.as_deref(), Some("dave"));
    assert_eq!(refused(&chain, user("dave", "Password")).code, RefusalCode::WrongPassword);
    let only_a_name = AuthAttempt { password: None, ..user("dave", "") };
    assert_eq!(refused(&chain, only_a_name).code, RefusalCode::NoPassword);
    let only_a_password = AuthAttempt { user_name: None, ..user("dave", "password") };
    assert_eq!(refused(&chain, only_a_password).code, RefusalCode::UnknownUser);
}

#[test]
fn an_open_chain_accepts_every_client_as_anonymous() {
    let chain = std::sync::Arc::new(Chain::open());
    assert_eq!(admitted(&chain, user("dave", "whatever")).user, None);
    let method = AuthAttempt { method: Some("SCRAM-SHA-1".into()), ..nobody() };
    // [MQTT-4.12.0-1]
    assert_eq!(refused(&chain, method).reason, ConnectReason::BadAuthenticationMethod);
}

#[test]
fn a_plaintext_password_is_refused_before_it_is_checked() {
    let chain = chain(vec![users()]);
    let address = |address: [u8; 4]| Some(IpAddr::from(address));
    for (address, is_encrypted, is_taken) in [
        (address([192, 0, 2, 7]), false, false),
        (address([192, 0, 2, 7]), true, true),
        (address([127, 9, 9, 9]), false, true),
        (Some("::1".parse().expect("an address")), false, true),
        (Some("::ffff:127.0.0.1".parse().expect("an address")), false, true),
        (Some("::ffff:192.0.2.7".parse().expect("an address")), false, false),
        (None, false, true),
    ] {
        let attempt = from(user("dave", "password"), |origin| {
            (origin.address, origin.is_encrypted) = (address, is_encrypted);
        });
        match ends(&chain, attempt) {
            (Ok(_), 1) => assert!(is_taken, "{address:?}"),
            (Err(refusal), 0) => assert!(!is_taken && refusal.code == RefusalCode::PlainPassword, "{address:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A token in AUTH can be replayed by anybody who reads it, like a password; a SCRAM message cannot.
#[test]
fn a_plaintext_token_is_refused_and_a_scram_proof_is_not() {
    let chain = chain(vec![users()]);
    let by = |method: &str, data: &str, is_encrypted| {
        let attempt = AuthAttempt { method: Some(method.into()), data: Some(Secret::new(data)), ..nobody() };
        let attempt = from(attempt, |origin| {
            (origin.address, origin.is_encrypted) = (Some(IpAddr::from([192, 0, 2, 7])), is_encrypted);
        });
        refused(&chain, attempt).code
    };
    assert_eq!(by(JWT_METHOD, "a.b.c", false), RefusalCode::PlainPassword);
    assert_eq!(by(JWT_METHOD, "a.b.c", true), RefusalCode::UnknownMethod);
    assert_eq!(by("SCRAM-SHA-256", "n,,n=dave,r=x", false), RefusalCode::Scram);
}

/// Only the system can set the claim of a Unix socket's peer.
#[test]
fn the_user_of_a_unix_socket_is_a_claim() {
    let open = chain(vec![AuthBackend::Anonymous(Anonymous::Everybody)]);
    let local = from(nobody(), |origin| (origin.address, origin.peer_uid) = (None, Some(1_000)));
    assert_eq!(&*admitted(&open, local).claims, [("peer_uid".into(), "1000".into())]);
    assert_eq!(&*admitted(&open, nobody()).claims, []);
}
