//! The configuration: one TOML file, every key of which can also be set on the command line.
//!
//! [`settings`] says each key once; everything else here derives from it.

mod acks;
pub(crate) mod applies;
pub(crate) mod auth;
mod certificate_rules;
mod data_path;
mod error;
pub(crate) mod listen;
pub(crate) mod listener;
mod registry;
mod render;
pub(crate) mod settings;
mod source;
mod tls;
pub(crate) mod value;

#[cfg(test)]
mod tests;

pub(crate) use error::{ConfigError, ErrorCode, Place};
pub(crate) use render::{to_markdown, to_toml};
pub(crate) use settings::{Config, LogConfig};
pub(crate) use source::{LISTEN_OPTION, Override};
pub(crate) use value::LogFormat;

use std::path::Path;

use crate::files;

/// Largest configuration file read.
const CONFIG_FILE_MAX_BYTES: usize = 1024 * 1024;

impl Config {
    /// Reads the file, if one is named, then applies the settings of the command line over it in their order.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first.
    pub(crate) fn load(file: Option<&Path>, overrides: &[Override]) -> Result<Self, Vec<ConfigError>> {
        let mut config = Self::default();
        let mut errors = Vec::new();
        if let Some(path) = file {
            match read(path) {
                Ok(text) => {
                    source::apply_file(&mut config, path, &text, &mut errors);
                    // Paths in the file are seen from its folder, those of the command line from where that was typed.
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
                // There, and only there.
                config.listener.clear();
            }
        }
        config.make_paths_absolute(Path::new(""));
        if !config.listener.is_empty() {
            config.listen.make_way();
        }
        if config.admin.listen.0.is_some() && config.admin.token_file.get().is_none() {
            errors.push(ConfigError {
                code: ErrorCode::Missing,
                place: Place::Key { key: "admin.listen" },
                message: "needs admin.token_file: the API is never open to everybody".to_owned(),
            });
        }
        config.check_listeners(&mut errors);
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    fn make_paths_absolute(&mut self, folder: &Path) {
        self.data.path.seen_from(folder);
        self.contracts.path.seen_from(folder);
        self.admin.token_file.seen_from(folder);
        self.acl.file.seen_from(folder);
        self.audit.file.seen_from(folder);
        let auth = &mut self.auth;
        for path in
            [&mut auth.password_file, &mut auth.jwt_keys, &mut auth.jwt_secret_file, &mut auth.hook_authorization_file]
        {
            path.seen_from(folder);
        }
        auth.https_ca.seen_from(folder);
        for paths in [&mut self.tls.certificate, &mut self.tls.key, &mut self.tls.client_ca, &mut self.tls.revoked] {
            paths.seen_from(folder);
        }
        for listener in &mut self.listener {
            listener.make_paths_absolute(folder);
        }
    }

    /// What is allowed but probably not meant, one sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let listeners = self.listeners();
        for listener in listeners.iter().filter(|listener| !listener.address.is_local()) {
            let has_rules = listener.acl.as_ref().unwrap_or(&self.acl.file).get().is_some();
            if listener.lets_in_anonymous() && !has_rules {
                warnings.push(format!(
                    "{listener} is open to the network, lets in clients that do not say who they are, and there is no acl.file: anyone \
                     who can reach it can read and publish everything"
                ));
            }
            if listener.auth.plain_passwords && !listener.address.by_tls {
                warnings.push(format!(
                    "{listener} takes passwords unencrypted from the network: whoever is on the way can read them"
                ));
            }
        }
        if let Some(address) = self.admin.listen.0.filter(|address| !address.ip().to_canonical().is_loopback()) {
            warnings.push(format!(
                "admin.listen ({address}) is open to the network, and the token goes over it in the clear: serve 127.0.0.1 and \
                 put a proxy that ends TLS in front"
            ));
        }
        if let Some(file) = self.admin.token_file.get().filter(|file| crate::admin::is_open_to_others(file)) {
            warnings.push(format!("the token file {} can be read by others; run: chmod 600 {0}", file.display()));
        }
        if self.websocket.origins.iter().any(|origin| origin.as_str() == "*") {
            warnings.push(
                "websocket.origins has \"*\": any web page that a browser near the broker opens can read and publish \
                 everything"
                    .to_owned(),
            );
        }
        let limits = &self.limits;
        if limits.websocket_frame_bytes < u64::from(self.mqtt.maximum_packet_size) {
            warnings.push(format!(
                "limits.websocket_frame_bytes ({}) is below mqtt.maximum_packet_size ({}): clients that send a packet in \
                 one frame reach it first",
                limits.websocket_frame_bytes, self.mqtt.maximum_packet_size
            ));
        }
        for (name, bytes) in [
            ("limits.session_queue_bytes", limits.session_queue_bytes),
            ("limits.connection_output_bytes", limits.connection_output_bytes),
        ] {
            if bytes > limits.buffered_bytes {
                warnings.push(format!(
                    "{name} ({bytes}) is above limits.buffered_bytes ({}), which is reached first",
                    limits.buffered_bytes
                ));
            }
        }
        warnings
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    files::text(path, CONFIG_FILE_MAX_BYTES).map_err(|why| ConfigError {
        code: ErrorCode::Unreadable,
        place: Place::WholeFile { path: path.to_owned() },
        message: why.to_string(),
    })
}
