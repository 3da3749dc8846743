//! SCRAM messages of arbitrary text: no panic, and nobody is authenticated without the password.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tautwire_identity::{AuthAttempt, AuthBackend, AuthStep, Chain, ClientOrigin, Now, PasswordFile, Secret, Settings};

/// `user` with the password of RFC 7677. No input has the password, nor the nonce.
const USERS: &str = "user:$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA:$scram-sha-256$i=4096$W22ZaJ0SNY7soEsUEjb6gQ$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY$wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU";

static CHAIN: LazyLock<Arc<Chain>> = LazyLock::new(|| {
    let file = PasswordFile::parse("users", USERS).expect("a file");
    let settings =
        Settings { allows_plain_passwords: false, key: [7; 32], bans: Arc::default(), verified: Arc::default() };
    Arc::new(Chain::new(vec![AuthBackend::PasswordFile(Arc::new(file))], settings).expect("a chain"))
});

fuzz_target!(|input: &[u8]| {
    let [kind, input @ ..] = input else { return };
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (first, last) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let origin =
        ClientOrigin { listener: "tls".into(), address: None, is_encrypted: true, certificate: None, peer_uid: None };
    let method = ["SCRAM-SHA-256", "SCRAM-SHA-512", "JWT", "x"][usize::from(kind % 4)];
    let attempt = AuthAttempt {
        origin: Arc::new(origin),
        client_id: "".into(),
        user_name: None,
        password: None,
        method: Some(method.into()),
        data: Some(Secret::new(first)),
        is_v5: true,
    };
    let now = Now { unix_s: 1, steady_ms: 1 };
    match CHAIN.begin(attempt, now, &mut |bytes| {
        bytes.fill(1);
        Ok(())
    }) {
        AuthStep::Refuse(_) => {}
        AuthStep::Challenge { data, exchange } => {
            let challenge = String::from_utf8(data).expect("text");
            let (nonce, rest) = challenge.strip_prefix("r=").and_then(|text| text.split_once(',')).expect("a nonce");
            assert!(nonce.ends_with(&"AQEB".repeat(6)) && rest.contains(",i="), "{challenge}");
            // With the nonce of this exchange, or unchanged.
            let last = if kind & 4 == 0 { last.to_vec() } else { [b"c=biws,r=", nonce.as_bytes(), last].concat() };
            let step = exchange.go_on(&last, now);
            assert!(matches!(step, AuthStep::Refuse(_)), "{step:?}");
        }
        other => panic!("{other:?}"),
    }
});
