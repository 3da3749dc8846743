//! A listener of mosquitto, and its conversion to a `[[listener]]` table.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use super::output_text::{quoted, relative_to};
use super::values::DEFAULT_PORT;

/// The rules file of a listener whose access a plugin controlled.
pub(super) const CLOSED_RULES: &str = "closed.toml";
/// An empty password file, for a listener that refuses all clients.
pub(super) const NO_USERS: &str = "no-users";

/// A listener of mosquitto with its options. The options before the first `listener` line belong to the default port.
#[derive(Debug, Default)]
pub(super) struct Listener {
    pub(super) port: Option<u16>,
    pub(super) address: Option<String>,
    pub(super) is_websocket: bool,
    /// IPv4 or IPv6, if configured.
    pub(super) domain: Option<Domain>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) authorities: Option<String>,
    /// A directory with further certificate authorities (`capath`).
    pub(super) authority_folder: Option<String>,
    pub(super) revoked: Option<String>,
    pub(super) requires_certificate: bool,
    pub(super) identifies_by_certificate: bool,
    /// The line of `use_username_as_clientid true`.
    pub(super) uses_username_as_client_id: Option<String>,
    pub(super) minimum_version: Option<&'static str>,
    pub(super) connections: Option<u64>,
    pub(super) max_qos: Option<u64>,
    pub(super) topic_aliases: Option<u64>,
    /// MQTT versions in our notation.
    pub(super) versions: Option<Vec<&'static str>>,
    pub(super) allows_empty_client_id: Option<bool>,
    pub(super) client_id_prefix: Option<String>,
    /// Allowed origins of web pages; `None` for all.
    pub(super) origins: Option<Vec<String>>,
    pub(super) mount_point: Option<String>,
    /// Whether connections begin with a PROXY header.
    pub(super) is_for_proxies: bool,
    pub(super) proxies_require_tls: bool,
    /// `listener_allow_anonymous`, which overrides the others.
    pub(super) anonymous: Option<bool>,
    pub(super) security: Security,
    /// Plugins of this listener, as indices into [`Plugins`](super::plugins::Plugins).
    pub(super) plugins: Vec<usize>,
    /// Whether it serves HTTP instead of MQTT.
    pub(super) is_http_api: bool,
}

/// The address family of a listener without an address; the default is both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    V4,
    V6,
}

/// Authentication and access control: common, or of each listener with `per_listener_settings`.
#[derive(Debug, Default, Clone)]
pub(super) struct Security {
    pub(super) anonymous: Option<bool>,
    pub(super) password_file: Option<String>,
    pub(super) acl_file: Option<String>,
    /// Whether an unknown plugin controls authentication or access.
    pub(super) is_controlled_by_plugin: bool,
}

/// Generated files and lists that a table refers to.
#[derive(Debug, Default)]
pub(super) struct ReferencedFiles<'a> {
    /// The access rules file of this listener, if it is not common to all.
    pub(super) rules: Option<&'a str>,
    /// The certificate with its chain, if the file of mosquitto has only the certificate.
    pub(super) chain: Option<&'a str>,
    /// Certificate authorities of clients.
    pub(super) client_authorities: Vec<String>,
}

impl Listener {
    /// Whether these options make Mosquitto open the default listener although there are others.
    pub(super) fn is_default_listener_configured(&self) -> bool {
        let Listener { address, certificate, key, authorities, authority_folder, revoked, mount_point, .. } = self;
        let password_file = &self.security.password_file;
        let texts = [address, certificate, key, authorities, authority_folder, revoked, mount_point, password_file];
        self.port.is_some()
            || self.connections.is_some()
            || texts.into_iter().any(Option::is_some)
            || self.is_websocket
            || self.domain.is_some()
            || self.requires_certificate
            || self.identifies_by_certificate
            || self.max_qos.is_some_and(|qos| qos < 2)
    }

    /// The port, for messages and file names.
    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    /// Whether it uses TLS.
    pub(super) fn is_secured(&self) -> bool {
        self.certificate.is_some()
    }

    /// Whether anonymous clients are accepted. With `is_local`, only this machine is served, because nothing was configured.
    fn allows_anonymous(&self, is_local: bool) -> bool {
        !self.security.is_controlled_by_plugin && self.security.anonymous.unwrap_or(is_local)
    }

    /// Whether certificates identify their holders.
    fn identifies_by_certificate_name(&self) -> bool {
        let has_certificates = self.is_secured() || self.is_for_proxies;
        has_certificates && self.requires_certificate && self.identifies_by_certificate
    }

    /// Whether no client can connect.
    pub(super) fn is_closed(&self, is_local: bool) -> bool {
        !self.allows_anonymous(is_local)
            && self.security.password_file.is_none()
            && !self.identifies_by_certificate_name()
    }

