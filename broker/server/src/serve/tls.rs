//! TLS keys and certificates: read at startup and on reload.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tautwire_identity::CertificateFields;
use tautwire_tls::{Identity, Pem, PreparedConfig, Protocol, TlsServer, TlsServerConfig};

use crate::certificates;
use crate::config::Config;
use crate::config::listener::Listener;
use crate::config::settings::TlsConfig;
use crate::files;

/// Largest accepted file: revocation lists can be long.
const FILE_MAX_BYTES: usize = 64 << 20;

/// The TLS servers. Listeners, and the admin API, with the same keys share a server, and so the tickets for session resumption.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsServers(Vec<ConfiguredServer>);

/// A TLS server with the configuration it was built from.
#[derive(Debug, Clone)]
struct ConfiguredServer {
    keys: TlsConfig,
    protocol: Protocol,
    server: Arc<TlsServer>,
    certificates: Arc<[CertificateInfo]>,
}

/// The public data of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateInfo {
    /// The hosts it is valid for, or else the common name.
    pub(crate) names: Vec<String>,
    /// The expiry; `None` if it cannot be parsed.
    pub(crate) not_after_unix_s: Option<u64>,
}

impl CertificateInfo {
    /// Reads the first certificate of a chain.
    fn of(chain: &Pem) -> Option<CertificateInfo> {
        let der = CertificateDer::pem_slice_iter(&chain.bytes).next()?.ok()?;
        let fields = CertificateFields::read(&der).unwrap_or_default();
        let of = |kinds: &[&str]| -> Vec<String> {
            fields.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, name)| name.to_owned()).collect()
        };
        let hosts = of(&["dns", "ip"]);
        let names = if hosts.is_empty() { of(&["cn"]) } else { hosts };
        Some(CertificateInfo { names, not_after_unix_s: certificates::not_after_unix_s(&der) })
    }
}

impl TlsServers {
    /// Reads the files for all TLS listeners and the admin API.
    ///
    /// # Errors
    /// The error in the files.
    pub(crate) fn read(config: &Config) -> Result<TlsServers, String> {
        TlsServers::default().next(config).map(PreparedTls::apply)
    }

    /// The server of a listener, if it uses TLS.
    pub(crate) fn of(&self, listener: &Listener) -> Option<Arc<TlsServer>> {
        self.find_server(listener).map(|configured| configured.server.clone())
    }

    /// The certificates of a listener, if it uses TLS.
    pub(crate) fn listener_certificates(&self, listener: &Listener) -> Option<Arc<[CertificateInfo]>> {
        self.find_server(listener).map(|configured| configured.certificates.clone())
    }

    /// The server of the admin API, if it uses TLS.
    pub(crate) fn admin_server(&self, config: &Config) -> Option<Arc<TlsServer>> {
        self.find_admin_server(config).map(|configured| configured.server.clone())
    }

    /// The certificates of the admin API, if it uses TLS.
    pub(crate) fn admin_certificates(&self, config: &Config) -> Option<Arc<[CertificateInfo]>> {
        self.find_admin_server(config).map(|configured| configured.certificates.clone())
    }

    fn find_admin_server(&self, config: &Config) -> Option<&ConfiguredServer> {
        config.admin.listen.0.filter(|address| address.is_tls)?;
        self.find(Protocol::Http, &config.admin_tls())
    }

    fn find_server(&self, listener: &Listener) -> Option<&ConfiguredServer> {
        self.find(protocol(listener), &listener.tls).filter(|_| listener.address.is_tls)
    }

    fn find(&self, protocol: Protocol, keys: &TlsConfig) -> Option<&ConfiguredServer> {
        self.0.iter().find(|configured| configured.protocol == protocol && configured.keys == *keys)
    }

    /// Reads the files for another configuration, to be applied after everything else has been checked. A server with the same keys is
    /// reused with its tickets; its files are read again.
    ///
    /// # Errors
    /// The error in the files.
    pub(crate) fn next(&self, config: &Config) -> Result<PreparedTls, String> {
        let listeners = config.listeners().into_iter().filter(|listener| listener.address.is_tls);
        let of_listeners = listeners.map(|listener| (protocol(&listener), listener.tls));
        let admin = config.admin.listen.0.filter(|address| address.is_tls);
        let admin_server = admin.map(|_| (Protocol::Http, config.admin_tls()));
        let (mut servers, mut changed) = (TlsServers::default(), Vec::new());
        for (protocol, keys) in of_listeners.chain(admin_server) {
            if servers.find(protocol, &keys).is_some() {
                continue;
            }
            let material = read(&keys)?;
            let certificates = material.identities.iter().filter_map(|identity| CertificateInfo::of(&identity.chain));
            let certificates = certificates.collect();
            let server = match self.find(protocol, &keys).map(|configured| configured.server.clone()) {
                Some(server) => {
                    changed.push((server.clone(), server.prepare(material).map_err(|error| error.to_string())?));
                    server
                }
                None => TlsServer::new(material, protocol).map(Arc::new).map_err(|error| error.to_string())?,
            };
            servers.0.push(ConfiguredServer { keys, protocol, server, certificates });
        }
        Ok(PreparedTls { servers, changed })
    }
}

/// TLS files read for a reload.
pub(crate) struct PreparedTls {
    /// The servers for the listeners.
    pub(crate) servers: TlsServers,
    changed: Vec<(Arc<TlsServer>, PreparedConfig)>,
}

impl PreparedTls {
    /// Switches new connections to the new files.
    fn apply(self) -> TlsServers {
        let (servers, apply) = self.into_parts();
        apply();
        servers
    }

    /// The servers, and a function that switches new connections to the new files without blocking.
    pub(crate) fn into_parts(self) -> (TlsServers, impl FnOnce() + Send) {
        let PreparedTls { servers, changed } = self;
        let apply = move || changed.into_iter().for_each(|(server, prepared)| server.adopt(prepared));
        (servers, apply)
    }
}

fn protocol(listener: &Listener) -> Protocol {
    if listener.address.websocket.is_some() { Protocol::Http } else { Protocol::Mqtt }
}

fn read(tls: &TlsConfig) -> Result<TlsServerConfig, String> {
    let identities = tls.certificate.iter().zip(tls.key.iter());
    Ok(TlsServerConfig {
        identities: identities
            .map(|(chain, key)| Ok(Identity { chain: pem(chain)?, key: pem(key)? }))
            .collect::<Result<_, String>>()?,
        client_certificates: tls.client_certificates,
        client_authorities: tls.client_ca.iter().map(pem).collect::<Result<_, _>>()?,
        revoked: tls.crl.iter().map(pem).collect::<Result<_, _>>()?,
        minimum_version: tls.minimum_version,
        cipher_suites: tls.cipher_suites.clone(),
    })
}

fn pem(path: &Path) -> Result<Pem, String> {
    let source = path.display().to_string();
    let bytes = files::bytes(path, FILE_MAX_BYTES).map_err(|why| format!("{source} {why} [tls_file]"))?;
    Ok(Pem { source, bytes })
}
