//! TLS, if the environment sets its files.

use rumqttc::{TlsConfiguration, Transport};

/// TLS that trusts `TAUTWIRE_TLS_CA` and uses `TAUTWIRE_TLS_CERT` with `TAUTWIRE_TLS_KEY`.
pub fn tls() -> Option<Transport> {
    let file = |variable| std::env::var_os(variable).map(|path| std::fs::read(path).expect("the file can be read"));
    let ca = file("TAUTWIRE_TLS_CA")?;
    let client_auth = file("TAUTWIRE_TLS_CERT").zip(file("TAUTWIRE_TLS_KEY"));
    let alpn = Some(vec![b"mqtt".to_vec()]);
    Some(Transport::tls_with_config(TlsConfiguration::Simple { ca, alpn, client_auth }))
}
