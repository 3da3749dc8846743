//! Warnings about configurations that are valid but probably not intended.

use std::path::PathBuf;

use super::Config;
use crate::files;

/// A setting that is valid but will probably cause problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    /// What is wrong, as a sentence.
    pub(crate) text: String,
    /// The setting or the command that fixes it.
    pub(crate) fix: String,
}

impl Config {
    /// The warnings, one sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.advice().into_iter().map(|warning| warning.text).collect()
    }

    /// The warnings with their fixes.
    pub(crate) fn advice(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        let mut warn = |text: String, fix: String| found.push(Warning { text, fix });
        self.check_listener_exposure(&mut warn);
        self.check_empty_password_files(&mut warn);
        self.check_admin_exposure(&mut warn);
        self.check_secret_files(&mut warn);
        if self.websocket.allowed_origins.iter().any(|origin| origin.as_str() == "*") {
            warn(
                "websocket.allowed_origins contains \"*\": any web page in a browser that can reach the broker can read and publish \
                 everything"
                    .to_owned(),
                "set websocket.allowed_origins = [\"https://HOST\"], with the origins of your web pages".to_owned(),
            );
        }
        let mut quorum_warnings = Vec::new();
        self.warn_of_weak_quorum(&mut quorum_warnings);
        for text in quorum_warnings {
            warn(
                text,
                "set cluster.sync = \"verify\" and cluster.replicas = 3, with NATS servers that use sync_interval: always"
                    .to_owned(),
            );
        }
        self.check_limits(&mut warn);
        found
    }

    fn check_listener_exposure(&self, warn: &mut impl FnMut(String, String)) {
        let listeners = self.listeners();
        for listener in listeners.iter().filter(|listener| !listener.is_local_only()) {
            let has_rules = listener.acl.as_ref().unwrap_or(&self.acl.file).get().is_some();
            if listener.allows_anonymous() && !has_rules {
                warn(
                    format!(
                        "{listener} is open to the network and accepts clients without credentials, and there is no acl.file: anyone \
                         who can reach it can read and publish everything"
                    ),
                    "set auth.anonymous = false and auth.password_file, or restrict access with acl.file".to_owned(),
                );
            }
            if listener.auth.plaintext_passwords && !listener.address.is_tls {
                warn(
                    format!(
                        "{listener} accepts unencrypted passwords from the network: anyone on the path can read them"
                    ),
                    "write mqtts:// in its address, and set tls.certificate and tls.key".to_owned(),
                );
            }
        }
        for listener in listeners.iter().filter(|listener| !listener.accepts_any_client()) {
            warn(
                format!("no client can authenticate on {listener} unless the cluster shares users"),
                "tautwire cluster config push --users FILE --admin URL --token-file FILE".to_owned(),
            );
        }
    }

    /// Warns of listeners whose password file is empty, so that nobody can authenticate.
    ///
    /// There is one warning for each file.
    fn check_empty_password_files(&self, warn: &mut impl FnMut(String, String)) {
        let mut closed: Vec<(PathBuf, Vec<String>)> = Vec::new();
        for listener in self.listeners().iter().filter(|listener| listener.accepts_only_passwords()) {
            let Some(path) = listener.auth.password_file.get().filter(|path| files::has_no_entries(path)) else {
                continue;
            };
            match closed.iter_mut().find(|(known, _)| known == path) {
                Some((_, names)) => names.push(listener.to_string()),
                None => closed.push((path.to_owned(), vec![listener.to_string()])),
            }
        }
        for (path, names) in closed {
            let add = format!("tautwire user add --file {} NAME", files::quoted(&path));
            warn(
                format!(
                    "no client can connect to {}: {} has no users. Add one with `{add}`, or set auth.anonymous = true to accept everybody",
                    names.join(" and "),
                    path.display()
                ),
                add,
            );
        }
    }

    fn check_admin_exposure(&self, warn: &mut impl FnMut(String, String)) {
        if let Some(address) = self.admin.listen.0.filter(|address| address.is_remote_plaintext()) {
            warn(
                format!(
                    "admin.listen ({address}) is open to the network, and tokens and passwords are sent unencrypted: write https://{0}, \
                     or make sure that the network is isolated",
                    address.socket
                ),
                format!("set admin.listen = \"https://{}\", admin.certificate and admin.key", address.socket),
            );
        }
    }

    /// Warns of secret files that other users of the machine can read.
    fn check_secret_files(&self, warn: &mut impl FnMut(String, String)) {
        let mut named = vec![
            ("admin.token_file", &self.admin.token_file),
            ("auth.jwt_secret_file", &self.auth.jwt_secret_file),
            ("auth.hook_authorization_file", &self.auth.hook_authorization_file),
        ];
        let listeners = self.listeners();
        named.extend(listeners.iter().map(|listener| ("auth.password_file", &listener.auth.password_file)));
        let mut seen = Vec::new();
        for (key, path) in named {
            let Some(file) = path.get().filter(|file| files::is_world_accessible(file)) else { continue };
            if !seen.contains(&file) {
                seen.push(file);
                warn(
                    format!("{key}: every user of this machine can read {}; run: chmod o= {0}", file.display()),
                    format!("chmod o= {}", files::quoted(file)),
                );
            }
        }
    }

    fn check_limits(&self, warn: &mut impl FnMut(String, String)) {
        let limits = &self.limits;
        if limits.websocket_frame_bytes < u64::from(self.mqtt.maximum_packet_size) {
            warn(
                format!(
                    "limits.websocket_frame_bytes ({}) is below mqtt.maximum_packet_size ({}): a client that sends a packet in \
                     one frame reaches it first",
                    limits.websocket_frame_bytes, self.mqtt.maximum_packet_size
                ),
                format!("set limits.websocket_frame_bytes = {}", self.mqtt.maximum_packet_size),
            );
        }
        let is_in_memory = self.data.path.is_none();
        for (name, bytes) in [
            // With `data.path`, the queues are on disk.
            ("limits.session_queue_bytes", if is_in_memory { limits.session_queue_bytes } else { 0 }),
            ("limits.connection_output_bytes", limits.connection_output_bytes),
        ] {
            if bytes > limits.memory_bytes {
                warn(
                    format!(
                        "{name} ({bytes}) is above limits.memory_bytes ({}), which is reached first",
                        limits.memory_bytes
                    ),
                    format!("set {name} = {}", limits.memory_bytes),
                );
            }
        }
        let is_in_cluster = self.cluster.servers.0.iter().any(|server| !server.is_empty());
        for (name, most) in [
            ("limits.retained_messages_per_client", limits.retained_messages_per_client as u64),
            ("limits.retained_bytes_per_client", limits.retained_bytes_per_client as u64),
            ("limits.user_retained_messages", limits.user_retained_messages as u64),
            ("limits.user_retained_bytes", limits.user_retained_bytes as u64),
        ] {
            if is_in_cluster && most > 0 {
                warn(
                    format!(
                        "{name} has no effect in a cluster, which does not store the publisher of a retained message; limits.retained_messages and \
                         limits.retained_bytes apply [cluster_retained_quotas]"
                    ),
                    format!("set {name} = 0"),
                );
            }
        }
    }
}
