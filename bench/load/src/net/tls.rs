//! TLS 1.3 of the generator. It accepts any certificate, because verification is not the broker's work and would slow down the generator.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, ServerConfig, SignatureScheme, version,
};

use crate::failure::{ErrorContext, Result};

const SERVER_NAME: &str = "localhost";
/// The space that rustls has for input when a record of maximum size has started.
const STEP_BYTES: usize = 16 << 10;

/// The client end of a connection.
pub(super) struct Tls(ClientConnection);

/// The TLS settings of the generator; with `resumes` it resumes earlier sessions if possible.
pub(crate) fn client_config(resumes: bool) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(one_suite());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]);
    let builder = builder.during(|| "TLS 1.3".to_owned())?;
    let verifier = Arc::new(AcceptAnyCertificate);
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    if !resumes {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// The TLS settings of the relay.
pub(super) fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let reading = |path: &Path| format!("reading {}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate).during(|| reading(certificate))?;
    let chain = chain.collect::<std::result::Result<Vec<_>, _>>().during(|| reading(certificate))?;
    let key = PrivateKeyDer::from_pem_file(key).during(|| reading(key))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(one_suite())).with_protocol_versions(&[&version::TLS13]);
    let builder = builder.during(|| "TLS 1.3".to_owned())?;
    Ok(Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).during(|| "the certificate".to_owned())?))
}

/// All brokers are measured with the same cipher suite, which is the first choice of all of them.
fn one_suite() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites = vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384];
    provider
}

pub(super) fn connection(config: &Arc<ClientConfig>) -> Result<ClientConnection> {
    let name = ServerName::try_from(SERVER_NAME).during(|| "a server's name".to_owned())?;
    let mut connection = ClientConnection::new(config.clone(), name).during(|| "TLS".to_owned())?;
    // The scenario limits the data that is queued before the end of the handshake, or in one call.
    connection.set_buffer_limit(None);
    Ok(connection)
}

impl Tls {
    pub(super) fn new(mut connection: ClientConnection) -> Self {
        connection.set_buffer_limit(None);
        Self(connection)
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Processes received records, and appends the decrypted bytes to `plain`.
    pub(super) fn open(&mut self, mut records: &[u8], plain: &mut Vec<u8>) -> Result<()> {
        while !records.is_empty() {
            let step_bytes = records.len().min(STEP_BYTES);
            let mut step = &records[..step_bytes];
            while !step.is_empty() {
                self.0.read_tls(&mut step)?;
                let state = self.0.process_new_packets().during(|| "TLS".to_owned())?;
                let from = plain.len();
                plain.resize(from + state.plaintext_bytes_to_read(), 0);
                self.0.reader().read_exact(&mut plain[from..])?;
            }
            records = &records[step_bytes..];
        }
        Ok(())
    }

    /// Encrypts bytes, and appends the records to `records`.
    pub(super) fn seal(&mut self, plain: &[u8], records: &mut Vec<u8>) -> Result<()> {
        self.0.writer().write_all(plain)?;
        while self.0.wants_write() {
            self.0.write_tls(records)?;
        }
        Ok(())
    }
}

/// Accepts every certificate and every signature.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
