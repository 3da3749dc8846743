//! Converts the configuration into the settings of the engine and the reactor.

use std::num::{NonZeroU16, NonZeroU32};

use tautwire_engine::{Acks, ListenerOverrides, SESSION_QUEUE_BYTES, Settings, SlowConsumers};
use tautwire_reactor::{AcceptLimits, ConnectRate, ListenAddress, ListenerConfig};
use tautwire_router::RetainedLimits;
use tautwire_websocket::{FrameLimits, Origins, Path, WebSocketConfig};

use super::memory::MemoryPlan;
use super::tls::TlsServers;
use crate::config::Config;
use crate::config::listen;
use crate::config::listener::Listener;
use crate::config::listener_config::ListenerLimits;
use crate::config::protocol::ClientIdPrefix;
use crate::config::settings::LimitsConfig;

pub(crate) fn of(config: &Config) -> (Settings, RetainedLimits) {
    let (mqtt, limits) = (&config.mqtt, &config.limits);
    let budget = MemoryPlan::of(config);
    let queue = SessionQueue::of(config);
    let settings = Settings {
        receive_maximum: mqtt.receive_maximum,
        maximum_packet_size_bytes: mqtt.maximum_packet_size,
        topic_alias_maximum: mqtt.topic_alias_maximum,
        max_keep_alive_s: mqtt.max_keep_alive_s,
        max_qos: mqtt.max_qos,
        retain_available: mqtt.retain_available,
        check_retained_publisher: config.acl.check_retained_publisher,
        wildcard_subscription_available: mqtt.wildcard_subscription_available,
        shared_subscription_available: mqtt.shared_subscription_available,
        shared_ack_timeout_s: mqtt.shared_ack_timeout_s,
        shared_queue_bytes: limits.shared_queue_bytes,
        subscription_identifier_available: mqtt.subscription_identifier_available,
        response_information: mqtt.response_information.as_str().into(),
        max_session_expiry_s: mqtt.max_session_expiry_s,
        protocol_versions: mqtt.protocol_versions,
        allow_empty_client_id: mqtt.allow_empty_client_id,
        assigned_client_id_prefix: mqtt.assigned_client_id_prefix.get(),
        connect_timeout_s: mqtt.connect_timeout_s,
        connections: limits.connections,
        sessions: limits.sessions,
        client_id_bytes: limits.client_id_bytes,
        flapping_disconnects: limits.flapping_disconnects,
        flapping_window_s: limits.flapping_window_s,
        flapping_block_s: limits.flapping_block_s,
        topic_bytes: limits.topic_bytes,
        topic_levels: limits.topic_levels,
        subscriptions_per_session: limits.subscriptions_per_session,
        subscriptions_per_packet: limits.subscriptions_per_packet,
        in_flight_per_client: limits.in_flight_per_client,
        in_flight_bytes_per_client: limits.in_flight_bytes_per_client,
        payload_bytes: limits.payload_bytes,
        session_queue_messages: queue.messages,
        session_queue_bytes: queue.bytes,
        session_queue_memory: queue.is_memory_bound,
        stale_session_s: limits.stale_session_s,
        publish_messages_per_s: limits.publish_messages_per_s,
        publish_burst_messages: limits.publish_burst_messages,
        publish_bytes_per_s: limits.publish_bytes_per_s,
        publish_burst_bytes: limits.publish_burst_bytes,
        retained_messages_per_client: limits.retained_messages_per_client,
        retained_bytes_per_client: limits.retained_bytes_per_client,
        user_subscriptions: limits.user_subscriptions,
        user_in_flight: limits.user_in_flight,
        user_queue_messages: limits.user_queue_messages,
        user_queue_bytes: limits.user_queue_bytes,
        user_publish_messages_per_s: limits.user_publish_messages_per_s,
        user_publish_burst_messages: limits.user_publish_burst_messages,
        user_publish_bytes_per_s: limits.user_publish_bytes_per_s,
        user_publish_burst_bytes: limits.user_publish_burst_bytes,
        user_retained_messages: limits.user_retained_messages,
        user_retained_bytes: limits.user_retained_bytes,
        slow_consumer: SlowConsumers {
            default: limits.slow_consumer,
            topics: limits.slow_consumer_topics.0.clone(),
            users: limits.slow_consumer_users.0.clone(),
        },
        connection_output_bytes: limits.connection_output_bytes,
        memory_bytes: budget.memory_bytes,
        spill_threshold_bytes: limits.spill_threshold_bytes,
        spill_bytes: limits.spill_bytes as u64,
        memory_bytes_per_client: limits.memory_bytes_per_client,
        transcoded_bytes: limits.transcoded_bytes,
        shard_queue_batches: limits.shard_queue_batches,
        incomplete_packet_timeout_s: limits.incomplete_packet_timeout_s,
        write_stall_timeout_s: limits.write_stall_timeout_s,
        sys_interval_s: config.sys.interval_s,
        contract_discovery: config.contracts.discovery,
        metered_filters: config.metrics.topics.0.clone().into(),
        acks: Acks { default: config.ack(), topics: config.data.ack_topics.0.clone() },
    };
    (settings, RetainedLimits { messages: limits.retained_messages, bytes: budget.retained_bytes })
}

