//! Which certificate a client is shown.

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The first certificate with the name that the client asks for (SNI), and the very first where there is none: clients that connect by an
/// address ask for no name.
#[derive(Debug)]
pub(crate) struct ByName(Vec<Arc<CertifiedKey>>);

impl ByName {
    /// One at least.
    pub(crate) fn new(keys: Vec<Arc<CertifiedKey>>) -> ByName {
        ByName(keys)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let first = self.0.first()?;
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let named = match name {
            Some(name) if self.0.len() > 1 => {
                self.0.iter().find(|key| key.cert.first().is_some_and(|certificate| has_name(certificate, &name)))
            }
            _ => None,
        };
        Some(named.unwrap_or(first).clone())
    }
}

fn has_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}
