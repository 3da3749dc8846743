//! `[[listener]]` tables, and the types of their keys.

use std::ops::RangeInclusive;
use std::path::Path;

use tautwire_access::Subject;
use tautwire_engine::{MountPoint, ProtocolVersions};
use tautwire_protocol::QoS;
use tautwire_proxy::Network;
use tautwire_session::AckLevel;
use tautwire_tls::{CipherSuites, ClientCertificates, MinimumVersion};
use toml::de::DeValue;

use super::auth::{AnonymousClients, CertificateNames};
use super::certificate_rules::CertificateRuleList;
use super::listen::Address;
use super::protocol::ClientIdPrefix;
use super::registry::settings;
use super::tls::FilePaths;
use super::value::{FilePath, Setting, ValueError, quoted, text, texts};

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
pub(crate) struct ListenerName(pub(super) String);

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
pub(crate) struct FileMode(pub(super) u32);

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
