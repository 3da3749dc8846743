//! Server configuration: certificates, keys, authorities and revocation lists.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;

use crate::policy::{CipherSuites, MinimumVersion};

/// The maximum number of certificates of one server. Each handshake searches them by name.
pub(crate) const IDENTITIES_MAX: usize = 256;

/// The content of a PEM file.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The file or other source, for messages.
    pub source: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Omits the content, which may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pem").field("source", &self.source).finish_non_exhaustive()
    }
}

/// A certificate of the server with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The server's certificate, followed by the intermediate certificates.
    pub chain: Pem,
    /// The private key of its certificate: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key: Pem,
}

/// Whether clients are asked for certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// Clients are asked for a certificate, and may have none. A certificate that they present must be valid.
    Optional,
    /// Clients must present a certificate.
    Required,
}

/// The configuration of a TLS server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsServerConfig {
    /// The server's certificates: the first one with the name that a client asks for is used, or else the very first.
    pub identities: Vec<Identity>,
    /// Whether clients are asked for certificates.
    pub client_certificates: ClientCertificates,
    /// The authorities that issue client certificates.
    pub client_authorities: Vec<Pem>,
    /// Certificate revocation lists. If there are any, there must be one for each issuer.
    pub revoked: Vec<Pem>,
    /// The minimum version.
    pub minimum_version: MinimumVersion,
    /// The enabled cipher suites.
    pub cipher_suites: CipherSuites,
}

/// What is wrong with the configuration, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsServerConfigError {
    code: &'static str,
    text: String,
}

impl TlsServerConfigError {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> TlsServerConfigError {
        TlsServerConfigError { code, text: text.into() }
    }

    /// A stable code.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for TlsServerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.text, self.code)
    }
}

impl std::error::Error for TlsServerConfigError {}

impl TlsServerConfig {
    /// The certificates with their matching keys.
    pub(crate) fn certified_keys(
        &self,
        provider: &CryptoProvider,
    ) -> Result<Vec<Arc<CertifiedKey>>, TlsServerConfigError> {
        if self.identities.is_empty() {
            return Err(TlsServerConfigError::new(
                "tls_no_certificate",
                "there is no certificate; set tls.certificate and tls.key",
            ));
        }
        if self.identities.len() > IDENTITIES_MAX {
            let text = format!("there are {} certificates; the maximum is {IDENTITIES_MAX}", self.identities.len());
            return Err(TlsServerConfigError::new("tls_too_many_certificates", text));
        }
        self.identities.iter().map(|identity| identity.certified_key(provider).map(Arc::new)).collect()
    }

    /// The verifier of client certificates.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsServerConfigError> {
        if self.client_certificates == ClientCertificates::None {
            return match self.client_authorities.is_empty() && self.revoked.is_empty() {
                true => Ok(None),
                false => Err(TlsServerConfigError::new(
                    "tls_client_certificates_off",
                    "tls.client_ca or tls.crl is set, but clients are not asked for certificates; set tls.client_certificates to \"required\" or \"optional\"",
                )),
            };
        }
        let mut roots = RootCertStore::empty();
        for pem in &self.client_authorities {
            for certificate in certificates(pem)? {
                roots.add(certificate).map_err(|error| {
                    let text = format!("{} has a certificate that cannot be an authority: {error}", pem.source);
                    TlsServerConfigError::new("tls_authority", text)
                })?;
            }
        }
        if roots.is_empty() {
            return Err(TlsServerConfigError::new(
                "tls_no_authority",
                "clients are asked for certificates, but no authority is trusted; set tls.client_ca",
            ));
        }
        let mut lists = Vec::new();
        for pem in &self.revoked {
            lists.extend(revocation_lists(pem)?);
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .with_crls(lists)
            .enforce_revocation_expiration();
        let builder = match self.client_certificates {
            ClientCertificates::Required => builder,
            ClientCertificates::Optional | ClientCertificates::None => builder.allow_unauthenticated(),
        };
        builder.build().map(Some).map_err(|error| {
            TlsServerConfigError::new("tls_revoked", format!("tls.crl or tls.client_ca cannot be used: {error}"))
        })
    }

    /// Whether both configurations accept the same client certificates.
    pub(crate) fn has_same_trust(&self, other: &TlsServerConfig) -> bool {
        self.client_certificates == other.client_certificates
            && self.client_authorities == other.client_authorities
            && self.revoked == other.revoked
    }
}

impl Identity {
    fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsServerConfigError> {
        let chain = certificates(&self.chain)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key.bytes).map_err(|error| {
            let text = match error {
                pem::Error::NoItemsFound => format!(
                    "{} has no readable private key; a key file begins with \"-----BEGIN PRIVATE KEY-----\" and is not encrypted",
                    self.key.source
                ),
                error => format!("{} is not PEM: {error}", self.key.source),
            };
            TlsServerConfigError::new("tls_key", text)
        })?;
        let source = &self.key.source;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsServerConfigError::new(
                "tls_key_mismatch",
                format!("{source} is not the key of the first certificate in {}", self.chain.source),
            ),
            error => TlsServerConfigError::new(
                "tls_key",
                format!("{source} cannot be used with {}: {error}", self.chain.source),
            ),
        })
    }
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, TlsServerConfigError> {
    let all = CertificateDer::pem_slice_iter(&pem.bytes).collect::<Result<Vec<_>, _>>();
    let all =
        all.map_err(|error| TlsServerConfigError::new("tls_pem", format!("{} is not PEM: {error}", pem.source)))?;
    if all.is_empty() {
        let text = format!(
            "{} has no certificate; a certificate file begins with \"-----BEGIN CERTIFICATE-----\"",
            pem.source
        );
        return Err(TlsServerConfigError::new("tls_no_certificate", text));
    }
    Ok(all)
}

fn revocation_lists(pem: &Pem) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsServerConfigError> {
    let all = CertificateRevocationListDer::pem_slice_iter(&pem.bytes).collect::<Result<Vec<_>, _>>();
    let all =
        all.map_err(|error| TlsServerConfigError::new("tls_pem", format!("{} is not PEM: {error}", pem.source)))?;
    if all.is_empty() {
        let text = format!(
            "{} has no certificate revocation list; such a file begins with \"-----BEGIN X509 CRL-----\"",
            pem.source
        );
        return Err(TlsServerConfigError::new("tls_revoked", text));
    }
    Ok(all)
}
