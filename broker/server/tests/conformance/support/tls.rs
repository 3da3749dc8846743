//! TLS for tests: a certificate authority, and a client.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use super::client::EXPECT_TIMEOUT;
use super::folder::Folder;
use super::http::{Answer, answer_bytes};

/// The authority that broker and clients trust.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Writes a broker certificate for `localhost` to a folder, with its key and the certificate of the authority: `NAME.pem`, `NAME.key`
    /// and `NAME-ca.pem`.
    pub(crate) fn write(&self, folder: &Folder, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("valid");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        folder.write(&format!("{name}.pem"), &certificate.pem());
        folder.write(&format!("{name}.key"), &key.serialize_pem());
        folder.write(&format!("{name}-ca.pem"), &self.0.pem());
    }

    /// A client certificate with this common name.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.client_with(name, |_| {})
    }

    /// A client certificate that is valid until this time.
    pub(crate) fn client_until(&self, name: &str, until: SystemTime) -> Identity {
        self.client_with(name, |params| params.not_after = until.into())
    }

    fn client_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        Identity { chain: vec![certificate.der().clone()], key }
    }

    /// A TLS client on a new connection, which trusts this authority.
    pub(crate) fn connect(&self, stream: TcpStream, identity: Option<Identity>) -> Secured {
        Secured::on(self.config(identity), stream)
    }

    /// The configuration of a client, with the session tickets for all its connections.
    pub(crate) fn config(&self, identity: Option<Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match identity {
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key).expect("a certificate and its key")
            }
            None => builder.with_no_client_auth(),
        })
    }
}

/// A TLS connection for MQTT bytes.
pub(crate) struct Secured(StreamOwned<ClientConnection, TcpStream>);

impl Secured {
    pub(crate) fn on(config: Arc<ClientConfig>, stream: TcpStream) -> Secured {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(config, name).expect("a client");
        stream.set_read_timeout(Some(EXPECT_TIMEOUT)).expect("a positive time is a valid timeout");
        Secured(StreamOwned::new(connection, stream))
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn exchange(&mut self, bytes: &[u8], answer: &mut [u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.read_exact(answer)
    }

    /// Sends an HTTP request, and reads the response.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.0.write_all(request)?;
        Ok(Answer::read(&answer_bytes(&mut self.0, false)))
    }

    /// Sends a CONNECT and expects success.
    #[track_caller]
    pub(crate) fn open(&mut self, connect: &[u8]) {
        let mut start = [0; 4];
        self.exchange(connect, &mut start).expect("the broker answers");
        assert_eq!((start[0], start[3]), (0x20, 0), "CONNACK with success: {start:?}");
        let mut rest = vec![0; usize::from(start[1]) - 2];
        self.0.read_exact(&mut rest).expect("CONNACK is complete");
    }

    /// Sends a CONNECT. Returns the rest of CONNACK after its fixed header.
    #[track_caller]
    pub(crate) fn connack(&mut self, connect: &[u8]) -> Vec<u8> {
        let mut header = [0; 2];
        self.exchange(connect, &mut header).expect("the broker answers");
        assert_eq!((header[0], header[1] & 0x80), (0x20, 0), "a short CONNACK: {header:?}");
        let mut rest = vec![0; usize::from(header[1])];
        self.0.read_exact(&mut rest).expect("CONNACK is complete");
        rest
    }

    /// Expects an answer to PINGREQ.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        let mut pong = [0; 2];
        self.exchange(&[0xC0, 0], &mut pong).expect("the broker answers");
        assert_eq!(pong, [0xD0, 0]);
    }
}
