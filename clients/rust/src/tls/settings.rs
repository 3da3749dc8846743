//! Whom to trust and who to be.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::failure::{TlsFailure, TlsFault};
use super::verifier::{TakesAny, Verifier};
use crate::Error;

/// Whom to trust and who to be. By default: the system's certification authorities, and nobody in particular.
#[derive(Clone, Default)]
pub struct Tls {
    config: Option<Arc<ClientConfig>>,
    roots: Vec<CertificateDer<'static>>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    identity: Option<Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>>,
    server_name: Option<String>,
    alpn: Vec<Vec<u8>>,
    takes_any: bool,
    /// Made once, so that connections after the first resume its session.
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    /// Trusts the authorities in a PEM file, instead of the system's. A self-signed certificate of a server that is not marked as an
    /// authority's can be trusted in the same way.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate.
    pub fn trust_file(self, path: impl AsRef<Path>) -> Result<Tls, Error> {
        let authorities = read(path.as_ref(), "certificate", "CERTIFICATE")?;
        Ok(self.trust(authorities))
    }

    /// Trusts these authorities, in DER, instead of the system's.
    #[must_use]
    pub fn trust(mut self, authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Tls {
        self.roots.extend(authorities);
        self.changed()
    }

    /// Refuses a server whose certificate is on the lists of revoked certificates (CRL) in a PEM file. There must be a list for the issuer of
    /// each certificate of the server, and one that has expired refuses them all.
    ///
    /// # Errors
    /// The file cannot be read or holds no list.
    pub fn revoked_file(mut self, path: impl AsRef<Path>) -> Result<Tls, Error> {
        self.revoked.extend(read(path.as_ref(), "list of revoked certificates", "X509 CRL")?);
        Ok(self.changed())
    }

    /// Shows a certificate to the server: PEM files of the chain and of its key, which is not encrypted.
    ///
    /// # Errors
    /// A file cannot be read, or holds no certificate or no key.
    pub fn identity_files(self, chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Tls, Error> {
        let chain = read(chain.as_ref(), "certificate", "CERTIFICATE")?;
        let path = key.as_ref();
        let key = PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
            pem::Error::NoItemsFound => settings(format!(
                "{} holds no private key that can be read; it begins with \"-----BEGIN PRIVATE KEY-----\" and is not encrypted",
                path.display()
            )),
            error => settings(format!("{}: {error}", path.display())),
        })?;
        Ok(self.identity(chain, key))
    }

    /// Shows a certificate to the server: the chain and its key, in DER.
    #[must_use]
    pub fn identity(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Tls {
        self.identity = Some(Arc::new((chain, key)));
        self.changed()
    }

    /// The name that the server is asked for (SNI) and that its certificate must have, where it is not the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Tls {
        self.server_name = Some(name.into());
        self
    }

    /// Asks the server for one of these protocols (ALPN), for example `mqtt`, the preferred one first. Default: for none.
    #[must_use]
    pub fn alpn<P: Into<Vec<u8>>>(mut self, protocols: impl IntoIterator<Item = P>) -> Tls {
        self.alpn = protocols.into_iter().map(Into::into).collect();
        self.changed()
    }

    /// Takes any certificate of anybody for the server's. Whoever is on the way can read and change everything, passwords too: it is for
    /// trying things alone.
    #[must_use]
    pub fn dangerously_accept_any_certificate(mut self) -> Tls {
        self.takes_any = true;
        self.changed()
    }

    /// A configuration of rustls, for whatever else is to be said. It counts instead of all but the server name.
    #[must_use]
    pub fn config(mut self, config: Arc<ClientConfig>) -> Tls {
        self.config = Some(config);
        self
    }

    /// Nothing has been set.
    pub(crate) fn is_default(&self) -> bool {
        let Tls { config, roots, revoked, identity, server_name, alpn, takes_any, made: _ } = self;
        let has_lists = !(roots.is_empty() && revoked.is_empty() && alpn.is_empty());
        !(*takes_any || has_lists || config.is_some() || identity.is_some() || server_name.is_some())
    }

    fn changed(mut self) -> Tls {
        self.made = Arc::default();
        self
    }

    pub(super) fn name(&self, host: &str) -> Result<ServerName<'static>, Error> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| settings(format!("\"{}\" is no name that a certificate could have", name.escape_debug())))
    }

    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = self.config.as_ref().or_else(|| self.made.get()) {
            return Ok(config.clone());
        }
        let config = self.make()?;
        Ok(self.made.get_or_init(|| config).clone())
    }

    fn make(&self) -> Result<Arc<ClientConfig>, Error> {
        let failed = |error: rustls::Error| settings(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self.takes_any {
            true => Arc::new(TakesAny(provider.clone())),
            false => self.verifier(provider.clone())?,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder.with_client_auth_cert(identity.0.clone(), identity.1.clone_key()).map_err(
                |error| match error {
                    rustls::Error::InconsistentKeys(_) => {
                        settings("the private key is not that of this client's certificate")
                    }
                    error => settings(format!("this client's certificate cannot be used: {error}")),
                },
            )?,
        };
        config.alpn_protocols = self.alpn.clone();
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let mut roots = RootCertStore::empty();
        if self.roots.is_empty() {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(settings("this system has no certification authorities; say which ones to trust"));
            }
        }
        for root in &self.roots {
            roots.add(root.clone()).map_err(|error| settings(format!("an authority cannot be trusted: {error}")))?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .with_crls(self.revoked.iter().cloned())
            .enforce_revocation_expiration()
            .build()
            .map_err(|error| settings(format!("a list of revoked certificates cannot be used: {error}")))?;
        Ok(Arc::new(Verifier { usual: verifier, trusted: self.roots.clone() }))
    }
}

impl fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// What a PEM file holds, one thing of this kind at least.
fn read<T: PemObject>(path: &Path, kind: &str, label: &str) -> Result<Vec<T>, Error> {
    let found = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| settings(format!("{}: {error}", path.display())))?;
    match found.is_empty() {
        true => {
            Err(settings(format!("{} holds no {kind}; it begins with \"-----BEGIN {label}-----\"", path.display())))
        }
        false => Ok(found),
    }
}

fn settings(text: impl Into<Box<str>>) -> Error {
    Error::Tls(TlsFailure::new(TlsFault::Settings, text))
}
