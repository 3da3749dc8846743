//! TLS by rustls, which does no input and output of its own either.

use std::fmt;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::Error;

/// Whom to trust and who to be. By default: the system's certification authorities, and nobody in particular.
#[derive(Clone, Default)]
pub struct Tls {
    config: Option<Arc<ClientConfig>>,
    roots: Vec<CertificateDer<'static>>,
    identity: Option<Arc<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>>,
    server_name: Option<String>,
}

impl Tls {
    /// Trusts the authorities in a PEM file, instead of the system's.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate.
    pub fn trust_file(self, path: impl AsRef<Path>) -> Result<Tls, Error> {
        let path = path.as_ref();
        let certificates = read_certificates(path)?;
        Ok(self.trust(certificates))
    }

    /// Trusts these authorities, in DER, instead of the system's.
    #[must_use]
    pub fn trust(mut self, authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Tls {
        self.roots.extend(authorities);
        self
    }

    /// Shows a certificate to the server: PEM files of the chain and of its key.
    ///
    /// # Errors
    /// A file cannot be read, or holds no certificate or no key.
    pub fn identity_files(mut self, chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Tls, Error> {
        let key_path = key.as_ref();
        let key = PrivateKeyDer::from_pem_file(key_path)
            .map_err(|error| Error::Tls(format!("{}: {error}", key_path.display()).into()))?;
        self.identity = Some(Arc::new((read_certificates(chain.as_ref())?, key)));
        Ok(self)
    }

    /// Shows a certificate to the server: the chain and its key, in DER.
    #[must_use]
    pub fn identity(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Tls {
        self.identity = Some(Arc::new((chain, key)));
        self
    }

    /// The name that the server's certificate must have, where it is not the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Tls {
        self.server_name = Some(name.into());
        self
    }

    /// A configuration of rustls, for whatever else is to be said. It counts instead of all but the server name.
    #[must_use]
    pub fn config(mut self, config: Arc<ClientConfig>) -> Tls {
        self.config = Some(config);
        self
    }

    fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = &self.config {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        if self.roots.is_empty() {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        for root in &self.roots {
            roots.add(root.clone()).map_err(failed)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots);
        let config = match &self.identity {
            Some(identity) => {
                builder.with_client_auth_cert(identity.0.clone(), identity.1.clone_key()).map_err(failed)?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |what: String| Error::Tls(format!("{}: {what}", path.display()).into());
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() { Err(wrong("no certificate in it".into())) } else { Ok(certificates) }
}

fn failed(error: impl fmt::Display) -> Error {
    Error::Tls(error.to_string().into())
}

pub(super) struct TlsLayer(ClientConnection);

impl TlsLayer {
    pub(super) fn new(tls: &Tls, host: &str) -> Result<TlsLayer, Error> {
        let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(failed)?;
        let mut connection = ClientConnection::new(tls.client_config()?, name).map_err(failed)?;
        // What is encrypted is taken at once, so the limits on output are those of the machine.
        connection.set_buffer_limit(None);
        Ok(TlsLayer(connection))
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.0.is_handshaking()
    }

    pub(super) fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.writer().write_all(bytes).map_err(failed)?;
        self.take(out)
    }

    pub(super) fn decrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut bytes = Cursor::new(bytes);
        let mut plain = Vec::new();
        while (bytes.position() as usize) < bytes.get_ref().len() {
            if self.0.read_tls(&mut bytes).map_err(failed)? == 0 {
                break;
            }
            let processed = self.0.process_new_packets();
            // Also after a failure: the alert that says why is among it.
            self.take(out)?;
            let readable = processed.map_err(failed)?.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + readable, 0);
            self.0.reader().read_exact(&mut plain[start..]).map_err(failed)?;
        }
        Ok(plain)
    }

    pub(super) fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.send_close_notify();
        self.take(out)
    }

    fn take(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        while self.0.wants_write() {
            self.0.write_tls(out).map_err(failed)?;
        }
        Ok(())
    }
}
