//! When a changed key takes effect after a reload. Every key is listed here; a test fails otherwise.

use super::bridge_config;
use super::listener::Listener;
use super::listener_config;
use super::registry::Key;
use super::settings::{Config, KEYS};

/// When a changed key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReloadEffect {
    /// At once, from the next message or packet on, also for connected clients.
    Immediate,
    /// For connections accepted from now on.
    NewConnections,
    /// After a restart.
    Restart,
}

impl ReloadEffect {
    /// The effect of a key of the file. A key that is not listed needs a restart, which is always correct.
    pub(crate) fn of(key: &str) -> ReloadEffect {
        lists()
            .into_iter()
            .find(|(_, names)| names.contains(&key))
            .map_or(ReloadEffect::Restart, |(reload_effect, _)| reload_effect)
    }

    /// The effect of a key of a `[[listener]]` table.
    pub(crate) fn of_listener(key: &str) -> ReloadEffect {
        if LISTENER_IMMEDIATE.contains(&key) {
            ReloadEffect::Immediate
        } else if LISTENER_NEW_CONNECTIONS.contains(&key) {
            ReloadEffect::NewConnections
        } else {
            ReloadEffect::Restart
        }
    }

    /// Short text for tables.
    pub(crate) fn short(self) -> &'static str {
        match self {
            ReloadEffect::Immediate => "immediately",
            ReloadEffect::NewConnections => "new connections",
            ReloadEffect::Restart => "restart",
        }
    }
}

fn lists() -> [(ReloadEffect, &'static [&'static str]); 3] {
    [
        (ReloadEffect::Immediate, IMMEDIATE),
        (ReloadEffect::NewConnections, NEW_CONNECTIONS),
        (ReloadEffect::Restart, RESTART),
    ]
}

const IMMEDIATE: &[&str] = &[
    "limits.connect_burst_per_address",
    "limits.connect_rate_per_address",
    "limits.connect_burst",
    "limits.connect_rate",
    "limits.connections_per_address",
    "listen",
    "file_watch_interval_s",
    "auth.anonymous",
    "auth.password_file",
    "auth.plaintext_passwords",
    "auth.certificate_identity",
    "auth.certificate_rules",
    "auth.jwt_key_file",
    "auth.jwks_url",
    "auth.jwt_secret_file",
    "auth.jwt_algorithms",
    "auth.jwt_issuers",
    "auth.jwt_audiences",
    "auth.jwt_leeway_s",
    "auth.jwt_user_claim",
    "auth.jwt_client_id_claim",
    "auth.jwt_roles_claim",
    "auth.hook_url",
    "auth.hook_authorization_file",
    "auth.hook_timeout_ms",
    "auth.hook_concurrency",
    "auth.hook_allow_cache_s",
    "auth.hook_deny_cache_s",
    "auth.hook_failure_threshold",
    "auth.hook_retry_s",
    "auth.hook_unreachable",
    "auth.https_ca",
    "auth.ban_rules",
    "auth.threads",
    "auth.password_cache_entries",
    "auth.password_cost",
    "acl.file",
    "acl.check_retained_publisher",
    "cluster.credentials_file",
    "cluster.nkey_file",
    "cluster.user",
    "cluster.password_file",
    "cluster.token_file",
    "cluster.tls",
    "cluster.ca",
    "cluster.certificate",
    "cluster.key",
    "data.ack_topics",
    "memory.limit",
    "metrics.topics",
    "disk.limit",
    "contracts.path",
    "contracts.discovery",
    "admin.listen",
    "admin.certificate",
    "admin.key",
    "admin.plain_http",
    "admin.roles",
    "admin.session_idle_timeout_s",
    "admin.session_max_age_s",
    "admin.sessions",
    "admin.token_file",
    "admin.tokens_file",
    "audit.file",
    "limits.connections",
    "limits.flapping_disconnects",
    "limits.flapping_window_s",
    "limits.flapping_block_s",
    "limits.tls_handshakes",
    "limits.authentications",
    "limits.sessions",
    "limits.client_id_bytes",
    "limits.topic_bytes",
    "limits.topic_levels",
    "limits.subscriptions_per_session",
    "limits.subscriptions_per_packet",
    "limits.in_flight_bytes_per_client",
    "limits.payload_bytes",
    "limits.session_queue_messages",
    "limits.session_queue_bytes",
    "limits.shared_queue_bytes",
    "mqtt.shared_ack_timeout_s",
    "limits.slow_consumer",
    "limits.slow_consumer_topics",
    "limits.slow_consumer_users",
    "limits.stale_session_s",
    "limits.publish_messages_per_s",
    "limits.publish_burst_messages",
    "limits.publish_bytes_per_s",
    "limits.publish_burst_bytes",
    "limits.connection_output_bytes",
    "limits.memory_bytes",
    "limits.memory_bytes_per_client",
    "limits.spill_threshold_bytes",
    "limits.retained_messages",
    "limits.retained_bytes",
    "limits.retained_messages_per_client",
    "limits.retained_bytes_per_client",
    "limits.user_subscriptions",
    "limits.user_in_flight",
    "limits.user_queue_messages",
    "limits.user_queue_bytes",
    "limits.user_publish_messages_per_s",
    "limits.user_publish_burst_messages",
    "limits.user_publish_bytes_per_s",
    "limits.user_publish_burst_bytes",
    "limits.user_retained_messages",
    "limits.user_retained_bytes",
    "limits.transcoded_bytes",
    "limits.incomplete_packet_timeout_s",
    "limits.write_stall_timeout_s",
    "sys.interval_s",
    "telemetry.endpoint",
    "telemetry.headers_file",
    "telemetry.ca",
    "telemetry.metrics",
    "telemetry.metrics_interval_s",
    "telemetry.logs",
    "telemetry.traces",
    "telemetry.trace_sample_ratio",
    "telemetry.trace_topics",
    "telemetry.service_name",
    "telemetry.attributes",
    "log.level",
    "log.format",
    "log.rate_limit_burst",
    "log.rate_limit_interval_s",
];

