//! Users with passwords.

use std::sync::Arc;

use tautwire_identity::edit::{self, Derived};
use tautwire_identity::{Link, PasswordFile, RefusalCode, ScramHash, Secret};
use tautwire_protocol::ConnectReason;

use super::support::{NOW, USERS, admitted, chain, ends, refused, user, users};

#[test]
fn hashes_of_mosquitto_and_of_argon2id_are_understood() {
    let chain = chain(vec![users()]);
    for (name, password) in [("alice", "pass-one"), ("bob", "pass-two"), ("dave", "password"), ("erin", "password")] {
        let (principal, work) = ends(&chain, user(name, password));
        let principal = principal.expect("admitted");
        assert_eq!((principal.user.as_deref(), principal.link, work), (Some(name), "password_file", 1));
        for wrong in ["", "pass", "pass-one ", "\0pass-two", "Password"] {
            let refusal = refused(&chain, user(name, wrong));
            assert_eq!(
                (refusal.code, refusal.reason),
                (RefusalCode::WrongPassword, ConnectReason::BadUserNameOrPassword)
            );
        }
    }
}

#[test]
fn an_unknown_user_is_told_the_same_and_costs_the_same() {
    let chain = chain(vec![users()]);
    let (known, work) = ends(&chain, user("dave", "wrong"));
    let (unknown, work_unknown) = ends(&chain, user("mallory", "wrong"));
    let (known, unknown) = (known.expect_err("refused"), unknown.expect_err("refused"));
    assert_eq!(work, work_unknown);
    assert_eq!((known.reason, known.client), (unknown.reason, unknown.client));
    // Only the log knows.
    assert_eq!(unknown.code, RefusalCode::UnknownUser);
    assert!(unknown.log.contains("mallory") && !unknown.log.contains("wrong"), "{unknown}");
}

#[test]
fn a_user_of_the_second_file_costs_one_hash_too() {
    let first = PasswordFile::parse(
        "first",
        "zoe:$6$AAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
    );
    let chain = chain(vec![Link::PasswordFile(Arc::new(first.expect("a file"))), users()]);
    assert_eq!(admitted(&chain, user("dave", "password")).user.as_deref(), Some("dave"));
    for name in ["dave", "mallory"] {
        assert_eq!(ends(&chain, user(name, "wrong")).1, 1, "{name}");
        let work = format!("{:?}", chain.begin(user(name, "wrong"), NOW, &mut |_| {}));
        assert!(work.contains("decoy_follows: false"), "{name}: {work}");
    }
}

#[test]
fn a_new_user_can_log_in_and_the_file_has_no_password() {
    let password = Secret::new("correct horse");
    let mut counter = 0_u8;
    let mut random = |bytes: &mut [u8]| {
        counter += 1;
        bytes.fill(counter);
    };
    let account = edit::account(&password, Derived { scram: true }, &mut random).expect("an account");
    let text = edit::add(USERS, "frank", &account).expect("added");
    assert!(text.starts_with(USERS) && !text.contains("correct"), "{text}");
    let file = PasswordFile::parse("users", &text).expect("a password file");
    let frank = file.user("frank").expect("frank");
    assert_eq!(frank, &account);
    assert_eq!(frank.hash_name(), "argon2id");
    assert!(ScramHash::ALL.into_iter().all(|hash| frank.has_scram(hash)));
    assert!(!file.user("bob").expect("bob").has_scram(ScramHash::Sha256));
    assert!(!format!("{account:?} {file:?} {password:?}").contains("correct"));
    let chain = chain(vec![Link::PasswordFile(Arc::new(file))]);
    assert_eq!(admitted(&chain, user("frank", "correct horse")).user.as_deref(), Some("frank"));
    assert_eq!(refused(&chain, user("frank", "correct horsf")).code, RefusalCode::WrongPassword);
}

#[test]
fn nothing_shows_a_password() {
    let attempt = user("dave", "hunter2");
    let chain = chain(vec![users()]);
    let step = chain.begin(attempt.clone(), NOW, &mut |_| {});
    for text in
        [format!("{attempt:?}"), format!("{step:?}"), format!("{chain:?}"), format!("{:?}", ends(&chain, attempt))]
    {
        assert!(!text.contains("hunter2") && !text.contains("104, 117") && !text.contains("nf65"), "{text}");
    }
}
