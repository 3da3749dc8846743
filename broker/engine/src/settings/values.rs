//! The settings of an operator, as the engine uses them.

use std::sync::Arc;

use tautwire_memory::Limits;
use tautwire_protocol::{QoS, topic_matches};
use tautwire_router::RetainedQuota;
use tautwire_session::AckLevel;

use crate::connection::origin::ProtocolVersions;
use crate::connection::quotas::{FlappingRule, PublishRates, Quotas, Rate, UserQuotas};
use crate::session::slow_consumer::SlowConsumers;

/// The durability for which acknowledgements wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acks {
    /// The default.
    pub default: AckLevel,
    /// The level for a PUBLISH, by topic filter; the first filter that matches applies.
    pub topics: Vec<(Box<str>, AckLevel)>,
}

impl Acks {
    /// All configured levels.
    pub fn levels(&self) -> impl Iterator<Item = AckLevel> {
        self.topics.iter().map(|(_, level)| *level).chain([self.default])
    }

    /// The level for a PUBLISH to `topic` on a connection of `level`.
    pub(crate) fn for_topic(&self, topic: &str, level: AckLevel) -> AckLevel {
        let found = self.topics.iter().find(|(filter, _)| topic_matches(filter, topic));
        found.map_or(level, |(_, level)| *level)
    }
}

/// The default limit on the bytes of messages of one session, on disk and in memory.
pub const SESSION_QUEUE_BYTES: usize = 1 << 30;

/// The capabilities and limits of a broker. The configuration reference describes each.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each field is documented once, in the registry of configuration keys")]
pub struct Settings {
    pub receive_maximum: u16,
    pub maximum_packet_size_bytes: u32,
    pub topic_alias_maximum: u16,
    pub max_keep_alive_s: u16,
    pub max_qos: QoS,
    pub retain_available: bool,
    pub check_retained_publisher: bool,
    pub wildcard_subscription_available: bool,
    pub shared_subscription_available: bool,
    pub shared_ack_timeout_s: u32,
    pub shared_queue_bytes: usize,
    pub subscription_identifier_available: bool,
    pub response_information: Box<str>,
    pub protocol_versions: ProtocolVersions,
    pub allow_empty_client_id: bool,
    pub assigned_client_id_prefix: Arc<str>,
    pub max_session_expiry_s: u32,
    pub connect_timeout_s: u32,
    pub connections: usize,
    pub sessions: usize,
    pub client_id_bytes: usize,
    pub flapping_disconnects: u32,
    pub flapping_window_s: u32,
    pub flapping_block_s: u32,
    pub topic_bytes: usize,
    pub topic_levels: usize,
    pub subscriptions_per_session: usize,
    pub subscriptions_per_packet: usize,
    pub in_flight_per_client: u16,
    pub in_flight_bytes_per_client: usize,
    pub payload_bytes: usize,
    pub session_queue_messages: usize,
    pub session_queue_bytes: usize,
    /// Whether a queue is also full when its session has reached its memory limit.
    pub session_queue_memory: bool,
    pub stale_session_s: u32,
    pub publish_messages_per_s: usize,
    pub publish_burst_messages: usize,
    pub publish_bytes_per_s: usize,
    pub publish_burst_bytes: usize,
    pub retained_messages_per_client: usize,
    pub retained_bytes_per_client: usize,
    pub user_subscriptions: usize,
    pub user_in_flight: usize,
    pub user_queue_messages: usize,
    pub user_queue_bytes: usize,
    pub user_publish_messages_per_s: usize,
    pub user_publish_burst_messages: usize,
    pub user_publish_bytes_per_s: usize,
    pub user_publish_burst_bytes: usize,
    pub user_retained_messages: usize,
    pub user_retained_bytes: usize,
    pub slow_consumer: SlowConsumers,
    pub connection_output_bytes: usize,
    pub memory_bytes: usize,
    pub spill_threshold_bytes: usize,
    pub spill_bytes: u64,
    pub memory_bytes_per_client: usize,
    pub shard_queue_batches: usize,
    pub incomplete_packet_timeout_s: u32,
    pub write_stall_timeout_s: u32,
    pub sys_interval_s: u32,
    pub transcoded_bytes: usize,
    pub contract_discovery: bool,
    pub acks: Acks,
    pub metered_filters: Box<[Box<str>]>,
}

