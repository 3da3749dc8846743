//! The files of TLS: read at start, and again when the broker is told to.

use std::path::Path;
use std::sync::Arc;

use tautwire_tls::{Identity, Material, Pem, Prepared, Protocol, Server};

use crate::config::listener::Listener;
use crate::config::settings::TlsConfig;
use crate::files;

/// Largest file read: lists of revoked certificates grow long.
const FILE_MAX_BYTES: usize = 64 << 20;

/// What serves TLS. Listeners with the same keys share a server, and so the tickets by which clients resume their sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsServers(Vec<Served>);

/// One server, and what it is made of.
#[derive(Debug, Clone)]
struct Served {
    keys: TlsConfig,
    protocol: Protocol,
    server: Arc<Server>,
}

impl TlsServers {
    /// Reads what the listeners need.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub(crate) fn read(listeners: &[Listener]) -> Result<TlsServers, String> {
        TlsServers::default().next(listeners).map(PreparedTls::adopt)
    }

    /// What serves this listener, where it speaks TLS.
    pub(crate) fn of(&self, listener: &Listener) -> Option<Arc<Server>> {
        let serves = |served: &&Served| served.protocol == protocol(listener) && served.keys == listener.tls;
        self.0.iter().find(serves).filter(|_| listener.address.by_tls).map(|served| served.server.clone())
    }

    /// Reads what other listeners need, to be adopted when all else is right, too. A server with the same keys stays, with its tickets;
    /// its files are read again.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub(crate) fn next(&self, listeners: &[Listener]) -> Result<PreparedTls, String> {
        let (mut servers, mut changed) = (TlsServers::default(), Vec::new());
        for listener in listeners.iter().filter(|listener| listener.address.by_tls) {
            if servers.of(listener).is_some() {
                continue;
            }
            let (protocol, material) = (protocol(listener), read(&listener.tls)?);
            let server = match self.of(listener) {
                Some(server) => {
                    changed.push((server.clone(), server.prepare(material).map_err(|error| error.to_string())?));
                    server
                }
                None => Server::new(material, protocol).map(Arc::new).map_err(|error| error.to_string())?,
            };
            servers.0.push(Served { keys: listener.tls.clone(), protocol, server });
        }
        Ok(PreparedTls { servers, changed })
    }
}

/// Files that have been read again.
pub(crate) struct PreparedTls {
    /// What is to serve the listeners.
    pub(crate) servers: TlsServers,
    changed: Vec<(Arc<Server>, Prepared)>,
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
    if listener.address.websocket.is_some() { Protocol::WebSocket } else { Protocol::Mqtt }
}

fn read(tls: &TlsConfig) -> Result<Material, String> {
    let identities = tls.certificate.iter().zip(tls.key.iter());
    Ok(Material {
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
