//! Measures the cost of authentication: `cargo run --release -p tautwire-identity --example costs`.

use std::sync::Arc;

use tautwire_identity::edit::{self, Derived};
use tautwire_identity::{
    Algorithm, AuthAttempt, AuthBackend, AuthStep, CertificateRules, Chain, ClientOrigin, JWT_METHOD, Jwt, JwtSettings,
    KeySet, Keys, Now, PasswordCost, PasswordFile, Secret, Settings,
};

const NOW: Now = Now { unix_s: 1_300_819_000, steady_ms: 0 };
/// The token of RFC 7515, appendix A.3, and its key.
const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
const MOSQUITTO: &str = "bob:$7$101$Um4+bXZYv0FWZhqc$jVnvtqyXP18TLJK0EwzoMVtdm1RVW1lDp1FJrSDygW4tpusRDkikhKWUcJpcUiYPIsaHN5lDOnx4/9aWdcZ8cQ==\n";

fn main() {
    let mut random = |bytes: &mut [u8]| bytes.fill(7);
    let password = Secret::new("password");
    let mut text = MOSQUITTO.to_owned();
    report("SCRAM keys and a hash, as for a new user", 5, || {
        let account = edit::account(&password, Derived { scram: true, cost: PasswordCost::default() }, &mut random)
            .expect("an account");
        text = edit::add(MOSQUITTO, "alice", &account).expect("added");
    });
    let file = Arc::new(PasswordFile::parse("users", &text).expect("a file"));
    let chain = chain(vec![AuthBackend::PasswordFile(file)]);
    for (what, times, user, password) in [
        ("Argon2id, 19 MiB, two iterations: the password", 20, "alice", "password"),
        ("Argon2id: a wrong password", 20, "alice", "wrong"),
        ("an unknown user: the cost of a known one", 20, "mallory", "password"),
        ("$7$ of mosquitto, 101 iterations", 1_000, "bob", "pass-two"),
    ] {
        let attempt =
            AuthAttempt { user_name: Some(user.into()), password: Some(Secret::new(password)), ..nobody(None) };
        report(what, times, || end(&chain, &attempt));
    }
    let scram = AuthAttempt {
        method: Some("SCRAM-SHA-256".into()),
        data: Some(Secret::new("n,,n=alice,r=rOprNGfwEbeRWgbNEkqO")),
        ..nobody(None)
    };
    report("SCRAM-SHA-256, the broker's side of an exchange", 10_000, || end(&chain, &scram));

    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate").der().to_vec();
    let rules = self::chain(vec![AuthBackend::Certificate(Arc::new(CertificateRules::common_name()))]);
    let holder = nobody(Some(certificate.into()));
    report("a certificate", 10_000, || end(&rules, &holder));

    let settings =
        JwtSettings { algorithms: vec![Algorithm::Es256], user_claim: "iss".into(), ..JwtSettings::default() };
    let keys = Keys::Fixed(Arc::new(KeySet::of_file(KEYS).expect("keys")));
    let tokens = self::chain(vec![AuthBackend::Jwt(Arc::new(Jwt::new(settings, keys).expect("settings")))]);
    let token = AuthAttempt { method: Some(JWT_METHOD.into()), data: Some(Secret::new(TOKEN)), ..nobody(None) };
    report("a token by ES256", 1_000, || end(&tokens, &token));
}

fn chain(links: Vec<AuthBackend>) -> Arc<Chain> {
    let settings =
        Settings { allows_plain_passwords: false, key: [7; 32], bans: Arc::default(), verified: Arc::default() };
    Arc::new(Chain::new(links, settings).expect("a chain"))
}

fn nobody(certificate: Option<Arc<[u8]>>) -> AuthAttempt {
    let origin = ClientOrigin {
        listener: "tls".into(),
        address: None,
        is_encrypted: true,
        certificate: certificate.map(tautwire_identity::Certificate::Der),
        peer_uid: None,
    };
    AuthAttempt {
        origin: Arc::new(origin),
        client_id: "c".into(),
        user_name: None,
        password: None,
        method: None,
        data: None,
        is_v5: true,
    }
}

fn end(chain: &Arc<Chain>, attempt: &AuthAttempt) {
    let mut step = chain.begin(attempt.clone(), NOW, &mut |bytes| {
        bytes.fill(1);
        Ok(())
    });
    loop {
        step = match step {
            AuthStep::AuthWork(work) => work.run(&(), NOW),
            AuthStep::Challenge { data, exchange } => {
                let challenge = String::from_utf8(data).expect("text");
                let nonce = challenge.split(',').next().expect("a nonce");
                let last = format!("c=biws,{nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
                exchange.go_on(last.as_bytes(), NOW)
            }
            AuthStep::Admit { .. } | AuthStep::Refuse(_) => return,
        };
    }
}

/// Prints the fastest of some runs.
fn report(what: &str, times: u32, mut run: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let before = processor_ns();
        (0..times).for_each(|_| run());
        best = best.min((processor_ns() - before) / f64::from(times));
    }
    println!("{what}: {:.1} us", best / 1e3);
}

/// CPU time of this thread in nanoseconds, from Linux, which excludes other processes.
fn processor_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|text| text.parse().ok()).expect("a time")
}
