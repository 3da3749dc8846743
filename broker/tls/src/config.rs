//! What an operator gives: certificates, keys, authorities, and what has been revoked.

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

/// Certificates of one server: the names that clients may connect by. Each handshake looks through them.
pub(crate) const IDENTITIES_MAX: usize = 256;

/// The text of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// Where it is from, for messages.
    pub source: String,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// It may be a private key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pem").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Who the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its certificate, and then those of the authorities between it and one that clients know.
    pub chain: Pem,
    /// The private key of its certificate: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key: Pem,
}

/// Whether clients show certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// They are not asked for one.
    #[default]
    None,
    /// They are asked for one and may have none. One that they show must be valid.
    Optional,
    /// They must have one.
    Required,
}

/// All that a server is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsServerConfig {
    /// Who the server is: the first whose certificate has the name that a client asks for, or the very first.
    pub identities: Vec<Identity>,
    /// Whether clients show certificates.
    pub client_certificates: ClientCertificates,
    /// The authorities that issue certificates of clients.
    pub client_authorities: Vec<Pem>,
    /// Lists of certificates that authorities have revoked. Where there are any, there must be one for each certificate's issuer.
    pub revoked: Vec<Pem>,
    /// The least version that is served.
    pub minimum_version: MinimumVersion,
    /// The cipher suites that are served.
    pub cipher_suites: CipherSuites,
}

/// What is wrong with the material: where, and what to do.
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
    /// The certificates with their keys, which fit together.
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
            let text = format!("there are {} certificates, at most {IDENTITIES_MAX}", self.identities.len());
            return Err(TlsServerConfigError::new("tls_too_many_certificates", text));
        }
        self.identities.iter().map(|identity| identity.certified_key(provider).map(Arc::new)).collect()
    }

    /// What looks at the certificates of clients.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsServerConfigError> {
        if self.client_certificates == ClientCertificates::None {
            return match self.client_authorities.is_empty() && self.revoked.is_empty() {
                true => Ok(None),
                false => Err(TlsServerConfigError::new(
                    "tls_client_certificates_off",
                    "tls.client_ca or tls.revoked is set, but clients are not asked for certificates; set tls.client_certificates to \"required\" or \"optional\"",
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
                "clients are asked for certificates, but nothing says whose count; set tls.client_ca",
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
            TlsServerConfigError::new("tls_revoked", format!("tls.revoked or tls.client_ca cannot be used: {error}"))
        })
    }

    /// What decides whether a client's certificate is accepted.
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
                    "{} holds no private key that can be read; it begins with \"-----BEGIN PRIVATE KEY-----\" and is not encrypted",
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
        let text = format!("{} holds no certificate; it begins with \"-----BEGIN CERTIFICATE-----\"", pem.source);
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
            "{} holds no list of revoked certificates; it begins with \"-----BEGIN X509 CRL-----\"",
            pem.source
        );
        return Err(TlsServerConfigError::new("tls_revoked", text));
    }
    Ok(all)
}
