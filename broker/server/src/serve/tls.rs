//! The files of TLS: read at start, and again when the broker is told to.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use tautwire_tls::{Identity, Material, MaterialError, Pem, Prepared, Protocol, Server};

use crate::config::Config;
use crate::config::settings::TlsConfig;

/// Largest file read: lists of revoked certificates grow long.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// What serves TLS, by what is spoken inside; nothing where no address asks for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsServers {
    pub(crate) mqtt: Option<Arc<Server>>,
    pub(crate) websocket: Option<Arc<Server>>,
}

impl TlsServers {
    /// Reads what the addresses that are listened on need.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub(crate) fn read(config: &Config) -> Result<TlsServers, String> {
        let addresses = || config.listen.addresses().iter().filter(|address| address.by_tls);
        if addresses().next().is_none() {
            return Ok(TlsServers::default());
        }
        let material = read(&config.tls)?;
        let server =
            |protocol| Server::new(material.clone(), protocol).map(Arc::new).map_err(|error| error.to_string());
        let is_there = |by_websocket: bool| addresses().any(|address| address.websocket.is_some() == by_websocket);
        Ok(TlsServers {
            mqtt: is_there(false).then(|| server(Protocol::Mqtt)).transpose()?,
            websocket: is_there(true).then(|| server(Protocol::WebSocket)).transpose()?,
        })
    }

    /// Whether anything is served by TLS.
    pub(crate) fn is_empty(&self) -> bool {
        self.mqtt.is_none() && self.websocket.is_none()
    }

    /// Reads the same files again, to be adopted when all else is right, too.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read_again(&self, tls: &TlsConfig) -> Result<PreparedTls, String> {
        if self.is_empty() {
            return Ok(PreparedTls(Vec::new()));
        }
        let material = read(tls)?;
        let servers = self.mqtt.iter().chain(&self.websocket);
        let prepared = servers.map(|server| Ok((server.clone(), server.prepare(material.clone())?)));
        prepared.collect::<Result<_, MaterialError>>().map(PreparedTls).map_err(|error| error.to_string())
    }
}

/// Files that have been read again, for the servers that are there.
pub(crate) struct PreparedTls(Vec<(Arc<Server>, Prepared)>);

impl PreparedTls {
    /// From now on new connections are made with them.
    pub(crate) fn adopt(self) {
        for (server, prepared) in self.0 {
            server.adopt(prepared);
        }
    }
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
    let failed = |error: std::io::Error| format!("cannot read {source}: {error} [tls_file]");
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("{source} is larger than {FILE_MAX_BYTES} bytes, the most that is read [tls_file]"));
    }
    Ok(Pem { source, bytes })
}
