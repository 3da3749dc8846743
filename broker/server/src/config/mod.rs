//! The configuration: one TOML file, every key of which can also be set on the command line.
//!
//! [`settings`] defines each key once; everything else here derives from it.

mod ack_levels;
mod acks;
mod admin_roles;
pub(crate) mod auth;
mod bridge;
pub(crate) mod bridge_config;
mod bridge_rules;
mod certificate_rules;
pub(crate) mod cluster;
mod data_path;
mod error;
pub(crate) mod listen;
pub(crate) mod listener;
pub(crate) mod listener_config;
mod metered_topics;
pub(crate) mod protocol;
mod referenced_files;
mod registry;
pub(crate) mod reload_effect;
mod render;
pub(crate) mod settings;
mod slow_consumer;
mod source;
mod telemetry;
mod tls;
pub(crate) mod value;
mod warnings;

#[cfg(test)]
mod tests;

pub(crate) use error::{ConfigError, ErrorCode, ErrorLocation};
pub(crate) use render::{to_markdown, to_toml};
pub(crate) use settings::{Config, KEYS, LogConfig};
pub(crate) use source::{LISTEN_OPTION, Override};
pub(crate) use value::LogFormat;
pub(crate) use warnings::Warning;

use std::path::Path;

use crate::files;
use settings::TlsConfig;
use value::Setting as _;

/// Largest configuration file read.
const CONFIG_FILE_MAX_BYTES: usize = 1024 * 1024;
/// Hexadecimal digits that the broker appends to the prefix.
const ASSIGNED_DIGITS: usize = 16;