const NEW_CONNECTIONS: &[&str] = &[
    "limits.websocket_message_bytes",
    "limits.websocket_frame_bytes",
    "data.ack_listeners",
    "data.ack",
    "tls.cipher_suites",
    "tls.minimum_version",
    "tls.crl",
    "tls.client_ca",
    "tls.client_certificates",
    "tls.key",
    "tls.certificate",
    "websocket.allowed_origins",
    "mqtt.receive_maximum",
    "mqtt.maximum_packet_size",
    "mqtt.topic_alias_maximum",
    "mqtt.max_keep_alive_s",
    "mqtt.max_qos",
    "mqtt.retain_available",
    "mqtt.wildcard_subscription_available",
    "mqtt.shared_subscription_available",
    "mqtt.subscription_identifier_available",
    "mqtt.response_information",
    "mqtt.max_session_expiry_s",
    "mqtt.connect_timeout_s",
    "limits.in_flight_per_client",
    "mqtt.protocol_versions",
    "mqtt.allow_empty_client_id",
    "mqtt.assigned_client_id_prefix",
];

const RESTART: &[&str] = &[
    "threads",
    "user",
    "data.path",
    "cluster.servers",
    "cluster.name",
    "cluster.server_reference",
    "cluster.replicas",
    "cluster.sync",
    "cluster.monitoring_addresses",
    "cluster.log_max_age_s",
    "cluster.log_max_bytes",
    "limits.spill_bytes",
    "limits.shard_queue_batches",
];

/// Keys of a `[[listener]]` table.
const LISTENER_IMMEDIATE: &[&str] = &[
    "name",
    "address",
    "mode",
    "auth.anonymous",
    "auth.password_file",
    "auth.plaintext_passwords",
    "auth.certificate_identity",
    "auth.certificate_rules",
    "acl.file",
    "limits.connections",
    "limits.connections_per_address",
    "limits.connect_rate",
    "limits.connect_burst",
    "limits.connect_rate_per_address",
    "limits.connect_burst_per_address",
];

const LISTENER_NEW_CONNECTIONS: &[&str] = &[
    "ack",
    "mount_point",
    "mqtt.receive_maximum",
    "mqtt.maximum_packet_size",
    "mqtt.max_keep_alive_s",
    "mqtt.max_session_expiry_s",
    "mqtt.max_qos",
    "mqtt.topic_alias_maximum",
    "mqtt.protocol_versions",
    "mqtt.allow_empty_client_id",
    "mqtt.assigned_client_id_prefix",
    "proxy.trusted_networks",
    "proxy.require_tls",
    "proxy.require_certificate",
    "tls.certificate",
    "tls.key",
    "tls.client_certificates",
    "tls.client_ca",
    "tls.crl",
    "tls.minimum_version",
    "tls.cipher_suites",
];

