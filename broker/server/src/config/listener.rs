//! Listeners: addresses to listen on, each with all its settings.

use std::fmt;

use tautwire_engine::MountPoint;
use tautwire_reactor::ProxyRequirements;
use tautwire_session::AckLevel;
use tautwire_tls::ClientCertificates;

use super::Config;
use super::auth::{AnonymousClients, CertificateNames};
use super::error::{ConfigError, ErrorCode, ErrorLocation};
use super::listen::Address;
use super::listener_config::{ListenerAuth, ListenerConfig, ListenerLimits, ListenerMqtt, ListenerTls, Networks};
use super::settings::{AuthConfig, TlsConfig};
use super::value::FilePath;

/// Maximum number of listeners.
const LISTENERS_MAX: usize = 256;

/// A listener with all its settings.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) ack: AckLevel,
    /// Limit on the connections of this listener.
    pub(crate) connections: Option<usize>,
    /// Prefix of its clients' topics.
    pub(crate) mount_point: Option<MountPoint>,
    /// Its own access rules, if any.
    pub(crate) acl: Option<FilePath>,
    pub(crate) mqtt: ListenerMqtt,
    /// In addition to the common limits.
    pub(crate) limits: ListenerLimits,
    /// File mode of a Unix socket.
    pub(crate) mode: u32,
    /// Trusted proxies that send PROXY headers.
    pub(crate) proxies: Option<Networks>,
    /// Requirements on their headers.
    pub(crate) proxy_requirements: ProxyRequirements,
    pub(crate) tls: TlsConfig,
    pub(crate) auth: AuthConfig,
    /// Whether its users are those that the cluster shares.
    pub(crate) uses_shared_users: bool,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Config {
    /// All listeners: the addresses of `listen`, then the tables.
    pub(crate) fn listeners(&self) -> Vec<Listener> {
        self.listeners_that_share(false)
    }

    /// Like [`Config::listeners`]. With `users`, listeners without a password file use the users that the cluster shares.
    pub(crate) fn listeners_that_share(&self, users: bool) -> Vec<Listener> {
        let simple = self.listen.addresses().iter().map(|address| {
            let table = ListenerConfig { address: Some(address.clone()), ..ListenerConfig::default() };
            self.resolve(&table, address, users)
        });
        let tables = self.listener.iter().filter_map(|table| Some(self.resolve(table, table.address.as_ref()?, users)));
        let mut listeners: Vec<Listener> = simple.chain(tables).collect();
        // If the kernel chooses the port, several addresses have the same text.
        for at in 1..listeners.len() {
            let like = |listener: &&Listener| listener.address == listeners[at].address;
            let before = listeners[..at].iter().filter(like).count();
            let listener = &mut listeners[at];
            if before > 0 && listener.name == listener.address.to_string() {
                listener.name = format!("{}#{}", listener.name, before + 1);
            }
        }
        listeners
    }

    /// The tables, each with the name of its listener.
    pub(super) fn tables(&self) -> impl Iterator<Item = (&ListenerConfig, String)> {
        let named = |table: &ListenerConfig| {
            let address = table.address.as_ref()?;
            Some(table.name.as_ref().map_or_else(|| address.to_string(), |name| name.0.clone()))
        };
        self.listener.iter().filter_map(move |table| Some((table, named(table)?)))
    }

    fn resolve(&self, table: &ListenerConfig, address: &Address, uses_shared_users: bool) -> Listener {
        let uses_shared_users = uses_shared_users && table.auth.password_file.is_none();
        let mut auth = table.auth.over(&self.auth);
        if uses_shared_users {
            auth.password_file = FilePath::default();
        }
        let by_address = || {
            let levels = &self.data.ack_listeners.0;
            levels.iter().find(|(listener, _)| Some(*listener) == address.socket()).map(|(_, level)| *level)
        };
        Listener {
            name: table.name.as_ref().map_or_else(|| address.to_string(), |name| name.0.clone()),
            address: address.clone(),
            ack: table.ack.or_else(by_address).unwrap_or(self.ack()),
            connections: table.limits.connections,
            mount_point: table.mount_point.clone(),
            acl: table.acl.file.clone(),
            mqtt: table.mqtt.clone(),
            limits: table.limits.clone(),
            mode: table.mode.unwrap_or_default().0,
            proxies: table.proxy.trusted_networks.clone(),
            proxy_requirements: ProxyRequirements {
                tls: table.proxy.require_tls.unwrap_or(false),
                certificate: table.proxy.require_certificate.unwrap_or(false),
            },
            tls: table.tls.over(&self.tls),
            auth,
            uses_shared_users,
        }
    }

    /// Adds errors that concern several listeners or keys.
    pub(super) fn check_listeners(&self, errors: &mut Vec<ConfigError>) {
        let listeners = self.listeners();
        let mut wrong =
            |code, key, message| errors.push(ConfigError { code, location: ErrorLocation::Key { key }, message });
        if listeners.is_empty() {
            let message = "the list is empty; name at least one address, such as \"127.0.0.1:1883\"".to_owned();
            wrong(ErrorCode::OutOfRange, "listen", message);
        }
        if listeners.len() > LISTENERS_MAX {
            let message = format!("there are {} listeners; the maximum is {LISTENERS_MAX}", listeners.len());
            wrong(ErrorCode::OutOfRange, "listener", message);
        }
        for (at, listener) in listeners.iter().enumerate() {
            let before = &listeners[..at];
            if before.iter().any(|other| listener.address.conflicts_with(&other.address)) {
                let message = format!("{} is listed twice; keep one of them", listener.address.place);
                wrong(ErrorCode::OutOfRange, "listener", message);
            } else if before.iter().any(|other| other.name == listener.name) {
                let message = format!("two listeners have the name \"{listener}\"; give each its own `name`");
                wrong(ErrorCode::OutOfRange, "listener", message);
            }
        }
        // In a cluster, users may be shared.
        for listener in
            listeners.iter().filter(|listener| !self.cluster.has_servers() && !listener.accepts_any_client())
        {
            let otherwise = match listener.proxies {
                Some(_) => "; or set auth.anonymous = false, if its proxies pass on client certificates",
                None => "",
            };
            let message = format!(
                "no client can authenticate on {listener}: set auth.password_file, or tls.client_certificates if it uses TLS; or set \
                 auth.anonymous = true to accept everybody who can reach it{otherwise}"
            );
            wrong(ErrorCode::Missing, "auth.anonymous", message);
        }
        for listener in listeners.iter().filter(|listener| listener.proxies.is_some()) {
            if listener.address.socket().is_none() {
                let message = format!("{listener} is a Unix socket; proxy.trusted_networks cannot be set for it");
                wrong(ErrorCode::OutOfRange, "listener", message);
            }
        }
        for listener in listeners.iter().filter(|listener| listener.proxies.is_none()) {
            let ProxyRequirements { tls, certificate } = listener.proxy_requirements;
            for (key, _) in
                [("proxy.require_tls", tls), ("proxy.require_certificate", certificate)].iter().filter(|key| key.1)
            {
                let message = format!(
                    "{listener} has {key} but no proxy.trusted_networks: set proxy.trusted_networks to the addresses of its proxies, or remove {key}"
                );
                wrong(ErrorCode::Missing, "listener", message);
            }
        }
        for listener in listeners.iter().filter(|listener| listener.address.is_tls) {
            let (certificates, keys) = (listener.tls.certificate.len(), listener.tls.key.len());
            if certificates == 0 {
                let message =
                    format!("{listener} needs tls.certificate and tls.key; `tautwire cert` creates a test certificate");
                wrong(ErrorCode::Missing, "listen", message);
            } else if certificates != keys {
                let message = format!(
                    "{keys} keys for {certificates} certificates of {listener}: set one key for each certificate"
                );
                wrong(ErrorCode::Missing, "tls.key", message);
            }
        }
    }
}

