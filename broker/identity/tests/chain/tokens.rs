//! Clients with tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use tautwire_identity::{
    Algorithm, AuthAttempt, AuthBackend, AuthStep, Chain, HttpClient, HttpRequest, HttpRequestError, HttpResponse,
    JWT_METHOD, Jwks, JwksSettings, Jwt, JwtSettings, KeySet, Keys, Now, Refusal, RefusalCode, Secret,
};
use tautwire_protocol::ConnectReason;

use super::rsa;
use super::support::{NOW, admitted, chain, ends_at, nobody, refused, user, users};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn encoded(text: &str) -> String {
    Base64UrlUnpadded::encode_string(text.as_bytes())
}

/// A token by HS256.
fn signed(header: &str, claims: &str) -> String {
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
}

fn token(claims: &str) -> String {
    signed(r#"{"alg":"HS256"}"#, claims)
}

fn hs256() -> JwtSettings {
    JwtSettings { algorithms: vec![Algorithm::Hs256], ..JwtSettings::default() }
}

fn backend(settings: JwtSettings, keys: KeySet) -> AuthBackend {
    AuthBackend::Jwt(Arc::new(Jwt::new(settings, Keys::Fixed(Arc::new(keys))).expect("settings")))
}

fn of_secret(settings: JwtSettings) -> Arc<Chain> {
    chain(vec![backend(settings, KeySet::of_secret(Secret::new(SECRET)).expect("a key"))])
}

/// As most clients send it: in the password, with some user name.
fn with(token: &str) -> AuthAttempt {
    user("token", token)
}

#[test]
fn tokens_of_the_standard_are_accepted() {
    // RFC 7515, appendices A.1 and A.3.
    let secret = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}]}"#;
    let curve = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
    let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    for (algorithm, keys, header, signature) in [
        (
            Algorithm::Hs256,
            secret,
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        ),
        (
            Algorithm::Es256,
            curve,
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
    ] {
        let settings = JwtSettings { algorithms: vec![algorithm], user_claim: "iss".into(), ..JwtSettings::default() };
        let chain = chain(vec![backend(settings, KeySet::of_file(keys).expect("keys"))]);
        let attempt = with(&format!("{header}.{claims}.{signature}"));
        let early = Now { unix_s: 1_300_819_000, steady_ms: 0 };
        let principal = ends_at(&chain, attempt.clone(), early).0.expect("admitted");
        assert_eq!((principal.user.as_deref(), principal.backend), (Some("joe"), "jwt"));
        assert_eq!(principal.expires_at_unix_s, Some(1_300_819_380 + 30));
        assert!(principal.claims.contains(&("http://example.com/is_root".into(), "true".into())));
        assert_eq!(refused(&chain, attempt).code, RefusalCode::TokenExpired);
    }
}

