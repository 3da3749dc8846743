//! `[[listener]]` tables: addresses to listen on, each with its own settings.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use tautwire_access::Subject;
use tautwire_engine::{MountPoint, ProtocolVersions};
use tautwire_protocol::QoS;
use tautwire_proxy::Network;
use tautwire_reactor::ProxyRequirements;
use tautwire_session::AckLevel;
use tautwire_tls::{CipherSuites, ClientCertificates, MinimumVersion};
use toml::de::DeValue;

use super::Config;
use super::auth::{AnonymousClients, CertificateNames};
use super::certificate_rules::CertificateRuleList;
use super::error::{ConfigError, ErrorCode, ErrorLocation};
use super::listen::Address;
use super::protocol::ClientIdPrefix;
use super::registry::settings;
use super::settings::{AuthConfig, TlsConfig};
use super::tls::FilePaths;
use super::value::{FilePath, Setting, ValueError, quoted, text, texts};

/// Maximum number of listeners.
const LISTENERS_MAX: usize = 256;
/// Longest name of a listener.
const NAME_MAX_BYTES: usize = 64;

settings! {
    /// An address to listen on, with its own settings. The table can appear several times, in addition to `listen` or instead of it. Keys
    /// that are not set have the common values.
    ListenerConfig {
        /// The name in the log and in metrics; it must be unique. Default: `address` written in full, such as `mqtt://127.0.0.1:1883`.
        name: Option<ListenerName> = None;
        /// Address and protocol, as in `listen`. Required.
        address: Option<Address> = None;
        /// What acknowledgements to its clients wait for; overrides `data.ack_listeners` and `data.ack`. `data.ack_topics` takes
        /// precedence.
        ack: Option<AckLevel> = None;
        /// Prefix of all topics and filters of its clients. It is removed from topics that they receive: topic `a` of a client behind
        /// `factory-1/` is `factory-1/a` for other clients. Its clients see nothing outside of it, not even `$SYS`, and have separate
        /// sessions. Access rules, contracts and `data.ack_topics` refer to full topics.
        mount_point: Option<MountPoint> = None;
        /// File mode of a Unix socket, as for chmod: users with write permission may connect. Default: `660`.
        mode: Option<FileMode> = None;
    }

    /// Who may connect to this listener. Keys that are not set have the values of `[auth]`.
    auth: ListenerAuth {
        /// Overrides `auth.anonymous`.
        anonymous: Option<AnonymousClients> = None;
        /// Overrides `auth.password_file`.
        password_file: Option<FilePath> = None;
        /// Overrides `auth.plaintext_passwords`.
        plaintext_passwords: Option<bool> = None;
        /// Overrides `auth.certificate_identity`.
        certificate_identity: Option<CertificateNames> = None;
        /// Overrides `auth.certificate_rules`, which does not apply either if the listener sets `certificate`.
        certificate_rules: Option<CertificateRuleList> = None;
    }

    /// Access rules for clients of this listener.
    acl: ListenerAcl {
        /// Overrides `acl.file`. It is read at start and on SIGHUP. Empty means that clients of this listener may do everything.
        file: Option<FilePath> = None;
    }

    /// Capabilities and limits of this listener. Keys that are not set have the values of `[mqtt]`.
    mqtt: ListenerMqtt {
        /// Overrides `mqtt.receive_maximum`.
        receive_maximum: Option<u16> = None, in 1..=65_535, unit "messages";
        /// Overrides `mqtt.maximum_packet_size`.
        maximum_packet_size: Option<u32> = None, in 64..=268_435_460, unit "bytes";
        /// Overrides `mqtt.max_keep_alive_s`.
        max_keep_alive_s: Option<u16> = None, in 0..=65_535;
        /// Overrides `mqtt.max_session_expiry_s`.
        max_session_expiry_s: Option<u32> = None, in 0..=4_294_967_295;
        /// Overrides `mqtt.max_qos`.
        max_qos: Option<QoS> = None;
        /// Overrides `mqtt.topic_alias_maximum`.
        topic_alias_maximum: Option<u16> = None, in 0..=65_535, unit "aliases";
        /// Overrides `mqtt.protocol_versions`.
        protocol_versions: Option<ProtocolVersions> = None;
        /// Overrides `mqtt.allow_empty_client_id`.
        allow_empty_client_id: Option<bool> = None;
        /// Overrides `mqtt.assigned_client_id_prefix`.
        assigned_client_id_prefix: Option<ClientIdPrefix> = None;
    }

    /// Connection limits of this listener. Keys that are not set mean no limit here. The keys of `[limits]` also apply, to all listeners
    /// together.
    limits: ListenerLimits {
        /// Open network connections of this listener. Further ones are closed on accept. `limits.connections` of the file applies to all
        /// listeners together.
        connections: Option<usize> = None, in 1..=100_000_000;
        /// Like `limits.connections_per_address`, for this listener.
        connections_per_address: Option<usize> = None, in 1..=100_000_000;
        /// Like `limits.connect_rate`, for this listener.
        connect_rate: Option<u32> = None, in 1..=1_000_000, unit "connections";
        /// Like `limits.connect_burst`, for this listener.
        connect_burst: Option<u32> = None, in 1..=1_000_000, unit "connections";
        /// Like `limits.connect_rate_per_address`, for this listener.
        connect_rate_per_address: Option<u32> = None, in 1..=1_000_000, unit "connections";
        /// Like `limits.connect_burst_per_address`, for this listener.
        connect_burst_per_address: Option<u32> = None, in 1..=1_000_000, unit "connections";
    }

    /// The PROXY protocol, versions 1 and 2.
    proxy: ListenerProxy {
        /// Networks of trusted proxies, such as `10.0.0.0/8`. If set, each connection must begin with a PROXY header within
        /// `mqtt.connect_timeout_s`, and connections from other addresses are refused. The header provides the client's address and, if the
        /// proxy has verified a client certificate, its common name.
        trusted_networks: Option<Networks> = None;
        /// Accept only clients that use TLS to the proxy, as a version 2 header reports (`PP2_CLIENT_SSL`). A connection with another
        /// header is closed. Requires `proxy.trusted_networks`.
        require_tls: Option<bool> = None;
        /// Accept only clients whose certificate the proxy has verified, as a version 2 header reports (`PP2_CLIENT_CERT_CONN` or
        /// `PP2_CLIENT_CERT_SESS`, and 0 in `verify`). A connection with another header is closed. Requires `proxy.trusted_networks`.
        require_certificate: Option<bool> = None;
    }

    /// TLS of this listener. Keys that are not set have the values of `[tls]`.
    tls: ListenerTls {
        /// Overrides `tls.certificate`.
        certificate: Option<FilePaths> = None;
        /// Overrides `tls.key`.
        key: Option<FilePaths> = None;
        /// Overrides `tls.client_certificates`.
        client_certificates: Option<ClientCertificates> = None;
        /// Overrides `tls.client_ca`.
        client_ca: Option<FilePaths> = None;
        /// Overrides `tls.crl`.
        crl: Option<FilePaths> = None;
        /// Overrides `tls.minimum_version`.
        minimum_version: Option<MinimumVersion> = None;
        /// Overrides `tls.cipher_suites`.
        cipher_suites: Option<CipherSuites> = None;
    }
}

