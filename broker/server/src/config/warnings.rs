//! What a configuration allows and probably does not mean.

use std::path::PathBuf;

use super::Config;
use crate::files;

/// Something that is allowed and will probably hurt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    /// A sentence.
    pub(crate) text: String,
    /// The setting, or the command, that ends it.
    pub(crate) fix: String,
}

impl Config {
    /// What is allowed but probably not meant, one sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.advice().into_iter().map(|warning| warning.text).collect()
    }

    /// The same, with what to do.
    pub(crate) fn advice(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        let mut warn = |text: String, fix: String| found.push(Warning { text, fix });
        self.of_listeners(&mut warn);
        self.of_missing_users(&mut warn);
        self.of_the_admin_api(&mut warn);
        self.of_secret_files(&mut warn);
        if self.websocket.origins.iter().any(|origin| origin.as_str() == "*") {
            warn(
                "websocket.origins has \"*\": any web page that a browser near the broker opens can read and publish \
                 everything"
                    .to_owned(),
                "set websocket.origins = [\"https://HOST\"], with the origins of your own pages".to_owned(),
            );
        }
        let mut of_quorum = Vec::new();
        self.warn_of_weak_quorum(&mut of_quorum);
        for text in of_quorum {
            warn(
                text,
                "set cluster.sync = \"monitored\" and cluster.replicas = 3, with nats-servers that write at once"
                    .to_owned(),
            );
        }
        self.of_limits(&mut warn);
        found
    }

    fn of_listeners(&self, warn: &mut impl FnMut(String, String)) {
        let listeners = self.listeners();
        for listener in listeners.iter().filter(|listener| !listener.is_local_only()) {
            let has_rules = listener.acl.as_ref().unwrap_or(&self.acl.file).get().is_some();
            if listener.allows_anonymous() && !has_rules {
                warn(
                    format!(
                        "{listener} is open to the network, lets in clients that do not say who they are, and there is no acl.file: anyone \
                         who can reach it can read and publish everything"
                    ),
                    "set auth.anonymous = false and auth.password_file, or say in acl.file who may do what".to_owned(),
                );
            }
            if listener.auth.plain_passwords && !listener.address.is_tls {
                warn(
                    format!(
                        "{listener} takes passwords unencrypted from the network: whoever is on the way can read them"
                    ),
                    "write mqtts:// in its address, and set tls.certificate and tls.key".to_owned(),
                );
            }
        }
        for listener in listeners.iter().filter(|listener| !listener.accepts_any_client()) {
            warn(
                format!("nobody can come in by {listener} unless the cluster shares users"),
                "tautwire cluster config push --users FILE --admin URL --token-file FILE".to_owned(),
            );
        }
    }

    /// Listeners on which nobody can authenticate, because their password file is empty; one line for those that share it.
    fn of_missing_users(&self, warn: &mut impl FnMut(String, String)) {
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
                    "no client can connect to {}: {} has no users. Add one by `{add}`, or set auth.anonymous = true to accept everybody",
                    names.join(" and "),
                    path.display()
                ),
                add,
            );
        }
    }

    fn of_the_admin_api(&self, warn: &mut impl FnMut(String, String)) {
        if let Some(address) = self.admin.listen.0.filter(|address| address.is_remote_plaintext()) {
            warn(
                format!(
                    "admin.listen ({address}) is open to the network, and tokens and passwords go over it in the clear: write https://{0}, \
                     or see to it that nobody can listen in",
                    address.socket
                ),
                format!("set admin.listen = \"https://{}\", admin.certificate and admin.key", address.socket),
            );
        }
    }

    /// Files with secrets that are not kept from other users of the machine.
    fn of_secret_files(&self, warn: &mut impl FnMut(String, String)) {
        let mut named = vec![
            ("admin.token_file", &self.admin.token_file),
            ("auth.jwt_secret_file", &self.auth.jwt_secret_file),
            ("auth.hook_authorization_file", &self.auth.hook_authorization_file),
        ];
        let listeners = self.listeners();
        named.extend(listeners.iter().map(|listener| ("auth.password_file", &listener.auth.password_file)));
        let mut seen = Vec::new();
        for (key, path) in named {
            let Some(file) = path.get().filter(|file| files::is_open_to_everybody(file)) else { continue };
            if !seen.contains(&file) {
                seen.push(file);
                warn(
                    format!("{key}: everybody on this machine may read {}; run: chmod o= {0}", file.display()),
                    format!("chmod o= {}", files::quoted(file)),
                );
            }
        }
    }

    fn of_limits(&self, warn: &mut impl FnMut(String, String)) {
        let limits = &self.limits;
        if limits.websocket_frame_bytes < u64::from(self.mqtt.maximum_packet_size) {
            warn(
                format!(
                    "limits.websocket_frame_bytes ({}) is below mqtt.maximum_packet_size ({}): clients that send a packet in \
                     one frame reach it first",
                    limits.websocket_frame_bytes, self.mqtt.maximum_packet_size
                ),
                format!("set limits.websocket_frame_bytes = {}", self.mqtt.maximum_packet_size),
            );
        }
        let is_in_memory = self.data.path.is_none();
        for (name, bytes) in [
            // Otherwise they are on disk.
            ("limits.session_queue_bytes", if is_in_memory { limits.session_queue_bytes } else { 0 }),
            ("limits.connection_output_bytes", limits.connection_output_bytes),
        ] {
            if bytes > limits.buffered_bytes {
                warn(
                    format!(
                        "{name} ({bytes}) is above limits.buffered_bytes ({}), which is reached first",
                        limits.buffered_bytes
                    ),
                    format!("set {name} = {}", limits.buffered_bytes),
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
                        "{name} does not hold in a cluster, which does not keep whose a retained message is; limits.retained_messages and \
                         limits.retained_bytes do [cluster_retained_quotas]"
                    ),
                    format!("set {name} = 0"),
                );
            }
        }
    }
}
