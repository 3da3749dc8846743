//! The state shared by all connections of a listener.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ProducesTickets, UnbufferedServerConnection, WebPkiClientVerifier};

use crate::config::{TlsServerConfig, TlsServerConfigError};
use crate::error::TlsError;
use crate::sni::SniResolver;
use crate::tls::Tls;

/// The application protocol, which clients may request by ALPN (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// MQTT.
    Mqtt,
    /// HTTP/1.1, which may be upgraded to WebSocket.
    Http,
}

impl Protocol {
    fn alpn(self) -> &'static [u8] {
        match self {
            Protocol::Mqtt => b"mqtt",
            Protocol::Http => b"http/1.1",
        }
    }
}

/// The TLS server of one listener. A change of its configuration does not affect open connections.
pub struct TlsServer {
    protocol: Protocol,
    current: RwLock<Arc<ActiveConfig>>,
}

struct ActiveConfig {
    material: TlsServerConfig,
    config: Arc<ServerConfig>,
    tickets: Arc<dyn ProducesTickets>,
}

/// A validated configuration that can be applied at any time.
pub struct PreparedConfig(Arc<ActiveConfig>);

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl fmt::Debug for PreparedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared")
    }
}

impl TlsServer {
    /// A server for the application protocol `protocol`.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn new(material: TlsServerConfig, protocol: Protocol) -> Result<TlsServer, TlsServerConfigError> {
        let tickets = new_tickets()?;
        let current = ActiveConfig::new(material, protocol, tickets)?;
        Ok(TlsServer { protocol, current: RwLock::new(Arc::new(current)) })
    }

    /// Validates another configuration without applying it.
    ///
    /// Clients can still resume their sessions after the change, unless the accepted client certificates have changed: a resumed session
    /// presents no certificate again.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn prepare(&self, material: TlsServerConfig) -> Result<PreparedConfig, TlsServerConfigError> {
        let current = self.current();
        let tickets = if material.has_same_trust(&current.material) { current.tickets.clone() } else { new_tickets()? };
        ActiveConfig::new(material, self.protocol, tickets).map(|current| PreparedConfig(Arc::new(current)))
    }

    /// Applies a configuration to new connections.
    pub fn adopt(&self, prepared: PreparedConfig) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = prepared.0;
    }

    /// A new connection, before any byte has been received.
    ///
    /// # Errors
    /// No error is known to occur.
    pub fn accept(&self) -> Result<Tls, TlsError> {
        let config = self.current().config.clone();
        Ok(Tls::new(UnbufferedServerConnection::new(config)?))
    }

    /// The rustls configuration of new connections, for callers that block on the network and do not need a state machine without I/O.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current().config.clone()
    }

    fn current(&self) -> Arc<ActiveConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ActiveConfig {
    fn new(
        material: TlsServerConfig,
        protocol: Protocol,
        tickets: Arc<dyn ProducesTickets>,
    ) -> Result<ActiveConfig, TlsServerConfigError> {
        let provider = Arc::new(material.cipher_suites.provider());
        let keys = material.certified_keys(&provider)?;
        let verifier = material.verifier(&provider)?.unwrap_or_else(WebPkiClientVerifier::no_client_auth);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(material.minimum_version.versions())
            .map_err(|error| {
                TlsServerConfigError::new(
                    "tls_no_cipher_suite",
                    format!("tls.cipher_suites has no suite for a version that tls.minimum_version allows: {error}"),
                )
            })?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SniResolver::new(keys)));
        // Configured suites set the preference. Otherwise the client does, as it knows which suite its processor runs fastest.
        config.ignore_client_order = !material.cipher_suites.names().is_empty();
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        config.ticketer = tickets.clone();
        // A reconnecting client uses one ticket.
        config.send_tls13_tickets = 1;
        // Tickets are enough: no session is stored for offline clients.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(ActiveConfig { material, config: Arc::new(config), tickets })
    }
}

fn new_tickets() -> Result<Arc<dyn ProducesTickets>, TlsServerConfigError> {
    ring::Ticketer::new().map_err(|error| {
        TlsServerConfigError::new("tls_random", format!("no random numbers for session tickets: {error}"))
    })
}
