//! Authentication with tokens, and with a hook.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::hmac;

use crate::support::base64::base64url;
use crate::support::{AtLeastOnce, Broker, Folder, V3_1_1, V5};

const SECRET: &str = "a secret of at least thirty-two bytes";

const RULES: &str = r##"
[[role]]
name = "tenant"
rules = [{ allow = "publish", topics = "tenants/{claim.tenant}/#" }]
[[role]]
name = "admin"
rules = [{ allow = "publish", topics = "admin/#" }]
[[assign]]
user = "*"
roles = "tenant"
"##;

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// A token signed with HS256.
pub(crate) fn token(claims: &str, secret: &str) -> Vec<u8> {
    let encoded = |text: &[u8]| base64url(text);
    let signed = format!("{}.{}", encoded(br#"{"alg":"HS256","typ":"JWT"}"#), encoded(claims.as_bytes()));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", encoded(signature.as_ref())).into_bytes()
}

#[test]
fn a_token_determines_the_user_and_the_permissions() {
    let folder = Folder::new(&[("secret", SECRET), ("access.toml", RULES)]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        format!("auth.jwt_secret_file={}", at("secret")),
        format!("acl.file={}", at("access.toml")),
        "auth.jwt_issuers=issuer".to_owned(),
        "auth.jwt_roles_claim=roles".to_owned(),
        "auth.jwt_client_id_claim=device".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = Broker::with(2, &settings);
    let claims = |user: &str, more: &str| {
        format!(
            r#"{{"iss":"issuer","sub":"{user}","device":"d-{user}","tenant":"acme","exp":{}{more}}}"#,
            now_s() + 3_600
        )
    };
    let ann = token(&claims("ann", r#","roles":["admin"]"#), SECRET);
    let mut client = broker.connecting(V5, "whatever").user_name("").password(&ann).open();
    assert_eq!(client.publish("tenants/acme/x", AtLeastOnce, b"x"), 0x10);
    assert_eq!(client.publish("tenants/other/x", AtLeastOnce, b"x"), 0x87);
    assert_eq!(client.publish("admin/x", AtLeastOnce, b"x"), 0x10);
    let bob = token(&claims("bob", ""), SECRET);
    let mut old = broker.connecting(V3_1_1, "c").user_name("bob").password(&bob).open();
    assert_eq!(old.publish("tenants/acme/x", AtLeastOnce, b"x"), 0);
    // The token names the client: this is the same one again.
    let again = token(&claims("ann", ""), SECRET);
    broker.connecting(V5, "other").user_name("").password(&again).open();
    assert_eq!(client.expect_disconnect(), 0x8e);

    let forged = token(&claims("ann", ""), "another secret of thirty-two bytes and more");
    let expired = token(&format!(r#"{{"iss":"issuer","sub":"ann","device":"d","exp":{}}}"#, now_s() - 3_600), SECRET);
    for wrong in [&forged[..], &expired[..], b"no token at all", &ann[..ann.len() - 3]] {
        let code = broker.connecting(V5, "c").user_name("").password(wrong).refused();
        assert!(matches!(code, 0x86 | 0x87), "{code:#x}");
    }
}

#[test]
fn a_connection_ends_with_its_token() {
    let folder = Folder::new(&[("secret", SECRET)]);
    let setting = format!("auth.jwt_secret_file={}", folder.path().join("secret").display());
    let broker = Broker::with(2, &[&setting, "auth.jwt_leeway_s=0"]);
    let soon = token(&format!(r#"{{"sub":"ann","exp":{}}}"#, now_s() + 2), SECRET);
    let mut client = broker.connecting(V5, "c").user_name("").password(&soon).open();
    assert_eq!(client.expect_disconnect(), 0x87);
    assert_eq!(broker.connecting(V5, "c").user_name("").password(&soon).refused(), 0x87);
}

/// A hook that answers by the user in the request, and counts.
struct Service {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    seen: Arc<Mutex<String>>,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let service = Service {
            address: listener.local_addr().expect("an address"),
            asked: Arc::default(),
            seen: Arc::default(),
        };
        let (asked, seen) = (service.asked.clone(), service.seen.clone());
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (asked, seen) = (asked.clone(), seen.clone());
                thread::spawn(move || answer_all(stream, &asked, &seen));
            }
        });
        service
    }
}

/// Answers requests until the broker closes.
fn answer_all(mut stream: TcpStream, asked: &AtomicUsize, seen: &Mutex<String>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            return;
        }
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if body.len() < length.and_then(|text| text.trim().parse().ok()).unwrap_or(0) {
            continue;
        }
        asked.fetch_add(1, Ordering::SeqCst);
        *seen.lock().expect("a lock") = text.clone();
        let answer = match body {
            body if body.contains("\"good\"") => r#"{"result":"allow","user":"good"}"#,
            body if body.contains("\"bad\"") => r#"{"result":"deny"}"#,
            _ => r#"{"result":"ignore"}"#,
        };
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
        bytes.clear();
    }
}

#[test]
fn a_hook_is_called_and_its_responses_are_cached() {
    let service = Service::start();
    let folder = Folder::new(&[("authorization", "Bearer of-the-broker\n")]);
    let settings = [
        format!("auth.hook_url=http://{}/auth", service.address),
        format!("auth.hook_authorization_file={}", folder.path().join("authorization").display()),
        "auth.hook_allow_cache_s=3600".to_owned(),
        "auth.hook_deny_cache_s=3600".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = Broker::with(2, &settings);
    let connecting = |user: &'static str| broker.connecting(V5, "client").user_name(user).password(b"secret");
    for _ in 0..3 {
        connecting("good").open();
        assert_eq!(connecting("bad").refused(), 0x86);
        assert_eq!(connecting("unknown").refused(), 0x86);
    }
    assert_eq!(service.asked.load(Ordering::SeqCst), 3, "each request is sent once");
    let seen = service.seen.lock().expect("a lock").clone();
    assert!(seen.to_ascii_lowercase().contains("authorization: bearer of-the-broker"), "{seen}");
    let log = broker.end();
    assert!(!log.contains("secret") && !log.contains("of-the-broker"), "{log}");
}

#[test]
fn when_unreachable_decides_while_the_hook_is_down() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let url = format!("auth.hook_url=http://{gone}/auth");
    let broker = Broker::set(&[&url]);
    assert_eq!(broker.connecting(V5, "c").user_name("good").password(b"x").refused(), 0x88);
    let broker = Broker::set(&[&url, "auth.hook_unreachable=ignore", "auth.anonymous=true"]);
    broker.connecting(V5, "c").open();
}
