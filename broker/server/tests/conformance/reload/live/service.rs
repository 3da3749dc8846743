//! A service with an authentication hook, token keys, and a telemetry collector, over HTTP and HTTPS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::base64::base64url;
use crate::support::{EXPECT_TIMEOUT, Folder};

/// The hook's delay for the user `slow-…`.
const SLOW: Duration = Duration::from_millis(400);

/// The service, with both transports. Its certificate is `all.pem` of the folder, its keys are those of `jwks-1.json`.
pub(super) struct Service {
    address: SocketAddr,
    secure_address: SocketAddr,
    shared: Arc<Shared>,
    /// The signers of tokens: the owner of `jwks-1.json`, and that of `jwks-2.json`.
    signers: [Ed25519KeyPair; 2],
}

struct Shared {
    jwks: String,
    asked: AtomicUsize,
    is_released: Mutex<bool>,
    released: Condvar,
    /// Requests received by the collector: head and body of each.
    collected: Mutex<Vec<String>>,
    has_collected: Condvar,
}

impl Service {
    pub(super) fn start(folder: &Folder) -> Service {
        let signers = [1, 2].map(|_| {
            let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
            Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key")
        });
        let jwks = signers.each_ref().map(|signer| {
            let public = base64url(signer.public_key().as_ref());
            format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"EdDSA\",\"x\":\"{public}\"}}]}}")
        });
        folder.write("jwks-1.json", &jwks[0]);
        folder.write("jwks-2.json", &jwks[1]);
        let [jwks, _] = jwks;
        let shared = Arc::new(Shared {
            jwks,
            asked: AtomicUsize::new(0),
            is_released: Mutex::default(),
            released: Condvar::new(),
            collected: Mutex::default(),
            has_collected: Condvar::new(),
        });
        let chain = CertificateDer::from_pem_file(folder.path().join("all.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(folder.path().join("all.key")).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .map(Arc::new)
            .expect("they fit");
        let address = serve(shared.clone(), Some);
        let secure_address = serve(shared.clone(), move |stream| {
            let connection = ServerConnection::new(config.clone()).ok()?;
            Some(StreamOwned::new(connection, stream))
        });
        Service { address, secure_address, shared, signers }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn secure_url(&self) -> String {
        format!("https://localhost:{}", self.secure_address.port())
    }

    /// The number of hook requests.
    pub(super) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Waits for this number of hook requests.
    #[track_caller]
    pub(super) fn await_requests(&self, count: usize) {
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while self.asked() < count {
            assert!(Instant::now() < deadline, "asked {} times, not {count}", self.asked());
            thread::yield_now();
        }
    }

    /// Makes hook requests for the user `held-…` wait, or releases them.
    pub(super) fn hold(&self, holds: bool) {
        *self.shared.is_released.lock().expect("no panic") = !holds;
        self.shared.released.notify_all();
    }

    /// Forgets the requests received by the collector.
    pub(super) fn clear_collected(&self) {
        self.shared.collected.lock().expect("no panic").clear();
    }

    /// Waits for a collector request that contains this text. Returns whether one arrived.
    pub(super) fn collects(&self, text: &str, patience: Duration) -> bool {
        let collected = self.shared.collected.lock().expect("no panic");
        let is_missing = |collected: &mut Vec<String>| !collected.iter().any(|request| request.contains(text));
        let (_collected, timeout) =
            self.shared.has_collected.wait_timeout_while(collected, patience, is_missing).expect("no panic");
        !timeout.timed_out()
    }

    /// A token with these claims, signed by one of the two signers.
    pub(super) fn token(&self, signer: usize, claims: &str) -> Vec<u8> {
        let signed = format!("{}.{}", base64url(br#"{"alg":"EdDSA","typ":"JWT"}"#), base64url(claims.as_bytes()));
        let signature = self.signers[signer].sign(signed.as_bytes());
        format!("{signed}.{}", base64url(signature.as_ref())).into_bytes()
    }
}

/// Serves each connection on its own thread.
fn serve<S: Read + Write>(
    shared: Arc<Shared>,
    secure: impl Fn(std::net::TcpStream) -> Option<S> + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (shared, secure) = (shared.clone(), secure.clone());
            thread::spawn(move || secure(stream).map(|stream| answer_all(stream, &shared)));
        }
    });
    address
}

/// Answers requests until the broker closes.
fn answer_all(mut stream: impl Read + Write, shared: &Shared) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let fields = head.to_ascii_lowercase();
        let length = fields.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        let (status, answer) = answer(&fields, body, shared);
        let response = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.write_all(response.as_bytes()).and_then(|()| stream.flush()).is_err() {
            return;
        }
        bytes.clear();
    }
}

fn answer(fields: &str, body: &str, shared: &Shared) -> (u16, String) {
    const ALLOW: &str = r#"{"result":"allow","user":"somebody"}"#;
    if fields.starts_with("get /keys") {
        return (200, shared.jwks.clone());
    }
    if fields.starts_with("post /v1/") {
        shared.collected.lock().expect("no panic").push(format!("{fields}\n{body}"));
        shared.has_collected.notify_all();
        return (200, "{}".to_owned());
    }
    shared.asked.fetch_add(1, Ordering::SeqCst);
    let is_allowed = match body {
        body if body.contains("\"bad-") => false,
        body if body.contains("\"secret-") => fields.contains("authorization: of-the-broker"),
        body if body.contains("\"broken-") => return (500, String::new()),
        body if body.contains("\"slow-") => {
            thread::sleep(SLOW);
            true
        }
        body if body.contains("\"held-") => {
            let is_released = shared.is_released.lock().expect("no panic");
            drop(shared.released.wait_while(is_released, |is_released| !*is_released).expect("no panic"));
            true
        }
        _ => true,
    };
    (200, if is_allowed { ALLOW.to_owned() } else { r#"{"result":"deny"}"#.to_owned() })
}