    /// Whether only this machine can reach it.
    fn is_on_this_machine(&self, is_local: bool) -> bool {
        let host = self.address.as_deref();
        is_local
            || self.is_unix_socket()
            || host == Some("localhost")
            || host.is_some_and(|host| host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback()))
    }

    fn is_unix_socket(&self) -> bool {
        self.port == Some(0) && self.address.as_ref().is_some_and(|path| path.starts_with('/'))
    }

    /// Its address in our notation.
    ///
    /// # Errors
    /// The address is a host name.
    pub(super) fn address(&self, is_local: bool) -> Result<String, String> {
        if let Some(socket) = self.address.as_ref().filter(|_| self.is_unix_socket()) {
            return Ok(format!("unix:{socket}"));
        }
        let scheme = match (self.is_secured(), self.is_websocket) {
            (false, false) => "mqtt",
            (true, false) => "mqtts",
            (false, true) => "ws",
            (true, true) => "wss",
        };
        // `::` also accepts IPv4.
        let any_address = if self.domain == Some(Domain::V4) { "0.0.0.0" } else { "::" };
        let host = self.address.as_deref().unwrap_or(if is_local { "127.0.0.1" } else { any_address });
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        let ip: IpAddr = host.parse().map_err(|_| {
            format!(
                "listener {} {host}: host names are not resolved; write the IP address of \"{host}\" instead",
                self.port()
            )
        })?;
        let host = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        Ok(format!("{scheme}://{host}:{}", self.port()))
    }

    /// Appends the table. `address` is the result of [`Listener::address`].
    pub(super) fn write(
        &self,
        text: &mut String,
        address: &str,
        is_local: bool,
        folder: &Path,
        with: &ReferencedFiles<'_>,
    ) {
        let path = |file: &str| quoted(&relative_to(folder, file).display().to_string());
        let _ = writeln!(text, "[[listener]]\naddress = {}", quoted(address));
        if let Some(connections) = self.connections {
            let _ = writeln!(text, "limits.connections = {connections}");
        }
        if let Some(prefix) = &self.mount_point {
            let _ = writeln!(text, "mount_point = {}", quoted(prefix));
        }
        self.write_mqtt(text);
        let _ = writeln!(text, "auth.anonymous = {}", self.allows_anonymous(is_local));
        if let Some(file) = &self.security.password_file {
            let _ = writeln!(text, "auth.password_file = {}", path(file));
            if !self.is_secured() && !self.proxies_require_tls && !self.is_on_this_machine(is_local) {
                text.push_str(
                    "# As before, passwords are sent unencrypted. Use TLS instead.\nauth.plaintext_passwords = true\n",
                );
            }
        } else if self.is_closed(is_local) {
            let _ = writeln!(text, "# No users: no client can connect.\nauth.password_file = {}", quoted(NO_USERS));
        }
        if let Some(name) = with.rules {
            let _ = writeln!(text, "acl.file = {}", quoted(name));
        }
        if self.requires_certificate && (self.is_secured() || self.is_for_proxies) {
            if !self.identifies_by_certificate {
                text.push_str("auth.certificate_identity = \"none\"\n");
            } else if self.uses_username_as_client_id.is_some() {
                text.push_str("auth.certificate_identity = \"user_and_client_id\"\n");
            }
        }
        if self.is_for_proxies {
            text.push_str("# Set this to the addresses of the proxies: only they can connect.\nproxy.trusted_networks = [\"127.0.0.0/8\", \"::1\"]\n");
            let requirements =
                [("require_tls", self.proxies_require_tls), ("require_certificate", self.requires_certificate)];
            for (key, _) in requirements.iter().filter(|(_, is_required)| *is_required) {
                let _ = writeln!(text, "proxy.{key} = true");
            }
        }
        if self.is_secured() {
            self.write_tls(text, path, with);
        }
    }

    fn write_mqtt(&self, text: &mut String) {
        let numbers = [("max_qos", self.max_qos), ("topic_alias_maximum", self.topic_aliases)];
        for (key, value) in numbers {
            if let Some(value) = value {
                let _ = writeln!(text, "mqtt.{key} = {value}");
            }
        }
        if let Some(versions) = &self.versions {
            let list: Vec<String> = versions.iter().map(|version| quoted(version)).collect();
            let _ = writeln!(text, "mqtt.protocol_versions = [{}]", list.join(", "));
        }
        if let Some(is_allowed) = self.allows_empty_client_id {
            let _ = writeln!(text, "mqtt.allow_empty_client_id = {is_allowed}");
        }
        if let Some(prefix) = &self.client_id_prefix {
            let _ = writeln!(text, "mqtt.assigned_client_id_prefix = {}", quoted(prefix));
        }
    }

    fn write_tls(&self, text: &mut String, path: impl Fn(&str) -> String, with: &ReferencedFiles<'_>) {
        if let Some(chain) = with.chain {
            text.push_str(
                "# A copy of certfile with the chain from cafile: update it when the certificate is renewed.\n",
            );
            let _ = writeln!(text, "tls.certificate = {}", quoted(chain));
        } else if let Some(file) = &self.certificate {
            let _ = writeln!(text, "tls.certificate = {}", path(file));
        }
        // Without client certificates, mosquitto ignores the revocation list.
        let revoked = self.revoked.as_ref().filter(|_| self.requires_certificate);
        for (key, file) in [("key", self.key.as_ref()), ("crl", revoked)] {
            if let Some(file) = file {
                let _ = writeln!(text, "tls.{key} = {}", path(file));
            }
        }
        let client_certificates = if self.requires_certificate { "required" } else { "none" };
        let _ = writeln!(text, "tls.client_certificates = \"{client_certificates}\"");
        if self.requires_certificate && !with.client_authorities.is_empty() {
            let list: Vec<String> = with.client_authorities.iter().map(|file| path(file)).collect();
            let _ = writeln!(text, "tls.client_ca = [{}]", list.join(", "));
        }
        if let Some(version) = self.minimum_version {
            let _ = writeln!(text, "tls.minimum_version = \"{version}\"");
        }
    }
}
