//! SCRAM, from a client's first message to its last.

use std::num::NonZeroU32;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use ring::{digest, hmac, pbkdf2};
use tautwire_identity::edit::{self, Derived};
use tautwire_identity::{
    AuthAttempt, AuthBackend, AuthStep, BanTarget, Bans, Chain, FailureKey, FailureRule, PasswordCost, PasswordFile,
    Principal, RandomUnavailable, RefusalCode, ScramHash, Secret,
};
use tautwire_protocol::ConnectReason;

use super::support::{NOW, USERS, chain, chain_with, nobody, user, users};

/// A SCRAM client, as in RFC 5802.
struct Client {
    hash: ScramHash,
    name: &'static str,
    password: &'static str,
}

impl Client {
    fn first(&self) -> AuthAttempt {
        let data = format!("n,,n={},r=nonce", self.name.replace('=', "=3D").replace(',', "=2C"));
        AuthAttempt { method: Some(self.hash.method().into()), data: Some(Secret::new(data)), ..nobody() }
    }

    /// The last message, and the expected signature of the server.
    fn last(&self, challenge: &[u8]) -> (String, String) {
        let challenge = str::from_utf8(challenge).expect("text");
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name)).expect("a field");
        let (nonce, salt) = (field("r="), Base64::decode_vec(field("s=")).expect("Base64"));
        let iterations: NonZeroU32 = field("i=").parse().expect("a number");
        let (hmac_of, derive, digest_of) = match self.hash {
            ScramHash::Sha256 => (hmac::HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256, &digest::SHA256),
            ScramHash::Sha512 => (hmac::HMAC_SHA512, pbkdf2::PBKDF2_HMAC_SHA512, &digest::SHA512),
        };
        let mut salted = vec![0; digest_of.output_len()];
        pbkdf2::derive(derive, iterations, &salt, self.password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac_of, key), text).as_ref().to_vec();
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(digest_of, &client_key);
        let first = self.first().data.expect("data");
        let first = str::from_utf8(&first.expose()[3..]).expect("text").to_owned();
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{first},{challenge},{without_proof}");
        let signature = sign(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server = sign(&sign(&salted, b"Server Key"), message.as_bytes());
        (
            format!("{without_proof},p={}", Base64::encode_string(&proof)),
            format!("v={}", Base64::encode_string(&server)),
        )
    }

    fn connects(&self, chain: &Arc<Chain>) -> Result<Principal, RefusalCode> {
        let (data, exchange) = match chain.begin(self.first(), NOW, &mut |bytes| {
            bytes.fill(3);
            Ok(())
        }) {
            AuthStep::Challenge { data, exchange } => (data, exchange),
            AuthStep::Refuse(refusal) => return Err(refusal.code),
            other => panic!("{other:?}"),
        };
        let (last, signature) = self.last(&data);
        match exchange.go_on(last.as_bytes(), NOW) {
            AuthStep::Admit { principal, data } => {
                assert_eq!(data.as_deref(), Some(signature.as_bytes()));
                Ok(principal)
            }
            AuthStep::Refuse(refusal) => Err(refusal.code),
            other => panic!("{other:?}"),
        }
    }
}

/// The users of both brokers, and `a,b=c` with the password `pencil`.
fn with_keys() -> AuthBackend {
    let account =
        edit::account(&Secret::new("pencil"), Derived { scram: true, cost: PasswordCost::default() }, &mut |bytes| {
            bytes.fill(5)
        });
    let text = edit::add(USERS, "a,b=c", &account.expect("an account")).expect("added");
    AuthBackend::PasswordFile(Arc::new(PasswordFile::parse("users", &text).expect("a file")))
}

