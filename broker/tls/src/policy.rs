//! The supported versions and cipher suites.

use rustls::crypto::{CryptoProvider, ring};
use rustls::{SupportedProtocolVersion, version};

/// The minimum version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinimumVersion {
    /// TLS 1.2, only with forward secrecy and authenticated encryption.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl MinimumVersion {
    pub(crate) fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
        match self {
            MinimumVersion::Tls12 => &ALL,
            MinimumVersion::Tls13 => &ALL[..1],
        }
    }
}

/// The enabled cipher suites, in order of preference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CipherSuites(Vec<&'static str>);

impl CipherSuites {
    /// The names of all supported suites, in order of preference.
    pub fn known() -> Vec<&'static str> {
        ring::ALL_CIPHER_SUITES.iter().filter_map(|suite| suite.suite().as_str()).collect()
    }

    /// The suites of these names, such as `TLS13_AES_128_GCM_SHA256`. Without names, all supported suites.
    ///
    /// # Errors
    /// The name that is unknown.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<CipherSuites, &'a str> {
        let known = CipherSuites::known();
        names
            .into_iter()
            .map(|name| known.iter().copied().find(|known| *known == name).ok_or(name))
            .collect::<Result<_, _>>()
            .map(CipherSuites)
    }

    /// The names; empty if all suites are enabled.
    pub fn names(&self) -> &[&'static str] {
        &self.0
    }

    pub(crate) fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if !self.0.is_empty() {
            let suite = |name: &&str| ring::ALL_CIPHER_SUITES.iter().find(|suite| suite.suite().as_str() == Some(name));
            provider.cipher_suites = self.0.iter().filter_map(suite).copied().collect();
        }
        provider
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_are_found_by_name() {
        assert!(CipherSuites::known().contains(&"TLS13_AES_128_GCM_SHA256"));
        assert_eq!(CipherSuites::of(["TLS13_AES_128_GCM_SHA256", "RC4"]), Err("RC4"));
        let two = CipherSuites::of(["TLS13_CHACHA20_POLY1305_SHA256", "TLS13_AES_128_GCM_SHA256"]).expect("two");
        let provider = two.provider();
        assert_eq!(provider.cipher_suites.len(), 2);
        assert_eq!(provider.cipher_suites[0].suite().as_str(), Some("TLS13_CHACHA20_POLY1305_SHA256"));
        assert_eq!(CipherSuites::default().provider().cipher_suites.len(), CipherSuites::known().len());
    }
}