/// Limits for one session in a cluster; further messages wait in its log.
const CLUSTER_QUEUE_MESSAGES: usize = 10_000;
const CLUSTER_QUEUE_BYTES: usize = 64 << 20;
/// A session may use this fraction of the disk.
const DISK_SHARE: u64 = 16;

/// The limits on the queue of one session.
#[derive(Debug, PartialEq, Eq)]
struct SessionQueue {
    /// 0 for no limit.
    messages: usize,
    bytes: usize,
    /// Whether the queue is also full when its session reaches its memory limit.
    is_memory_bound: bool,
}

impl SessionQueue {
    fn of(config: &Config) -> SessionQueue {
        let LimitsConfig { session_queue_messages, session_queue_bytes, .. } = config.limits;
        if config.cluster.has_servers() {
            let or = |value: usize, default: usize| if value == 0 { default } else { value };
            return SessionQueue {
                messages: or(session_queue_messages, CLUSTER_QUEUE_MESSAGES),
                bytes: or(session_queue_bytes, CLUSTER_QUEUE_BYTES),
                is_memory_bound: false,
            };
        }
        let bytes = match session_queue_bytes {
            0 => session_share(disk_bytes(config)),
            bytes => bytes,
        };
        SessionQueue { messages: session_queue_messages, bytes, is_memory_bound: session_queue_bytes == 0 }
    }
}

/// The disk share of one session, for a disk of this size.
fn session_share(disk_bytes: Option<u64>) -> usize {
    let share = disk_bytes.and_then(|bytes| usize::try_from(bytes / DISK_SHARE).ok());
    share.map_or(SESSION_QUEUE_BYTES, |share| share.min(SESSION_QUEUE_BYTES))
}

/// The most that the state can take on disk: the limit, or the whole file system. `None` without a disk, or if its size is unknown.
fn disk_bytes(config: &Config) -> Option<u64> {
    let path = config.data.path.directory().ok()??;
    disk_limit(config).or_else(|| {
        let folder = path.ancestors().find(|folder| folder.is_dir())?;
        let system = rustix::fs::statvfs(folder).ok()?;
        Some(system.f_blocks.saturating_mul(system.f_frsize))
    })
}

/// The configured disk limit; `None` if not set.
pub(crate) fn disk_limit(config: &Config) -> Option<u64> {
    Some(config.disk.limit).filter(|bytes| *bytes > 0)
}

/// The limits on connections and connection rates, for all listeners together.
pub(crate) fn accept_rate(limits: &LimitsConfig) -> AcceptLimits {
    AcceptLimits {
        connections_per_address: Some(limits.connections_per_address).filter(|max| *max > 0),
        rate: ConnectRate::new(limits.connect_rate, limits.connect_burst),
        rate_per_address: ConnectRate::new(limits.connect_rate_per_address, limits.connect_burst_per_address),
    }
}

