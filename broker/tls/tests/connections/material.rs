//! Invalid configurations.

use tautwire_tls::{ClientCertificates, Identity, Pem, Protocol, TlsServer, TlsServerConfig};

use crate::support::{Authority, material, pem};

#[test]
fn each_error_is_reported() {
    let authority = Authority::new("a");
    let (leaf, other) = (authority.issue(&["localhost"], 1), authority.issue(&["localhost"], 2));
    let right = material(&leaf);
    let with = |chain: Pem, key: Pem| TlsServerConfig {
        identities: vec![Identity { chain, key }],
        ..TlsServerConfig::default()
    };
    let (chain, key) = (leaf.identity().chain, leaf.identity().key);
    let mtls = |client_authorities, revoked, client_certificates| TlsServerConfig {
        client_authorities,
        revoked,
        client_certificates,
        ..right.clone()
    };
    for (material, code, says) in [
        (TlsServerConfig::default(), "tls_no_certificate", "tls.certificate"),
        (with(pem("x.pem", "hello"), key.clone()), "tls_no_certificate", "x.pem has no certificate"),
        (with(chain.clone(), chain.clone()), "tls_key", "chain.pem has no readable private key"),
        (
            with(chain.clone(), other.identity().key),
            "tls_key_mismatch",
            "not the key of the first certificate in chain.pem",
        ),
        (
            with(chain.clone(), pem("k", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")),
            "tls_key",
            "k cannot be used",
        ),
        (
            mtls(vec![authority.pem()], vec![], ClientCertificates::None),
            "tls_client_certificates_off",
            "tls.client_certificates",
        ),
        (mtls(vec![], vec![], ClientCertificates::Required), "tls_no_authority", "tls.client_ca"),
        (
            mtls(vec![authority.pem()], vec![chain.clone()], ClientCertificates::Optional),
            "tls_revoked",
            "has no certificate revocation list",
        ),
    ] {
        let error = TlsServer::new(material, Protocol::Mqtt).expect_err(code);
        assert_eq!(error.code(), code, "{error}");
        let text = error.to_string();
        assert!(text.contains(says) && text.ends_with(&format!("[{code}]")), "{text}");
    }
    assert!(TlsServer::new(right, Protocol::Mqtt).is_ok());
}

#[test]
fn debug_output_has_no_keys() {
    let leaf = Authority::new("a").issue(&["localhost"], 1);
    let shown = format!("{:?}", material(&leaf));
    assert!(!shown.contains("BEGIN") && !shown.contains(&leaf.key[30..60]), "{shown}");
}