impl Config {
    /// The configuration after a reload of `loaded`: keys that need a restart keep their current values.
    pub(crate) fn reloaded(&self, loaded: &Config) -> Config {
        let mut config = self.clone();
        for key in KEYS.iter().filter(|key| ReloadEffect::of(key.name) != ReloadEffect::Restart) {
            (key.copy)(&mut config, loaded);
        }
        // No key of these tables needs a restart.
        config.listener.clone_from(&loaded.listener);
        config.bridge.clone_from(&loaded.bridge);
        config
    }
}

/// The differences between the listeners of two configurations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerChanges {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Changed keys of tables that exist in both: the name of the listener, and the key.
    pub(crate) keys: Vec<(String, &'static str)>,
}

impl ListenerChanges {
    pub(crate) fn between(before: &Config, after: &Config) -> ListenerChanges {
        let is_in = |listeners: &[Listener], listener: &Listener| {
            listeners.iter().any(|other| other.name == listener.name && other.address == listener.address)
        };
        let (old, new) = (before.listeners(), after.listeners());
        let names = |of: &[Listener], others: &[Listener]| {
            of.iter().filter(|listener| !is_in(others, listener)).map(|listener| listener.name.clone()).collect()
        };
        let mut keys = Vec::new();
        for (table, name) in after.tables() {
            let previous = before.tables().find(|(old, old_name)| *old_name == name && old.address == table.address);
            if let Some((old_table, _)) = previous {
                let changed = listener_config::KEYS.iter().filter(|key| (key.show)(old_table) != (key.show)(table));
                keys.extend(changed.map(|key| (name.clone(), key.name)));
            }
        }
        ListenerChanges { added: names(&new, &old), removed: names(&old, &new), keys }
    }
}

/// The differences between the bridges of two configurations: each as the name of the bridge and the key, or `added` or `removed`.
pub(crate) fn changed_bridges(before: &Config, after: &Config) -> Vec<String> {
    let find = |config: &'_ Config, name| config.bridge.iter().find(|bridge| bridge.name == name).cloned();
    let mut changes = Vec::new();
    for bridge in &after.bridge {
        let name = bridge.name.as_ref().map_or("", |name| name.as_str());
        match find(before, bridge.name.clone()) {
            None => changes.push(format!("bridge {name}: added")),
            Some(old) => {
                let keys = bridge_config::KEYS.iter().filter(|key| (key.show)(&old) != (key.show)(bridge));
                changes.extend(keys.map(|key| format!("bridge {name}: {}", key.name)));
            }
        }
    }
    let removed = before.bridge.iter().filter(|bridge| find(after, bridge.name.clone()).is_none());
    changes.extend(
        removed.map(|bridge| format!("bridge {}: removed", bridge.name.as_ref().map_or("", |name| name.as_str()))),
    );
    changes
}

/// The keys whose values differ, in the order of the documentation.
pub(crate) fn changed<'c>(
    before: &'c Config,
    after: &'c Config,
) -> impl Iterator<Item = &'static Key<Config>> + use<'c> {
    KEYS.iter().filter(move |key| (key.show)(before) != (key.show)(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_classified_exactly_once() {
        let named: Vec<&str> = lists().into_iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for key in KEYS {
            let count = named.iter().filter(|name| **name == key.name).count();
            assert_eq!(count, 1, "list {} exactly once in this file", key.name);
        }
        assert_eq!(named.len(), KEYS.len(), "a listed key does not exist");
        let named = || LISTENER_IMMEDIATE.iter().chain(LISTENER_NEW_CONNECTIONS);
        for key in listener_config::KEYS {
            let count = named().filter(|name| **name == key.name).count();
            assert_eq!(count, 1, "list {} of [[listener]] exactly once in this file", key.name);
        }
        assert_eq!(named().count(), listener_config::KEYS.len(), "a listed key does not exist");
    }

    /// The page on reloads lists the same keys, except those of a cluster.
    #[test]
    fn keys_that_need_a_restart_are_documented() {
        let page = include_str!("../../../../docs/operating/reload.md");
        let (_, section) = page.split_once("## What needs a restart").expect("the page has it");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(key, _)| key);
        let mut documented: Vec<&str> = rows.collect();
        let mut needed: Vec<&str> = RESTART.iter().copied().filter(|key| !key.starts_with("cluster.")).collect();
        documented.sort_unstable();
        needed.sort_unstable();
        assert_eq!(documented, needed);
    }
}
