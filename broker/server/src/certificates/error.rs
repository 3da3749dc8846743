//! Errors of `tautwire cert`.

use std::fmt;
use std::path::Path;

/// Why a certificate was not issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateError {
    code: &'static str,
    text: String,
}

impl CertificateError {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> CertificateError {
        CertificateError { code, text: text.into() }
    }

    pub(crate) fn file(path: &Path, code: &'static str, what: impl fmt::Display) -> CertificateError {
        CertificateError::new(code, format!("{}: {what}", path.display()))
    }

    pub(super) fn generation(error: rcgen::Error) -> CertificateError {
        CertificateError::new("cert_make", format!("cannot generate the certificate: {error}"))
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.text, self.code)
    }
}
