//! Completion of certificate chains with intermediate certificates.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::der;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Longest chain: OpenSSL's limit is 100, and in practice fewer than ten are needed.
const CHAIN_MAX: usize = 10;

/// Completes a certificate chain as OpenSSL does: if `own` is a single certificate, its issuers are looked up in `authorities`. Both are
/// PEM.
/// The root, which clients must have, is omitted. `None` if there is nothing to add.
pub(crate) fn completed_chain(own: &str, authorities: &str) -> Option<String> {
    let own_certificates = certificates(own);
    let [leaf] = own_certificates.as_slice() else { return None };
    let known = certificates(authorities);
    let mut chain = vec![leaf];
    while chain.len() < CHAIN_MAX {
        let last = der::fields(&chain[chain.len() - 1].der)?;
        let is_issuer = |certificate: &&Certificate<'_>| {
            der::fields(&certificate.der)
                .is_some_and(|fields| fields.subject == last.issuer && fields.subject != fields.issuer)
        };
        let Some(issuer) = known.iter().find(is_issuer) else { break };
        if chain.iter().any(|certificate| certificate.der == issuer.der) {
            break;
        }
        chain.push(issuer);
    }
    (chain.len() > 1).then(|| chain.iter().map(|certificate| format!("{}\n", certificate.pem)).collect())
}

struct Certificate<'a> {
    pem: &'a str,
    der: CertificateDer<'static>,
}

/// The certificates in a PEM text.
fn certificates(text: &str) -> Vec<Certificate<'_>> {
    let blocks = text.match_indices(BEGIN).filter_map(|(at, _)| {
        let len = text.get(at..)?.find(END)? + END.len();
        let pem = text.get(at..at + len)?;
        Some(Certificate { pem, der: CertificateDer::from_pem_slice(pem.as_bytes()).ok()? })
    });
    blocks.collect()
}