impl Settings {
    /// Bytes of messages in memory above which messages are spilled to disk, if possible. While the disk is slow there may be about three
    /// times as many, which is still less than half of the memory that one client may use.
    pub fn loaded_max_bytes(&self) -> u64 {
        self.spill_threshold_bytes.min(self.memory_bytes / 8) as u64
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            receive_maximum: 1024,
            maximum_packet_size_bytes: 16 << 20,
            topic_alias_maximum: 64,
            max_keep_alive_s: 0,
            max_qos: QoS::ExactlyOnce,
            retain_available: true,
            check_retained_publisher: false,
            wildcard_subscription_available: true,
            shared_subscription_available: true,
            shared_ack_timeout_s: 300,
            shared_queue_bytes: 256 << 20,
            subscription_identifier_available: true,
            response_information: "".into(),
            protocol_versions: ProtocolVersions::ALL,
            allow_empty_client_id: true,
            assigned_client_id_prefix: "auto-".into(),
            max_session_expiry_s: u32::MAX,
            connect_timeout_s: 10,
            connections: 100_000,
            sessions: 1_000_000,
            client_id_bytes: 1024,
            flapping_disconnects: 0,
            flapping_window_s: 60,
            flapping_block_s: 60,
            topic_bytes: 65_535,
            topic_levels: 128,
            subscriptions_per_session: 100_000,
            subscriptions_per_packet: 10_000,
            in_flight_per_client: 1024,
            in_flight_bytes_per_client: 0,
            payload_bytes: 0,
            session_queue_messages: 0,
            session_queue_bytes: SESSION_QUEUE_BYTES,
            session_queue_memory: true,
            stale_session_s: 7 * 24 * 3_600,
            publish_messages_per_s: 0,
            publish_burst_messages: 0,
            publish_bytes_per_s: 0,
            publish_burst_bytes: 0,
            retained_messages_per_client: 0,
            retained_bytes_per_client: 0,
            user_subscriptions: 0,
            user_in_flight: 0,
            user_queue_messages: 0,
            user_queue_bytes: 0,
            user_publish_messages_per_s: 0,
            user_publish_burst_messages: 0,
            user_publish_bytes_per_s: 0,
            user_publish_burst_bytes: 0,
            user_retained_messages: 0,
            user_retained_bytes: 0,
            slow_consumer: SlowConsumers::default(),
            connection_output_bytes: 4 << 20,
            memory_bytes: 1 << 30,
            spill_threshold_bytes: 24 << 20,
            spill_bytes: 16 << 30,
            memory_bytes_per_client: 256 << 20,
            shard_queue_batches: 64,
            incomplete_packet_timeout_s: 30,
            write_stall_timeout_s: 120,
            sys_interval_s: 10,
            transcoded_bytes: 2 << 20,
            contract_discovery: true,
            acks: Acks::default(),
            metered_filters: Box::default(),
        }
    }
}

impl Settings {
    /// When clients are blocked for flapping, if ever.
    pub(crate) fn flapping(&self) -> Option<FlappingRule> {
        FlappingRule::new(self.flapping_disconnects, self.flapping_window_s, self.flapping_block_s)
    }

    pub(crate) fn memory_limits(&self) -> Limits {
        let all_bytes = self.memory_bytes as u64;
        Limits { all_bytes, client_bytes: (self.memory_bytes_per_client as u64).min(all_bytes) }
    }

    /// The default quotas of a client.
    pub(crate) fn quotas(&self) -> Quotas {
        Quotas {
            publish: PublishRates {
                messages: Rate::new(self.publish_messages_per_s, self.publish_burst_messages),
                bytes: Rate::new(self.publish_bytes_per_s, self.publish_burst_bytes),
            },
            subscriptions: self.subscriptions_per_session,
            in_flight: self.in_flight_per_client,
            in_flight_bytes: bound(self.in_flight_bytes_per_client),
            queue_messages: bound(self.session_queue_messages),
            queue_bytes: self.session_queue_bytes,
            queue_memory: self.session_queue_memory,
            retained: RetainedQuota {
                messages: bound(self.retained_messages_per_client),
                bytes: bound(self.retained_bytes_per_client),
            },
            of_user: UserQuotas {
                publish: PublishRates {
                    messages: Rate::new(self.user_publish_messages_per_s, self.user_publish_burst_messages),
                    bytes: Rate::new(self.user_publish_bytes_per_s, self.user_publish_burst_bytes),
                },
                subscriptions: bound(self.user_subscriptions),
                in_flight: bound(self.user_in_flight),
                queue_messages: bound(self.user_queue_messages),
                queue_bytes: bound(self.user_queue_bytes),
                retained: RetainedQuota {
                    messages: bound(self.user_retained_messages),
                    bytes: bound(self.user_retained_bytes),
                },
            },
        }
    }
}

/// Converts a setting in which 0 means unlimited.
fn bound(setting: usize) -> usize {
    if setting == 0 { usize::MAX } else { setting }
}