/// The name of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenerName(String);

impl Setting for ListenerName {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!("1 to {NAME_MAX_BYTES} visible ASCII characters without quotes, spaces and \\")
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let name = text::<Self>(value)?;
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
        if name == Subject::ADMIN.listener {
            let why = format!(
                "\"{name}\" is reserved: access rules use it for the admin API, and clients of this listener would get its roles; choose another name"
            );
            return Err(ValueError::Range(why));
        }
        if (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_allowed) {
            return Ok(ListenerName(name.to_owned()));
        }
        Err(ValueError::Range(format!("\"{}\" is not a name; write {}", name.escape_debug(), Self::accepts(range))))
    }

    fn to_toml(&self) -> String {
        quoted(&self.0)
    }
}

impl Setting for MountPoint {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        format!(
            "topic prefix that ends with `/`: 1 to {} bytes without wildcards, not beginning with `$`",
            Self::MAX_BYTES
        )
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let prefix = text::<Self>(value)?;
        let wrong = || format!("\"{}\" is not a mount point; write {}", prefix.escape_debug(), Self::accepts(range));
        MountPoint::new(prefix).ok_or_else(|| ValueError::Range(wrong()))
    }

    fn to_toml(&self) -> String {
        quoted(self.as_str())
    }
}

/// The mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMode(u32);

impl Default for FileMode {
    fn default() -> FileMode {
        FileMode(0o660)
    }
}

impl Setting for FileMode {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "three octal digits as a string, such as \"660\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, range: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let digits = text::<Self>(value)?;
        let mode = u32::from_str_radix(digits, 8).ok().filter(|_| digits.len() == 3);
        let wrong = || format!("\"{}\" is not a mode; write {}", digits.escape_debug(), Self::accepts(range));
        mode.map(FileMode).ok_or_else(|| ValueError::Range(wrong()))
    }

    fn to_toml(&self) -> String {
        format!("\"{:03o}\"", self.0)
    }
}

/// Address ranges; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Networks(Vec<Network>);

impl Networks {
    pub(crate) fn get(&self) -> &[Network] {
        &self.0
    }
}

impl Setting for Networks {
    fn accepts(_: Option<&RangeInclusive<u64>>) -> String {
        "list of \"ADDRESS/BITS\" or \"ADDRESS\"".to_owned()
    }

    fn from_toml(value: &DeValue<'_>, _: Option<&RangeInclusive<u64>>) -> Result<Self, ValueError> {
        let network = |text: &str| {
            text.parse().map_err(|_| {
                ValueError::Range(format!(
                    "\"{}\" is not a network; write it like \"10.0.0.0/8\", \"fd00::/8\" or \"127.0.0.1\", with 0 in all host \
                     bits",
                    text.escape_debug()
                ))
            })
        };
        let networks = texts::<Self>(value)?.into_iter().map(network).collect::<Result<Vec<_>, _>>()?;
        if networks.is_empty() {
            return Err(ValueError::Range("the list is empty, so nobody could connect; remove the key".to_owned()));
        }
        Ok(Networks(networks))
    }

    fn to_toml(&self) -> String {
        format!("[{}]", self.0.iter().map(|network| quoted(&network.to_string())).collect::<Vec<_>>().join(", "))
    }
}

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

impl ListenerConfig {
    /// Makes paths absolute; relative ones are relative to `folder`.
    pub(super) fn make_paths_absolute(&mut self, folder: &Path) {
        for file in [&mut self.auth.password_file, &mut self.acl.file].into_iter().flatten() {
            file.relative_to(folder);
        }
        let tls = &mut self.tls;
        for paths in [&mut tls.certificate, &mut tls.key, &mut tls.client_ca, &mut tls.crl].into_iter().flatten() {
            paths.relative_to(folder);
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