impl ListenerAuth {
    /// The settings of the listener, with `all` as the default.
    fn over(&self, all: &AuthConfig) -> AuthConfig {
        let common_rules =
            || if self.certificate_identity.is_none() { all.certificate_rules.clone() } else { Default::default() };
        AuthConfig {
            anonymous: self.anonymous.unwrap_or(all.anonymous),
            password_file: self.password_file.clone().unwrap_or_else(|| all.password_file.clone()),
            plaintext_passwords: self.plaintext_passwords.unwrap_or(all.plaintext_passwords),
            certificate_identity: self.certificate_identity.unwrap_or(all.certificate_identity),
            certificate_rules: self.certificate_rules.clone().unwrap_or_else(common_rules),
            ..all.clone()
        }
    }
}

impl ListenerTls {
    /// The settings of the listener, with `all` as the default.
    fn over(&self, all: &TlsConfig) -> TlsConfig {
        let own = self.clone();
        TlsConfig {
            certificate: own.certificate.unwrap_or_else(|| all.certificate.clone()),
            key: own.key.unwrap_or_else(|| all.key.clone()),
            client_certificates: own.client_certificates.unwrap_or(all.client_certificates),
            client_ca: own.client_ca.unwrap_or_else(|| all.client_ca.clone()),
            crl: own.crl.unwrap_or_else(|| all.crl.clone()),
            minimum_version: own.minimum_version.unwrap_or(all.minimum_version),
            cipher_suites: own.cipher_suites.unwrap_or_else(|| all.cipher_suites.clone()),
        }
    }
}

