//! TLS against a real handshake.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use tautwire_client::{Client, Error, Options, Publication, QoS, Subscribe, Tls, TlsFault, blocking};

use crate::support::{PATIENCE, Running, any_port, soon};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    fn issue(&self, name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("valid");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
    }
}

/// Terminates TLS in front of a broker. With `clients`, client certificates are required.
fn terminator(target: SocketAddr, authority: &Authority, clients: bool) -> SocketAddr {
    let (chain, key) = authority.issue("localhost");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().expect("versions");
    let builder = if clients {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate()).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().expect("a verifier");
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config = Arc::new(builder.with_single_cert(chain, key).expect("a certificate and its key"));
    let listener = TcpListener::bind(any_port()).expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for incoming in listener.incoming().map_while(Result::ok) {
            let config = config.clone();
            std::thread::spawn(move || serve(incoming, target, config));
        }
    });
    address
}

/// One thread forwards both directions in turns, with short timeouts for each side.
fn serve(mut incoming: TcpStream, target: SocketAddr, config: Arc<ServerConfig>) -> Option<()> {
    let mut tls = ServerConnection::new(config).ok()?;
    while tls.is_handshaking() {
        if tls.complete_io(&mut incoming).is_err() {
            // The alert with the reason.
            let _ = tls.write_tls(&mut incoming);
            return None;
        }
    }
    let mut outgoing = TcpStream::connect(target).ok()?;
    incoming.set_nonblocking(true).ok()?;
    outgoing.set_nonblocking(true).ok()?;
    let mut bytes = vec![0; 64 << 10];
    loop {
        let mut idle = true;
        while tls.wants_write() && tls.write_tls(&mut incoming).is_ok() {
            idle = false;
        }
        match tls.read_tls(&mut incoming) {
            Ok(0) => return None,
            Ok(_) => {
                idle = false;
                tls.process_new_packets().ok()?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        // Data may have arrived with the handshake.
        while let Ok(count @ 1..) = tls.reader().read(&mut bytes) {
            write_all(&mut outgoing, &bytes[..count])?;
        }
        match outgoing.read(&mut bytes) {
            Ok(0) => return None,
            Ok(count) => {
                idle = false;
                tls.writer().write_all(&bytes[..count]).ok()?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        if idle {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
    Some(())
}

fn options(address: SocketAddr) -> Options {
    Options::new(&format!("mqtts://localhost:{}", address.port())).expect("an address").reconnect(None)
}

#[test]
fn messages_are_encrypted_on_threads() {
    let (broker, authority) = (Running::start(), Authority::new());
    let address = terminator(broker.address(), &authority, false);
    let tls = Tls::default().trust([authority.certificate()]);
    let client = blocking::Client::connect(options(address).tls(tls)).expect("trusted");
    let mut stream = client.subscribe(Subscribe::to("t").qos(QoS::AtLeastOnce)).expect("granted");
    let large = vec![7; 300_000];
    for payload in [&b"small"[..], &large] {
        client
            .publish(Publication::new("t", payload).qos(QoS::AtLeastOnce))
            .expect("taken")
            .wait()
            .expect("acknowledged");
        assert_eq!(stream.next_timeout(PATIENCE).expect("arrives").payload(), payload);
    }
    client.disconnect().expect("ends cleanly");
}

#[tokio::test]
async fn messages_are_encrypted_on_tokio_with_a_client_certificate() {
    let (broker, authority) = (Running::start(), Authority::new());
    let address = terminator(broker.address(), &authority, true);
    let (chain, key) = authority.issue("client");
    let tls = Tls::default().trust([authority.certificate()]);
    let client = Client::connect(options(address).tls(tls.clone().identity(chain, key))).await.expect("known");
    let handle = client.publish(Publication::new("t", "x").qos(QoS::ExactlyOnce)).await.expect("taken");
    soon(handle).await.expect("acknowledged");
    client.disconnect().await.expect("ends cleanly");
    let error = Client::connect(options(address).tls(tls)).await.expect_err("unknown");
    assert!(matches!(error, Error::Tls(_) | Error::HandshakeFailed(_)), "{error}");
}

#[test]
fn an_untrusted_server_is_refused() {
    let (broker, authority) = (Running::start(), Authority::new());
    let address = terminator(broker.address(), &authority, false);
    let stranger = Tls::default().trust([Authority::new().certificate()]);
    let error = blocking::Client::connect(options(address).tls(stranger)).expect_err("another authority");
    assert_eq!(error.code(), TlsFault::UnknownAuthority.code(), "{error}");
    let misnamed = Tls::default().trust([authority.certificate()]).server_name("elsewhere.test");
    let error = blocking::Client::connect(options(address).tls(misnamed)).expect_err("another name");
    assert_eq!(error.code(), TlsFault::NameMismatch.code(), "{error}");
    assert!(error.to_string().contains("is for localhost, not for elsewhere.test"), "{error}");
    let anybody = Tls::default().dangerously_accept_any_certificate();
    blocking::Client::connect(options(address).tls(anybody)).expect("asked for nothing").disconnect().expect("ends");
}

#[test]
fn tls_settings_are_never_silently_ignored() {
    let broker = Running::start();
    let secured = [
        Tls::default().trust([Authority::new().certificate()]),
        Tls::default().server_name("broker.test"),
        Tls::default().alpn(["mqtt"]),
        Tls::default().dangerously_accept_any_certificate(),
    ];
    for tls in secured {
        let error = blocking::Client::connect(broker.options().tls(tls)).expect_err("nothing is encrypted");
        assert_eq!(error.code(), "invalid_options", "{error}");
    }
    let client = blocking::Client::connect(broker.options().tls(Tls::default())).expect("nothing was asked for");
    client.disconnect().expect("ends cleanly");
}
