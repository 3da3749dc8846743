//! TLS of the targets.

use rustls::{ClientConfig, RootCertStore};

/// Makes ring the provider of all TLS connections of the process.
pub(crate) fn install_provider() {
    // A second call fails, and changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client configuration that trusts the system's authorities, and those of a PEM file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn client_config(ca_file: Option<&std::path::Path>) -> Result<ClientConfig, String> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let unreadable = |error| format!("{}: no certificates can be read: {error} [tls_ca_file]", path.display());
        for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
            let invalid = |error| format!("{}: a certificate is invalid: {error} [tls_ca_file]", path.display());
            roots.add(certificate.map_err(unreadable)?).map_err(invalid)?;
        }
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}
