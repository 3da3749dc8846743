//! The files of TLS: read at start, and again when the broker is told to.

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

/// Largest file read: lists of revoked certificates grow long.
const FILE_MAX_BYTES: usize = 64 << 20;

/// What serves TLS. Listeners, and the admin API, with the same keys share a server, and so the tickets by which clients resume their sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsServers(Vec<ConfiguredServer>);

/// One server, and what it is made of.
#[derive(Debug, Clone)]
struct ConfiguredServer {
    keys: TlsConfig,
    protocol: Protocol,
    server: Arc<TlsServer>,
    certificates: Arc<[CertificateInfo]>,
}

/// What is told of a certificate that clients are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateInfo {
    /// The hosts that it is for, or whom it names where it is for none.
    pub(crate) names: Vec<String>,
    /// When it expires; `None` where that cannot be read.
    pub(crate) not_after_unix_s: Option<u64>,
}

impl CertificateInfo {
    /// Of the first certificate of a chain.
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
    /// Reads what the listeners and the admin API need.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub(crate) fn read(config: &Config) -> Result<TlsServers, String> {
        TlsServers::default().next(config).map(PreparedTls::adopt)
    }

    /// What serves this listener, where it speaks TLS.
    pub(crate) fn of(&self, listener: &Listener) -> Option<Arc<TlsServer>> {
        self.find_server(listener).map(|find_server| find_server.server.clone())
    }

    /// What its clients are shown, where it speaks TLS.
    pub(crate) fn listener_certificates(&self, listener: &Listener) -> Option<Arc<[CertificateInfo]>> {
        self.find_server(listener).map(|find_server| find_server.certificates.clone())
    }

    /// What serves the admin API of this configuration, where it speaks TLS.
    pub(crate) fn admin_server(&self, config: &Config) -> Option<Arc<TlsServer>> {
        self.find_admin_server(config).map(|find_server| find_server.server.clone())
    }

    /// What its clients are shown, where it speaks TLS.
    pub(crate) fn admin_certificates(&self, config: &Config) -> Option<Arc<[CertificateInfo]>> {
        self.find_admin_server(config).map(|find_server| find_server.certificates.clone())
    }

    fn find_admin_server(&self, config: &Config) -> Option<&ConfiguredServer> {
        config.admin.listen.0.filter(|address| address.is_tls)?;
        self.find(Protocol::Http, &config.admin_tls())
    }

    fn find_server(&self, listener: &Listener) -> Option<&ConfiguredServer> {
        self.find(protocol(listener), &listener.tls).filter(|_| listener.address.is_tls)
    }

    fn find(&self, protocol: Protocol, keys: &TlsConfig) -> Option<&ConfiguredServer> {
        self.0.iter().find(|find_server| find_server.protocol == protocol && find_server.keys == *keys)
    }

    /// Reads what another configuration needs, to be adopted when all else is right, too. A server with the same keys stays, with its
    /// tickets; its files are read again.
    ///
    /// # Errors
    /// What is wrong with the files.
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
            let server = match self.find(protocol, &keys).map(|find_server| find_server.server.clone()) {
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

/// Files that have been read again.
pub(crate) struct PreparedTls {
    /// What is to serve the listeners.
    pub(crate) servers: TlsServers,
    changed: Vec<(Arc<TlsServer>, PreparedConfig)>,
}

impl PreparedTls {
    /// From now on new connections are made with them.
    fn adopt(self) -> TlsServers {
        let (servers, adopt) = self.into_parts();
        adopt();
        servers
    }

    /// What serves, and what has it make new connections with what has been read. That takes no time.
    pub(crate) fn into_parts(self) -> (TlsServers, impl FnOnce() + Send) {
        let PreparedTls { servers, changed } = self;
        let adopt = move || changed.into_iter().for_each(|(server, prepared)| server.adopt(prepared));
        (servers, adopt)
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
        revoked: tls.revoked.iter().map(pem).collect::<Result<_, _>>()?,
        minimum_version: tls.minimum_version,
        cipher_suites: tls.cipher_suites.clone(),
    })
}

fn pem(path: &Path) -> Result<Pem, String> {
    let source = path.display().to_string();
    let bytes = files::bytes(path, FILE_MAX_BYTES).map_err(|why| format!("{source} {why} [tls_file]"))?;
    Ok(Pem { source, bytes })
}