#[test]
fn rsa_tokens_are_accepted_with_both_kinds_of_keys() {
    let jwks =
        |more: &str| format!(r#"{{"keys":[{{"kty":"RSA","kid":"r1","e":"AQAB","n":"{}"{more}}}]}}"#, rsa::MODULUS);
    let user = |keys: &str, token: &str| {
        let chain = chain(vec![backend(JwtSettings::default(), KeySet::of_file(keys).expect("keys"))]);
        ends_at(&chain, with(token), NOW)
            .0
            .map(|principal| principal.user.expect("a user"))
            .map_err(|refusal| refusal.code)
    };
    for keys in [rsa::PEM, &jwks("")] {
        assert_eq!(user(keys, rsa::RS256).as_deref(), Ok("robot"));
        assert_eq!(user(keys, rsa::PS256).as_deref(), Ok("robot"));
        let changed = rsa::RS256.replacen("eyJzdWIi", "eyJzdWJi", 1);
        assert_eq!(user(keys, &changed), Err(RefusalCode::Token));
    }
    // A key may be for one algorithm only, and not for signatures at all.
    assert_eq!(user(&jwks(r#","alg":"PS256""#), rsa::RS256), Err(RefusalCode::Token));
    assert_eq!(user(&jwks(r#","alg":"RS256","use":"sig""#), rsa::RS256).as_deref(), Ok("robot"));
    assert!(KeySet::of_file(&jwks(r#","use":"enc""#)).is_err());
}

#[test]
fn elliptic_curve_keys_verify_only_their_own_tokens() {
    let random = SystemRandom::new();
    let keys: Vec<KeyPair> = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
        .map(|kind| KeyPair::generate_for(kind).expect("a key"))
        .into();
    let sign = |index: usize, name: &str| {
        let message =
            format!("{}.{}", encoded(&format!(r#"{{"alg":"{name}"}}"#)), encoded(r#"{"sub":"u","exp":1900000000}"#));
        let der = keys[index].serialize_der();
        let ecdsa = |algorithm| {
            let key = EcdsaKeyPair::from_pkcs8(algorithm, &der, &random).expect("a key");
            key.sign(&random, message.as_bytes()).expect("a signature").as_ref().to_vec()
        };
        let signature = match index {
            0 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            1 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der)
                .expect("a key")
                .sign(message.as_bytes())
                .as_ref()
                .to_vec(),
        };
        format!("{message}.{}", Base64UrlUnpadded::encode_string(&signature))
    };
    let tokens = [sign(0, "ES256"), sign(1, "ES384"), sign(2, "EdDSA"), sign(2, "Ed25519")];
    for (key, pem) in keys.iter().map(KeyPair::public_key_pem).enumerate() {
        let chain = chain(vec![backend(JwtSettings::default(), KeySet::of_pem(&pem).expect("a key"))]);
        for (index, token) in tokens.iter().enumerate() {
            assert_eq!(ends_at(&chain, with(token), NOW).0.is_ok(), index.min(2) == key, "{key} {index}");
        }
    }
    let all: String = keys.iter().map(KeyPair::public_key_pem).collect();
    let chain = chain(vec![backend(JwtSettings::default(), KeySet::of_pem(&all).expect("keys"))]);
    assert!(tokens.iter().all(|token| ends_at(&chain, with(token), NOW).0.is_ok()));
}

#[test]
fn a_key_is_refused_for_another_algorithm() {
    let refusal = |keys: KeySet, token: &str| {
        // Even if all algorithms are allowed.
        let settings = JwtSettings { algorithms: Algorithm::ALL.to_vec(), ..JwtSettings::default() };
        refused(&chain(vec![backend(settings, keys)]), with(token))
    };
    let none = format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(r#"{"sub":"u","exp":1900000000}"#));
    let found = refusal(KeySet::of_pem(rsa::PEM).expect("a key"), &none);
    assert_eq!((found.code, found.reason), (RefusalCode::Token, ConnectReason::BadUserNameOrPassword));
    assert!(found.log.contains("none is unknown, or none"), "{found}");
    let long =
        none.replacen(&encoded(r#"{"alg":"none"}"#), &encoded(&format!(r#"{{"alg":"{}"}}"#, "x".repeat(2_000))), 1);
    let found = refusal(KeySet::of_pem(rsa::PEM).expect("a key"), &long);
    assert!(
        found.log.contains("x… is unknown") && found.log.len() < 200,
        "a client without a key cannot cause long log lines: {found}"
    );
    // HS256 with the public key as the secret.
    let message = none.trim_end_matches('.').replacen(&encoded(r#"{"alg":"none"}"#), &encoded(r#"{"alg":"HS256"}"#), 1);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, rsa::PEM.as_bytes());
    let confused =
        format!("{message}.{}", Base64UrlUnpadded::encode_string(ring::hmac::sign(&key, message.as_bytes()).as_ref()));
    let found = refusal(KeySet::of_pem(rsa::PEM).expect("a key"), &confused);
    assert!(found.log.contains("no key (none) for HS256"), "{found}");
    assert!(KeySet::of_secret(Secret::new(rsa::PEM)).is_err());
    assert!(KeySet::of_secret(Secret::new("too short")).is_err());
    let private = KeyPair::generate().expect("a key").serialize_pem();
    let found = KeySet::of_pem(&private).expect_err("refused").to_string();
    assert!(found.contains("this is a private key"), "{found}");
    // Valid, but not allowed.
    let chain = chain(vec![backend(JwtSettings::default(), KeySet::of_secret(Secret::new(SECRET)).expect("a key"))]);
    let found = refused(&chain, with(&token(r#"{"sub":"u","exp":1900000000}"#)));
    assert!(found.log.contains("HS256 is not allowed"), "{found}");
}

#[test]
fn claims_are_checked() {
    let settings =
        || JwtSettings { issuers: vec!["https://id".into()], audiences: vec!["mqtt".into()], leeway_s: 60, ..hs256() };
    let now = NOW.unix_s;
    let found = |claims: String| match ends_at(&of_secret(settings()), with(&token(&claims)), NOW).0 {
        Ok(_) => "admitted".to_owned(),
        Err(Refusal { code, log, .. }) => format!("{code:?}: {log}"),
    };
    let claims =
        |more: &str| format!(r#"{{"iss":"https://id","sub":"u","aud":["x","mqtt"],"exp":{}{more}}}"#, now + 10);
    assert_eq!(found(claims("")), "admitted");
    assert_eq!(found(claims(&format!(r#","nbf":{},"iat":{}.5"#, now + 60, now + 60))), "admitted");
    for (claims, expected) in [
        (claims(&format!(r#","nbf":{}"#, now + 61)), "it is not valid yet (nbf)"),
        (claims(&format!(r#","iat":{}"#, now + 61)), "it is not valid yet (iat)"),
        (claims(r#","nbf":"soon""#), "nbf is not a time"),
        (claims(r#","nbf":1e999"#), "nbf is not a time"),
        (claims(r#","sub":"v""#), "its payload has a duplicate name"),
        (claims("").replace("\"mqtt\"", "\"other\""), "its audience is x, not this broker (aud)"),
        (claims("").replace("[\"x\",\"mqtt\"]", "\"other\""), "its audience is other, not this broker (aud)"),
        (claims("").replace("[\"x\",\"mqtt\"]", "7"), "not this broker"),
        (claims("").replace("\"aud\"", "\"other\""), "its audience is (none)"),
        (claims("").replace("https://id", "https://evil"), "its issuer https://evil is unknown"),
        (claims("").replace("\"iss\"", "\"other\""), "its issuer (none) is unknown"),
        (claims("").replace("\"sub\"", "\"other\""), "sub is not a valid name"),
        (claims("").replace("\"u\"", "\"\""), "sub is not a valid name"),
        (claims("").replace("\"u\"", "\"a\\u0000b\""), "sub is not a valid name"),
        (claims("").replace("\"u\"", "7"), "sub is not a valid name"),
        (claims("").replace("\"exp\"", "\"other\""), "it has no expiry time"),
        (claims("").replace(&format!("{}", now + 10), &format!("{}", now - 60)), "TokenExpired: "),
        (claims("").replace(&format!("{}", now + 10), "-1"), "TokenExpired: "),
        ("[]".to_owned(), "its payload is not an object"),
        ("{".to_owned(), "its payload is not JSON"),
    ] {
        let found = found(claims.clone());
        assert!(found.contains(expected), "{claims}: {found}");
    }
    // Until the leeway is over.
    assert_eq!(found(claims("").replace(&format!("{}", now + 10), &format!("{}", now - 59))), "admitted");
    // Without configured audiences, only tokens without an audience are accepted (RFC 7519, section 4.1.3).
    let without = JwtSettings { audiences: vec![], ..settings() };
    assert!(refused(&of_secret(without), with(&token(&claims("")))).log.contains("(aud)"));
}

#[test]
fn invalid_tokens_are_refused() {
    let claims = r#"{"sub":"u","exp":1900000000}"#;
    for (text, expected) in [
        (signed(r#"{"alg":"HS256","crit":["exp"],"exp":1}"#, claims), "(crit)"),
        (signed(r#"{"alg":"HS256","kid":7}"#, claims), "its kid is not a string"),
        (signed(r#"{"alg":"HS256","alg":"none"}"#, claims), "its header has a duplicate name"),
        (signed("{}", claims), "its header names no algorithm"),
        (signed(r#"{"alg":"HS255"}"#, claims), "its algorithm HS255 is unknown"),
        (signed(&format!(r#"{{"alg":"HS256","x":"{}"}}"#, "x".repeat(4_000)), claims), "its header is longer than"),
        (format!("{}x", token(claims)), "its signature is wrong"),
        (format!("{}A", &token(claims)[..token(claims).len() - 1]), ""),
    ] {
        let attempt =
            AuthAttempt { method: Some(JWT_METHOD.into()), data: Some(Secret::new(text.clone())), ..nobody() };
        let refusal = refused(&of_secret(hs256()), attempt);
        assert_eq!(refusal.code, RefusalCode::Token);
        assert!(refusal.log.contains(expected), "{text}: {refusal}");
    }
    // A password that does not look like a token is left to other backends, and so is a token of another issuer.
    let settings = JwtSettings { issuers: vec!["https://id".into()], ..hs256() };
    let both = chain(vec![backend(settings, KeySet::of_secret(Secret::new(SECRET)).expect("a key")), users()]);
    assert_eq!(admitted(&both, user("dave", "password")).backend, "password_file");
    let found = refused(&both, user("dave", &token(claims)));
    assert_eq!(found.code, RefusalCode::WrongPassword);
    let found = refused(&both, user("nobody", &token(claims)));
    assert!(found.log.contains("its issuer (none) is unknown"), "{found}");
}

#[test]
fn claims_name_user_client_and_roles() {
    let settings = JwtSettings {
        user_claim: "ext.login".into(),
        client_id_claim: Some("device".into()),
        roles_claim: Some("realm_access.roles".into()),
        ..hs256()
    };
    let chain = of_secret(settings);
    let claims = r#"{"ext":{"login":"ann"},"device":"d-7","exp":1900000000,"realm_access":{"roles":["a","b",7]},"n":[1,true,null]}"#;
    let principal = admitted(&chain, with(&token(claims)));
    assert_eq!((principal.user.as_deref(), principal.client_id.as_deref()), (Some("ann"), Some("d-7")));
    assert_eq!(&*principal.roles, ["a".into(), "b".into()]);
    let has = |name: &str, value: &str| principal.claims.contains(&(name.into(), value.into()));
    assert!(has("ext.login", "ann") && has("realm_access.roles", "b") && has("n", "1") && has("n", "true"));
    assert!(!format!("{principal:?}").contains("realm_access.roles\", \"b"), "{principal:?}");
    let spoofed = r#"{"ext":{"login":"ann"},"device":"d-7","exp":1900000000,"peer_uid":0}"#;
    let principal = admitted(&chain, with(&token(spoofed)));
    assert!(!principal.claims.iter().any(|(name, _)| &**name == "peer_uid"), "only the system can set it");
}

/// A key server that counts requests.
struct Server {
    asked: AtomicUsize,
    answer: Result<(u16, String), HttpRequestError>,
}

impl Server {
    fn new(answer: Result<(u16, String), HttpRequestError>) -> Server {
        Server { asked: AtomicUsize::new(0), answer }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl HttpClient for Server {
    fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
        assert_eq!((request.url, request.body.is_none(), request.timeout_ms), ("https://id/keys", true, 500));
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (status, body) = self.answer.clone()?;
        Ok(HttpResponse::new(status, body))
    }
}

fn rsa_set(kid: &str) -> String {
    format!(r#"{{"keys":[{{"kty":"RSA","kid":"{kid}","e":"AQAB","n":"{}"}}]}}"#, rsa::MODULUS)
}

fn fetched() -> (Arc<Jwks>, Arc<Chain>) {
    let settings = JwksSettings { url: "https://id/keys".into(), refresh_s: 100, keep_s: 1_000, timeout_ms: 500 };
    let jwks = Arc::new(Jwks::new(settings).expect("a URL"));
    let settings = JwtSettings { leeway_s: 0, ..JwtSettings::default() };
    let jwt = Jwt::new(settings, Keys::Url(jwks.clone())).expect("settings");
    (jwks, chain(vec![AuthBackend::Jwt(Arc::new(jwt))]))
}

fn outcome(chain: &Arc<Chain>, server: &Server, seconds: u64) -> Result<(), RefusalCode> {
    let now = Now { unix_s: NOW.unix_s, steady_ms: seconds * 1_000 };
    match chain.begin(with(rsa::RS256), now, &mut |_| Ok(())) {
        AuthStep::AuthWork(work) => match work.run(server, now) {
            AuthStep::Admit { .. } => Ok(()),
            AuthStep::Refuse(refusal) => Err(refusal.code),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_a_url_are_cached_refreshed_and_used_during_an_outage() {
    let (jwks, chain) = fetched();
    let (up, down) = (Server::new(Ok((200, rsa_set("r1")))), Server::new(Err(HttpRequestError::Timeout)));
    // Before there are keys, all clients are refused, and not every client causes a fetch.
    for seconds in [0, 1, 9] {
        assert_eq!(outcome(&chain, &down, seconds), Err(RefusalCode::TokenKeys));
    }
    assert_eq!(down.asked(), 1);
    for seconds in [10, 11, 109] {
        assert_eq!(outcome(&chain, &up, seconds), Ok(()));
    }
    assert_eq!(up.asked(), 1);
    for seconds in [110, 119, 120, 1_009] {
        assert_eq!(outcome(&chain, &down, seconds), Ok(()));
    }
    assert_eq!(down.asked(), 4);
    assert_eq!(outcome(&chain, &down, 1_019), Err(RefusalCode::TokenKeys), "they are too old now");
    assert_eq!(outcome(&chain, &up, 1_029), Ok(()));
    let state = jwks.state(Now { unix_s: 0, steady_ms: 1_030_000 });
    assert_eq!((state.fetches, state.failures, state.age_ms), (7, 5, Some(1_000)));
}

#[test]
fn one_request_serves_all_waiters_for_the_first_keys() {
    const CLIENTS: usize = 8;

    /// Answers when all clients are there.
    struct Slow(AtomicUsize, Server);
    impl HttpClient for Slow {
        fn request(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpRequestError> {
            while self.0.load(Ordering::Acquire) < CLIENTS {
                std::thread::yield_now();
            }
            // Long enough for most of them to wait.
            (0..1_000).for_each(|_| std::thread::yield_now());
            self.1.request(request)
        }
    }
    let (_, chain) = fetched();
    let slow = Slow(AtomicUsize::new(0), Server::new(Ok((200, rsa_set("r1")))));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let AuthStep::AuthWork(work) = chain.begin(with(rsa::RS256), NOW, &mut |_| Ok(())) else {
                    panic!("no work")
                };
                slow.0.fetch_add(1, Ordering::AcqRel);
                assert!(matches!(work.run(&slow, NOW), AuthStep::Admit { .. }));
            });
        }
    });
    assert_eq!(slow.1.asked(), 1);
}

#[test]
fn a_new_key_is_fetched_when_a_token_names_it() {
    let (_, chain) = fetched();
    let (old, new) = (Server::new(Ok((200, rsa_set("r0")))), Server::new(Ok((200, rsa_set("r1")))));
    // That the issuer has begun with a new key is no fault of the client's, which must not be banned for it.
    let unknown = RefusalCode::TokenKey;
    assert!(!unknown.counts_as_failure());
    assert_eq!(outcome(&chain, &old, 0), Err(unknown));
    // Clients cannot make the broker fetch as often as they wish.
    assert_eq!(outcome(&chain, &new, 9), Err(unknown));
    assert_eq!((old.asked(), new.asked()), (1, 0));
    assert_eq!(outcome(&chain, &new, 10), Ok(()));
}

#[test]
fn a_new_key_without_an_id_is_fetched_if_no_old_one_matches() {
    let (_, chain) = fetched();
    let nameless = |modulus: &str| format!(r#"{{"keys":[{{"kty":"RSA","e":"AQAB","n":"{modulus}"}}]}}"#);
    let old = Server::new(Ok((200, nameless(&rsa::MODULUS.replace("w3ST", "w3SU")))));
    let new = Server::new(Ok((200, nameless(rsa::MODULUS))));
    assert_eq!(outcome(&chain, &old, 0), Err(RefusalCode::Token));
    // Wrong signatures cannot make the broker fetch as often as clients wish.
    assert_eq!(outcome(&chain, &new, 9), Err(RefusalCode::Token));
    assert_eq!((old.asked(), new.asked()), (1, 0));
    assert_eq!(outcome(&chain, &new, 10), Ok(()));
}

#[test]
fn a_wrong_signature_of_a_known_key_fetches_nothing() {
    let (_, chain) = fetched();
    let wrong = Server::new(Ok((200, rsa_set("r1").replace("w3ST", "w3SU"))));
    assert_eq!(outcome(&chain, &wrong, 0), Err(RefusalCode::Token));
    assert_eq!(outcome(&chain, &wrong, 50), Err(RefusalCode::Token));
    assert_eq!(wrong.asked(), 1);
}

#[test]
fn invalid_jwks_responses_are_ignored() {
    for answer in [
        (404, rsa_set("r1")),
        (200, "{}".to_owned()),
        (200, r#"{"keys":[]}"#.to_owned()),
        (200, format!(r#"{{"keys":[{{"kty":"oct","kid":"r1","k":"{}"}}]}}"#, encoded(SECRET))),
        (200, "x".to_owned()),
    ] {
        let (_, chain) = fetched();
        assert_eq!(outcome(&chain, &Server::new(Ok(answer)), 0), Err(RefusalCode::TokenKeys));
    }
}

#[test]
fn jwks_urls_must_be_secure() {
    for (url, is_right) in [
        ("https://id.example/keys", true),
        ("http://localhost:8080/keys", true),
        ("http://127.0.0.1/keys", true),
        ("http://[::1]:80/keys", true),
        ("http://id.example/keys", false),
        ("http://localhost.example/keys", false),
        ("http://127.0.0.1@id.example/keys", false),
        ("https://user:password@id.example/", false),
        ("http://127.0.0.1\\@id.example/", false),
        ("https://id.example/a b", false),
        ("ftp://127.0.0.1/", false),
        ("https://", false),
        ("", false),
    ] {
        let settings = JwksSettings { url: url.into(), refresh_s: 1, keep_s: 1, timeout_ms: 1 };
        match Jwks::new(settings) {
            Ok(_) => assert!(is_right, "{url}"),
            Err(error) => assert!(!is_right && !error.to_string().contains("password@"), "{url}: {error}"),
        }
    }
}