impl Listener {
    /// Whether TLS requests client certificates, whether or not they identify clients.
    pub(crate) fn requests_certificates(&self) -> bool {
        self.address.is_tls && self.tls.client_certificates != ClientCertificates::None
    }

    /// Whether client certificates identify clients.
    pub(crate) fn identifies_by_certificate(&self) -> bool {
        self.requests_certificates() && self.auth.identifies_by_certificate_name()
    }

    /// Whether a certificate can identify a client, directly or through a proxy that has verified it.
    pub(crate) fn accepts_certificates(&self) -> bool {
        self.identifies_by_certificate() || (self.proxies.is_some() && self.auth.identifies_by_certificate_name())
    }

    /// Whether clients can authenticate by any method.
    pub(crate) fn authenticates_clients(&self) -> bool {
        self.identifies_by_certificate() || self.identifies_at_connect()
    }

    /// Whether any client can connect. Proxies may pass on certificates; with `auth.anonymous = false` those count as the only method.
    pub(crate) fn accepts_any_client(&self) -> bool {
        let is_certificate_only = self.accepts_certificates() && self.auth.anonymous == AnonymousClients::Refused;
        self.authenticates_clients() || self.allows_anonymous() || is_certificate_only
    }

    /// Whether clients can authenticate only as a user of the password file.
    pub(crate) fn accepts_only_passwords(&self) -> bool {
        let has_others = self.uses_shared_users || self.auth.accepts_tokens() || !self.auth.hook_url.0.is_empty();
        !has_others && !self.accepts_certificates() && !self.allows_anonymous()
    }

    /// Whether only this machine can connect to it. Clients behind a proxy may come from anywhere.
    pub(crate) fn is_local_only(&self) -> bool {
        self.address.is_local() && self.proxies.is_none()
    }

    /// Whether it accepts passwords of users.
    pub(crate) fn accepts_passwords(&self) -> bool {
        self.uses_shared_users || self.auth.password_file.get().is_some()
    }

    /// Whether clients can authenticate by the credentials of CONNECT.
    fn identifies_at_connect(&self) -> bool {
        self.accepts_passwords() || self.auth.accepts_tokens() || !self.auth.hook_url.0.is_empty()
    }

    /// Whether a client that connected without credentials may stay connected. Rules for certificates apply to new handshakes only.
    pub(crate) fn allows_connected_anonymous(&self) -> bool {
        match self.auth.anonymous {
            AnonymousClients::Auto => self.is_local_only() && !self.identifies_at_connect(),
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }

    /// Whether clients without credentials are accepted.
    pub(crate) fn allows_anonymous(&self) -> bool {
        match self.auth.anonymous {
            // If certificates are optional, clients without one may connect.
            AnonymousClients::Auto => {
                let is_certificate_optional = self.tls.client_certificates != ClientCertificates::Required;
                self.is_local_only()
                    && !self.identifies_at_connect()
                    && (is_certificate_optional || !self.identifies_by_certificate())
            }
            AnonymousClients::Allowed => true,
            AnonymousClients::Refused => false,
        }
    }
}

impl AuthConfig {
    /// Whether the names in certificates identify clients.
    fn identifies_by_certificate_name(&self) -> bool {
        self.certificate_identity != CertificateNames::None || !self.certificate_rules.is_empty()
    }

    /// Whether keys for tokens are configured.
    pub(crate) fn accepts_tokens(&self) -> bool {
        self.jwt_key_file.get().is_some() || !self.jwks_url.0.is_empty() || self.jwt_secret_file.get().is_some()
    }
}