impl Config {
    /// Reads the file, if any, then applies the command line over it, in order.
    ///
    /// # Errors
    /// All errors, not only the first.
    pub(crate) fn load(file: Option<&Path>, overrides: &[Override]) -> Result<Self, Vec<ConfigError>> {
        let mut config = Self::default();
        let mut errors = Vec::new();
        if let Some(path) = file {
            match read(path) {
                Ok(text) => {
                    source::apply_file(&mut config, path, &text, &mut errors);
                    // Paths in the file are relative to its folder, those of the command line to the working directory.
                    config.make_paths_absolute(path.parent().unwrap_or(Path::new("")));
                }
                Err(error) => errors.push(error),
            }
        }
        for change in overrides {
            if let Err(error) = change.apply(&mut config) {
                errors.push(error);
            }
            if change.is_listen() {
                // `--listen` replaces all configured listeners.
                config.listener.clear();
            }
        }
        config.make_paths_absolute(Path::new(""));
        if !config.listener.is_empty() {
            config.listen.remove_default();
        }
        config.check_admin(&mut errors);
        config.check_listeners(&mut errors);
        config.check_bridges(&mut errors);
        config.check_acks(&mut errors);
        config.check_client_ids(&mut errors);
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    /// Whether a token or a user has access to the admin API.
    pub(crate) fn has_administrators(&self) -> bool {
        let admin = &self.admin;
        admin.token_file.get().is_some() || admin.tokens_file.get().is_some() || !admin.roles.0.is_empty()
    }

    /// The TLS settings of the admin API. Its clients authenticate by tokens, not by certificates.
    pub(crate) fn admin_tls(&self) -> TlsConfig {
        let (admin, tls) = (&self.admin, &self.tls);
        let is_separate = admin.certificate.len() > 0 || admin.key.len() > 0;
        let (certificate, key) =
            if is_separate { (&admin.certificate, &admin.key) } else { (&tls.certificate, &tls.key) };
        TlsConfig {
            certificate: certificate.clone(),
            key: key.clone(),
            minimum_version: tls.minimum_version,
            cipher_suites: tls.cipher_suites.clone(),
            ..TlsConfig::default()
        }
    }

    fn check_admin(&self, errors: &mut Vec<ConfigError>) {
        let admin = &self.admin;
        let mut missing = |key, message: &str| {
            errors.push(ConfigError {
                code: ErrorCode::Missing,
                location: ErrorLocation::Key { key },
                message: message.to_owned(),
            });
        };
        if admin.listen.0.is_some() && !self.has_administrators() {
            missing(
                "admin.listen",
                "needs admin.token_file, admin.tokens_file or admin.roles: the API always requires authentication",
            );
        }
        if let Some(address) = admin.listen.0.filter(|address| address.is_tls) {
            let tls = self.admin_tls();
            let (certificates, keys) = (tls.certificate.len(), tls.key.len());
            if certificates == 0 {
                missing(
                    "admin.listen",
                    &format!(
                        "{address} needs admin.certificate and admin.key, or tls.certificate and tls.key; `tautwire cert` creates a test certificate"
                    ),
                );
            } else if certificates != keys {
                missing(
                    "admin.key",
                    &format!(
                        "{keys} keys for {certificates} certificates of {address}: set one key for each certificate"
                    ),
                );
            }
        }
        if let Some(address) = admin.listen.0.filter(|address| address.is_remote_plaintext() && !admin.plain_http) {
            missing(
                "admin.listen",
                &format!(
                    "{address} is a public address, and tokens and passwords would be sent unencrypted: write https://{0}, \
                 use 127.0.0.1, or set admin.plain_http = true on an isolated network",
                    address.socket
                ),
            );
        }
        // In a cluster, users may be shared.
        if !admin.roles.0.is_empty() && self.auth.password_file.get().is_none() && !self.cluster.has_servers() {
            missing("admin.roles", "needs auth.password_file with these users and their passwords");
        }
    }

    /// Checks that assigned identifiers are short enough.
    ///
    /// A client must be able to reconnect with its assigned identifier.
    fn check_client_ids(&self, errors: &mut Vec<ConfigError>) {
        let own = self.listener.iter().filter_map(|listener| listener.mqtt.assigned_client_id_prefix.as_ref());
        for prefix in own.chain([&self.mqtt.assigned_client_id_prefix]) {
            let bytes = prefix.get().len() + ASSIGNED_DIGITS;
            if bytes > self.limits.client_id_bytes {
                errors.push(ConfigError {
                    code: ErrorCode::OutOfRange,
                    location: ErrorLocation::Key { key: "mqtt.assigned_client_id_prefix" },
                    message: format!(
                        "{} results in client identifiers of {bytes} bytes, but limits.client_id_bytes is {}: shorten the prefix, or raise the limit",
                        prefix.to_toml(),
                        self.limits.client_id_bytes
                    ),
                });
            }
        }
    }

    fn make_paths_absolute(&mut self, folder: &Path) {
        self.data.path.relative_to(folder);
        self.contracts.path.relative_to(folder);
        self.admin.token_file.relative_to(folder);
        self.admin.tokens_file.relative_to(folder);
        self.acl.file.relative_to(folder);
        self.audit.file.relative_to(folder);
        self.telemetry.headers_file.relative_to(folder);
        self.telemetry.ca.relative_to(folder);
        let auth = &mut self.auth;
        for path in [
            &mut auth.password_file,
            &mut auth.jwt_key_file,
            &mut auth.jwt_secret_file,
            &mut auth.hook_authorization_file,
        ] {
            path.relative_to(folder);
        }
        auth.https_ca.relative_to(folder);
        let cluster = &mut self.cluster;
        for path in [
            &mut cluster.credentials_file,
            &mut cluster.nkey_file,
            &mut cluster.password_file,
            &mut cluster.token_file,
            &mut cluster.ca,
            &mut cluster.certificate,
            &mut cluster.key,
        ] {
            path.relative_to(folder);
        }
        self.admin.certificate.relative_to(folder);
        self.admin.key.relative_to(folder);
        for paths in [&mut self.tls.certificate, &mut self.tls.key, &mut self.tls.client_ca, &mut self.tls.crl] {
            paths.relative_to(folder);
        }
        for listener in &mut self.listener {
            listener.make_paths_absolute(folder);
        }
        for bridge in &mut self.bridge {
            bridge.make_paths_absolute(folder);
        }
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    files::text(path, CONFIG_FILE_MAX_BYTES).map_err(|why| ConfigError {
        code: ErrorCode::Unreadable,
        location: ErrorLocation::WholeFile { path: path.to_owned() },
        message: why.to_string(),
    })
}