/// The same limits for one listener.
fn listener_accept_rate(limits: &ListenerLimits) -> AcceptLimits {
    let rate = |per_s: Option<u32>, burst: Option<u32>| ConnectRate::new(per_s?, burst.unwrap_or(0));
    AcceptLimits {
        connections_per_address: limits.connections_per_address,
        rate: rate(limits.connect_rate, limits.connect_burst),
        rate_per_address: rate(limits.connect_rate_per_address, limits.connect_burst_per_address),
    }
}

/// The listeners for the reactor, with their addresses and options.
pub(crate) fn listener_configs(config: &Config, listeners: &[Listener], tls: &TlsServers) -> Vec<ListenerConfig> {
    let limits = FrameLimits {
        frame_bytes: config.limits.websocket_frame_bytes,
        message_bytes: config.limits.websocket_message_bytes,
    };
    let origins = Origins::new(config.websocket.allowed_origins.clone());
    let listen = |listener: &Listener| {
        let rules = |path: &Path| WebSocketConfig { path: path.clone(), origins: origins.clone(), limits };
        ListenerConfig {
            name: listener.name.as_str().into(),
            place: match &listener.address.place {
                listen::ListenEndpoint::Network(socket) => ListenAddress::Network(*socket),
                listen::ListenEndpoint::Unix(path) => ListenAddress::Unix { path: path.clone(), mode: listener.mode },
            },
            proxies: listener.proxies.as_ref().map(|networks| networks.get().into()),
            proxy_requirements: listener.proxy_requirements,
            tls: tls.of(listener),
            websocket: listener.address.websocket.as_ref().map(rules),
            ack_level: listener.ack,
            connections_max: listener.connections,
            accept_rate: listener_accept_rate(&listener.limits),
            offer: ListenerOverrides {
                receive_maximum: listener.mqtt.receive_maximum.and_then(NonZeroU16::new),
                maximum_packet_size_bytes: listener.mqtt.maximum_packet_size.and_then(NonZeroU32::new),
                max_keep_alive_s: listener.mqtt.max_keep_alive_s,
                max_session_expiry_s: listener.mqtt.max_session_expiry_s,
                max_qos: listener.mqtt.max_qos,
                topic_alias_maximum: listener.mqtt.topic_alias_maximum,
                protocol_versions: listener.mqtt.protocol_versions,
                allow_empty_client_id: listener.mqtt.allow_empty_client_id,
                assigned_client_id_prefix: listener.mqtt.assigned_client_id_prefix.as_ref().map(ClientIdPrefix::get),
            },
            mount_point: listener.mount_point.clone(),
        }
    };
    listeners.iter().map(listen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Override;

    fn queue(settings: &[&str]) -> SessionQueue {
        let overrides: Vec<_> =
            settings.iter().map(|text| Override::from_argument(text).expect("a key and a value")).collect();
        SessionQueue::of(&Config::load(None, &overrides).expect("a valid configuration"))
    }

    #[test]
    fn a_session_can_hold_its_share_of_disk_and_memory() {
        assert_eq!(session_share(None), 1 << 30);
        assert_eq!(session_share(Some(1 << 40)), 1 << 30);
        assert_eq!(session_share(Some(1 << 30)), 64 << 20);
        let on_disk = queue(&["data.path=/", "disk.limit=1073741824"]);
        assert_eq!(on_disk, SessionQueue { messages: 0, bytes: 64 << 20, is_memory_bound: true });
        let chosen = queue(&["limits.session_queue_bytes=5000", "limits.session_queue_messages=7"]);
        assert_eq!(chosen, SessionQueue { messages: 7, bytes: 5_000, is_memory_bound: false });
        let in_cluster = queue(&["cluster.servers=nats://a"]);
        assert_eq!(in_cluster, SessionQueue { messages: 10_000, bytes: 64 << 20, is_memory_bound: false });
    }
}
