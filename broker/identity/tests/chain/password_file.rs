//! Users with passwords.

use std::sync::Arc;

use tautwire_identity::edit::{self, Derived};
use tautwire_identity::{
    AuthBackend, Ban, BanTarget, Bans, Chain, PasswordCost, PasswordFile, RefusalCode, ScramHash, Secret, Settings,
    VerifiedPasswords,
};
use tautwire_protocol::ConnectReason;

use super::support::{NOW, USERS, admitted, chain, chain_with_cache, ends, refused, user, users};

#[test]
fn hashes_of_mosquitto_and_argon2id_are_accepted() {
    let chain = chain(vec![users()]);
    for (name, password) in [("alice", "pass-one"), ("bob", "pass-two"), ("dave", "password"), ("erin", "password")] {
        let (principal, work) = ends(&chain, user(name, password));
        let principal = principal.expect("admitted");
        assert_eq!((principal.user.as_deref(), principal.backend, work), (Some(name), "password_file", 1));
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
fn an_unknown_user_gets_the_same_response_at_the_same_cost() {
    let chain = chain(vec![users()]);
    let (known, work) = ends(&chain, user("dave", "wrong"));
    let (unknown, work_unknown) = ends(&chain, user("mallory", "wrong"));
    let (known, unknown) = (known.expect_err("refused"), unknown.expect_err("refused"));
    assert_eq!(work, work_unknown);
    assert_eq!((known.reason, known.client), (unknown.reason, unknown.client));
    // Only the log shows it.
    assert_eq!(unknown.code, RefusalCode::UnknownUser);
    assert!(unknown.log.contains("mallory") && !unknown.log.contains("wrong"), "{unknown}");
}

#[test]
fn a_user_of_the_second_file_also_costs_one_hash() {
    let first = PasswordFile::parse(
        "first",
        "zoe:$6$AAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
    );
    let chain = chain(vec![AuthBackend::PasswordFile(Arc::new(first.expect("a file"))), users()]);
    assert_eq!(admitted(&chain, user("dave", "password")).user.as_deref(), Some("dave"));
    for name in ["dave", "mallory"] {
        assert_eq!(ends(&chain, user(name, "wrong")).1, 1, "{name}");
        let work = format!("{:?}", chain.begin(user(name, "wrong"), NOW, &mut |_| Ok(())));
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
    let account = edit::account(&password, Derived { scram: true, cost: PasswordCost::default() }, &mut random)
        .expect("an account");
    let text = edit::add(USERS, "frank", &account).expect("added");
    assert!(text.starts_with(USERS) && !text.contains("correct"), "{text}");
    let file = PasswordFile::parse("users", &text).expect("a password file");
    let frank = file.user("frank").expect("frank");
    assert_eq!(frank, &account);
    assert_eq!(frank.hash_name(), "argon2id");
    assert!(ScramHash::ALL.into_iter().all(|hash| frank.has_scram(hash)));
    assert!(!file.user("bob").expect("bob").has_scram(ScramHash::Sha256));
    assert!(!format!("{account:?} {file:?} {password:?}").contains("correct"));
    let chain = chain(vec![AuthBackend::PasswordFile(Arc::new(file))]);
    assert_eq!(admitted(&chain, user("frank", "correct horse")).user.as_deref(), Some("frank"));
    assert_eq!(refused(&chain, user("frank", "correct horsf")).code, RefusalCode::WrongPassword);
}

#[test]
fn a_verified_password_needs_no_hash_until_it_changes() {
    let verified = Arc::new(VerifiedPasswords::new(&[3; 32], 10));
    let chain = chain_with_cache(vec![users()], &verified);
    for expected in [1, 0, 0] {
        let (principal, work) = ends(&chain, user("dave", "password"));
        assert_eq!((principal.expect("admitted").user.as_deref(), work), (Some("dave"), expected));
    }
    for _ in 0..2 {
        assert_eq!(ends(&chain, user("dave", "wrong")).1, 1, "a wrong password pays each time");
        assert_eq!(
            ends(&chain, user("erin", "password")).1,
            usize::from(verified.hits() == 2),
            "erin has another hash"
        );
        assert_eq!(ends(&chain, user("mallory", "password")).1, 1, "an unknown user pays each time");
    }
    assert_eq!((verified.count(), verified.hits()), (2, 3));

    // The password is the same, but its hash differs.
    let file = |salt: u8| {
        let derived = Derived { scram: false, cost: PasswordCost::parse("m=8,t=1,p=1").expect("a cost") };
        let account =
            edit::account(&Secret::new("password"), derived, &mut |bytes| bytes.fill(salt)).expect("an account");
        let text = edit::add("", "dave", &account).expect("added");
        AuthBackend::PasswordFile(Arc::new(PasswordFile::parse("users", &text).expect("a file")))
    };
    for (salt, expected) in [(1, 1), (1, 0), (2, 1), (1, 0)] {
        let chain = chain_with_cache(vec![file(salt)], &verified);
        assert_eq!(ends(&chain, user("dave", "password")).1, expected, "{salt}");
    }
    verified.clear(10);
    assert_eq!(ends(&chain, user("dave", "password")).1, 1, "it is no longer cached");
}

#[test]
fn a_banned_user_is_refused_with_a_cached_password() {
    let bans: Arc<Bans> = Arc::default();
    let verified = Arc::new(VerifiedPasswords::new(&[3; 32], 10));
    let settings = Settings { allows_plain_passwords: false, key: [7; 32], bans: bans.clone(), verified };
    let chain = Arc::new(Chain::new(vec![users()], settings).expect("a chain"));
    admitted(&chain, user("dave", "password"));
    let ban = Ban { who: BanTarget::User("dave".into()), until_unix_s: None, reason: "".into() };
    bans.add(ban, NOW).expect("it fits");
    assert_eq!(refused(&chain, user("dave", "password")).code, RefusalCode::Banned);
}

#[test]
fn a_cost_is_a_level_or_argon2id_parameters() {
    for (text, shown) in
        [("low", "low"), ("default", "default"), ("m=19456,t=2,p=1", "default"), ("m=8,t=1,p=1", "m=8,t=1,p=1")]
    {
        assert_eq!(PasswordCost::parse(text).map(|cost| cost.to_string()), Ok(shown.to_owned()));
    }
    for (text, expected) in [
        ("", "the cost must be low"),
        ("cheap", "the cost must be low"),
        ("m=4,t=1,p=1", "memory m is 4; it must be from 8"),
        ("m=4294967296,t=1,p=1", "a number in the hash is not valid"),
        ("m=8,t=1", "the cost of Argon2id must be m="),
    ] {
        let error = PasswordCost::parse(text).expect_err("refused");
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn debug_output_has_no_password() {
    let attempt = user("dave", "hunter2");
    let chain = chain(vec![users()]);
    let step = chain.begin(attempt.clone(), NOW, &mut |_| Ok(()));
    for text in
        [format!("{attempt:?}"), format!("{step:?}"), format!("{chain:?}"), format!("{:?}", ends(&chain, attempt))]
    {
        assert!(!text.contains("hunter2") && !text.contains("104, 117") && !text.contains("nf65"), "{text}");
    }
}
