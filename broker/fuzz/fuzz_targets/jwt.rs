//! Tokens, key sets and keys of arbitrary text: no panic, and nobody is authenticated without a signature.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tautwire_identity::{
    Algorithm, AuthAttempt, AuthBackend, AuthStep, Chain, ClientOrigin, JWT_METHOD, Jwt, JwtSettings, KeySet, Keys,
    Now, Secret, Settings,
};

/// The keys of RFC 7515, appendices A.1 and A.3, of which no input has the private part. The secret is a different one.
const KEYS: &str = r#"{"keys":[{"kty":"oct","kid":"a","k":"cXVpdGUgYW5vdGhlciBzZWNyZXQgdGhhbiB0aGF0IG9mIHRoZSBzdGFuZGFyZA"},{"kty":"EC","kid":"b","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

static CHAIN: LazyLock<Arc<Chain>> = LazyLock::new(|| chain(KeySet::of_file(KEYS).expect("keys")));

fn chain(keys: KeySet) -> Arc<Chain> {
    let settings = JwtSettings { algorithms: Algorithm::ALL.to_vec(), ..JwtSettings::default() };
    let jwt = Jwt::new(settings, Keys::Fixed(Arc::new(keys))).expect("settings");
    let settings =
        Settings { allows_plain_passwords: false, key: [7; 32], bans: Arc::default(), verified: Arc::default() };
    Arc::new(Chain::new(vec![AuthBackend::Jwt(Arc::new(jwt))], settings).expect("a chain"))
}

fn step(chain: &Arc<Chain>, token: &[u8]) -> AuthStep {
    let origin =
        ClientOrigin { listener: "tls".into(), address: None, is_encrypted: true, certificate: None, peer_uid: None };
    let attempt = AuthAttempt {
        origin: Arc::new(origin),
        client_id: "".into(),
        user_name: None,
        password: None,
        method: Some(JWT_METHOD.into()),
        data: Some(Secret::new(token)),
        is_v5: true,
    };
    let now = Now { unix_s: 1, steady_ms: 1 };
    match chain.begin(attempt, now, &mut |bytes| {
        bytes.fill(1);
        Ok(())
    }) {
        AuthStep::AuthWork(work) => work.run(&(), now),
        step => step,
    }
}

fuzz_target!(|input: &[u8]| {
    let [kind, input @ ..] = input else { return };
    match kind % 3 {
        0 => {
            let step = step(&CHAIN, input);
            assert!(matches!(step, AuthStep::Refuse(_)), "{step:?}");
        }
        1 => {
            // Header and payload as text, so that the fuzzer need not learn Base64.
            let mut parts = input.splitn(3, |byte| *byte == b'\n').map(encoded);
            let mut part = || parts.next().unwrap_or_default();
            let token = format!("{}.{}.{}", part(), part(), part());
            let step = step(&CHAIN, token.as_bytes());
            assert!(matches!(step, AuthStep::Refuse(_)), "{step:?}");
        }
        _ => {
            let Ok(text) = std::str::from_utf8(input) else { return };
            let _ = KeySet::of_secret(Secret::new(text));
            if let Ok(keys) = KeySet::of_file(text) {
                let header = encoded(br#"{"alg":"ES256"}"#);
                let _ = step(&chain(keys), format!("{header}.{}.{}", encoded(b"{}"), encoded(&[7; 64])).as_bytes());
            }
        }
    }
});

/// Base64url without padding.
fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0_usize, |number, index| number << 8 | usize::from(*chunk.get(index).unwrap_or(&0)));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[number >> (18 - 6 * digit) & 63]));
        }
    }
    text
}
