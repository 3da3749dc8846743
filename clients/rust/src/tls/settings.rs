//! The TLS settings of a client.

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
use super::verifier::{AcceptAnyVerifier, Verifier};
use crate::Error;

/// The trusted authorities and the client certificate. Default: the system's certification authorities, no client certificate.
#[derive(Clone, Default)]
pub struct Tls {
    config: Option<Arc<ClientConfig>>,
    roots: Vec<CertificateDer<'static>>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    identity: Option<Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>>,
    server_name: Option<String>,
    alpn: Vec<Vec<u8>>,
    takes_any: bool,
    /// Built once, so that later connections resume the TLS session.
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    /// Trusts the authorities in a PEM file instead of the system's. A self-signed server certificate that is not a CA certificate can be
    /// trusted in the same way.
    ///
    /// # Errors
    /// The file cannot be read or contains no certificate.
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

    /// Refuses a server whose certificate is on a revocation list (CRL) in a PEM file. There must be a list for the issuer of each
    /// certificate of the server, and an expired list refuses them all.
    ///
    /// # Errors
    /// The file cannot be read or contains no list.
    pub fn revoked_file(mut self, path: impl AsRef<Path>) -> Result<Tls, Error> {
        self.revoked.extend(read(path.as_ref(), "list of revoked certificates", "X509 CRL")?);
        Ok(self.changed())
    }

    /// Sets the client certificate: PEM files of the chain and of its unencrypted key.
    ///
    /// # Errors
    /// A file cannot be read, or contains no certificate or no key.
    pub fn identity_files(self, chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Tls, Error> {
        let chain = read(chain.as_ref(), "certificate", "CERTIFICATE")?;
        let path = key.as_ref();
        let key = PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
            pem::Error::NoItemsFound => settings(format!(
                "{} contains no readable private key; it must begin with \"-----BEGIN PRIVATE KEY-----\" and must not be encrypted",
                path.display()
            )),
            error => settings(format!("{}: {error}", path.display())),
        })?;
        Ok(self.identity(chain, key))
    }

    /// Sets the client certificate: the chain and its key, in DER.
    #[must_use]
    pub fn identity(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Tls {
        self.identity = Some(Arc::new((chain, key)));
        self.changed()
    }

    /// The name that is sent to the server (SNI) and that its certificate must have, if it differs from the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Tls {
        self.server_name = Some(name.into());
        self
    }

    /// The protocols to request by ALPN, for example `mqtt`, the preferred one first. Default: none.
    #[must_use]
    pub fn alpn<P: Into<Vec<u8>>>(mut self, protocols: impl IntoIterator<Item = P>) -> Tls {
        self.alpn = protocols.into_iter().map(Into::into).collect();
        self.changed()
    }

    /// Accepts any server certificate. An attacker on the network can then read and change everything, passwords too: use it only for
    /// experiments.
    #[must_use]
    pub fn dangerously_accept_any_certificate(mut self) -> Tls {
        self.takes_any = true;
        self.changed()
    }

    /// Sets a rustls configuration. It replaces all other settings except the server name.
    #[must_use]
    pub fn config(mut self, config: Arc<ClientConfig>) -> Tls {
        self.config = Some(config);
        self
    }

    /// Whether nothing has been set.
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
            .map_err(|_| settings(format!("\"{}\" is not a valid server name", name.escape_debug())))
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
            true => Arc::new(AcceptAnyVerifier(provider.clone())),
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
                        settings("the private key does not match the client certificate")
                    }
                    error => settings(format!("the client certificate cannot be used: {error}")),
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
                return Err(settings("this system has no certification authorities; set the ones to trust"));
            }
        }
        for root in &self.roots {
            roots.add(root.clone()).map_err(|error| settings(format!("invalid authority certificate: {error}")))?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .with_crls(self.revoked.iter().cloned())
            .enforce_revocation_expiration()
            .build()
            .map_err(|error| settings(format!("invalid revocation list: {error}")))?;
        Ok(Arc::new(Verifier { usual: verifier, trusted: self.roots.clone() }))
    }
}

impl fmt::Debug for Tls {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The items of this kind in a PEM file, at least one.
fn read<T: PemObject>(path: &Path, kind: &str, label: &str) -> Result<Vec<T>, Error> {
    let found = T::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| settings(format!("{}: {error}", path.display())))?;
    match found.is_empty() {
        true => Err(settings(format!(
            "{} contains no {kind}; it must begin with \"-----BEGIN {label}-----\"",
            path.display()
        ))),
        false => Ok(found),
    }
}

fn settings(text: impl Into<Box<str>>) -> Error {
    Error::Tls(TlsFailure::new(TlsFault::Settings, text))
}