#[test]
fn only_the_correct_password_authenticates() {
    let chain = chain(vec![with_keys()]);
    for hash in ScramHash::ALL {
        let client = |name, password| Client { hash, name, password };
        let principal = client("a,b=c", "pencil").connects(&chain).expect("admitted");
        assert_eq!((principal.user.as_deref(), principal.backend), (Some("a,b=c"), "password_file"));
        assert_eq!(client("a,b=c", "pencils").connects(&chain), Err(RefusalCode::WrongPassword));
        assert_eq!(client("mallory", "pencil").connects(&chain), Err(RefusalCode::UnknownUser));
        // From Mosquitto's file: the password is correct, but there are no keys.
        assert_eq!(client("alice", "pass-one").connects(&chain), Err(RefusalCode::NoScramKeys));
    }
}

#[test]
fn a_user_of_the_second_file_is_found() {
    let chain = chain(vec![users(), with_keys()]);
    let client = Client { hash: ScramHash::Sha256, name: "a,b=c", password: "pencil" };
    assert!(client.connects(&chain).is_ok());
    let client = Client { password: "pencils", ..client };
    assert_eq!(client.connects(&chain), Err(RefusalCode::WrongPassword));
}

#[test]
fn failures_are_counted_for_the_scram_user() {
    let rule = FailureRule { by: FailureKey::User, count: 2, within_s: 60, ban_s: 60 };
    let bans = Arc::new(Bans::new(vec![rule]));
    let chain = chain_with(vec![with_keys()], &bans);
    let client = |password| Client { hash: ScramHash::Sha256, name: "a,b=c", password };
    for _ in 0..2 {
        assert_eq!(client("pencils").connects(&chain), Err(RefusalCode::WrongPassword));
    }
    assert!(bans.has(&BanTarget::User("a,b=c".into()), NOW));
    assert_eq!(client("pencil").connects(&chain), Err(RefusalCode::Banned));
}

#[test]
fn an_unsupported_method_is_refused() {
    let chain = chain(vec![with_keys()]);
    for method in ["SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "scram-sha-256", ""] {
        let attempt = AuthAttempt { method: Some(method.into()), ..user("dave", "password") };
        let AuthStep::Refuse(refusal) = chain.begin(attempt, NOW, &mut |_| Ok(())) else {
            panic!("{method} is not refused")
        };
        // [MQTT-4.12.0-1]
        assert_eq!(
            (refusal.code, refusal.reason),
            (RefusalCode::UnknownMethod, ConnectReason::BadAuthenticationMethod)
        );
    }
}

#[test]
fn each_exchange_has_its_own_nonce() {
    let chain = chain(vec![with_keys()]);
    let client = Client { hash: ScramHash::Sha256, name: "a,b=c", password: "pencil" };
    let mut byte = 0;
    let mut challenge = || {
        byte += 1;
        match chain.begin(client.first(), NOW, &mut |bytes| {
            bytes.fill(byte);
            Ok(())
        }) {
            AuthStep::Challenge { data, exchange } => (data, exchange),
            other => panic!("{other:?}"),
        }
    };
    let ((first, _), (second, exchange)) = (challenge(), challenge());
    assert_ne!(first, second);
    // The proof of one exchange is not valid in another.
    let (replayed, _) = client.last(&first);
    let AuthStep::Refuse(refusal) = exchange.go_on(replayed.as_bytes(), NOW) else { panic!("a replay is accepted") };
    assert_eq!(refusal.code, RefusalCode::Scram);
}

#[test]
fn without_random_bytes_there_is_no_challenge() {
    let attempt = AuthAttempt {
        method: Some("SCRAM-SHA-256".into()),
        data: Some(Secret::new("n,,n=user,r=rOprNGfwEbeRWgbNEkqO")),
        ..nobody()
    };
    let chain = chain(vec![users()]);
    let AuthStep::Refuse(refusal) = chain.begin(attempt, NOW, &mut |_| Err(RandomUnavailable)) else {
        panic!("it is not refused")
    };
    assert_eq!((refusal.code, refusal.reason), (RefusalCode::NoRandom, ConnectReason::ServerUnavailable));
}
