//! Selection of the server certificate.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

/// Selects the first certificate with the name that the client requests (SNI), or the first of all if there is none: clients that connect
/// to an IP address request no name.
///
/// The names are parsed once, so that an unknown name costs as little as a known one.
#[derive(Debug)]
pub(crate) struct SniResolver {
    keys: Vec<Arc<CertifiedKey>>,
    /// Names in lower case, wildcards with their `*`, each with the index of the first certificate that has it.
    indices: HashMap<String, usize>,
}

impl SniResolver {
    /// `keys` must not be empty.
    pub(crate) fn new(keys: Vec<Arc<CertifiedKey>>) -> SniResolver {
        let mut indices = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            let Some(certificate) = key.cert.first().and_then(|der| EndEntityCert::try_from(der).ok()) else {
                continue;
            };
            for name in certificate.valid_dns_names() {
                indices.entry(name.to_ascii_lowercase()).or_insert(place);
            }
        }
        SniResolver { keys, indices }
    }

    /// The index of the first certificate for a name.
    fn index_of(&self, name: &str) -> Option<usize> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let exact = self.indices.get(&name);
        // A wildcard matches one label, the first (RFC 9525, 6.3).
        let wild = name.split_once('.').and_then(|(_, parent)| self.indices.get(&format!("*.{parent}")));
        exact.into_iter().chain(wild).min().copied()
    }
}

impl ResolvesServerCert for SniResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let place = match hello.server_name() {
            Some(name) if self.keys.len() > 1 => self.index_of(name).unwrap_or(0),
            _ => 0,
        };
        self.keys.get(place).cloned()
    }
}
