//! The certificates between that of a server and an authority that its clients know.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::der;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Longest chain: OpenSSL's limit is 100, and nobody needs ten.
const CHAIN_MAX: usize = 10;

/// Completes the chain of a certificate as OpenSSL does: where `own` is one certificate alone, the issuers are looked for among
/// `authorities`. Both are PEM. The authority at the end, which clients must have, is left out. `None` where nothing is to be added.
pub(crate) fn completed_chain(own: &str, authorities: &str) -> Option<String> {
    let own = certificates(own);
    let [leaf] = own.as_slice() else { return None };
    let known = certificates(authorities);
    let mut chain = vec![leaf];
    while chain.len() < CHAIN_MAX {
        let last = der::fields(&chain[chain.len() - 1].der)?;
        let is_issuer = |certificate: &&Certificate<'_>| {
            der::fields(&certificate.der)
                .is_some_and(|fields| fields.subject == last.issuer && fields.subject != fields.issuer)
        };
        let Some(issuer) = known.iter().find(is_issuer) else { break };
        if chain.iter().any(|held| held.der == issuer.der) {
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

/// The certificates of a text in PEM.
fn certificates(text: &str) -> Vec<Certificate<'_>> {
    let blocks = text.match_indices(BEGIN).filter_map(|(at, _)| {
        let len = text.get(at..)?.find(END)? + END.len();
        let pem = text.get(at..at + len)?;
        Some(Certificate { pem, der: CertificateDer::from_pem_slice(pem.as_bytes()).ok()? })
    });
    blocks.collect()
}
