//! What an operator can set, as the engine uses it.

use std::sync::Arc;

use tautwire_memory::Limits;
use tautwire_protocol::{QoS, topic_matches};
use tautwire_router::RetainedQuota;
use tautwire_session::AckLevel;

use crate::connection::origin::ProtocolVersions;
use crate::connection::quotas::{FlappingRule, PublishRates, Quotas, Rate, UserQuotas};
use crate::session::slow_consumer::SlowConsumers;

/// What acknowledgements wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acks {
    /// Where nothing else is said.
    pub default: AckLevel,
    /// What the answer to a PUBLISH waits for, by filters that its topic may match: the first that does counts.
    pub topics: Vec<(Box<str>, AckLevel)>,
}

impl Acks {
    /// All levels that are asked for.
    pub fn levels(&self) -> impl Iterator<Item = AckLevel> {
        self.topics.iter().map(|(_, level)| *level).chain([self.default])
    }

    /// What the answer to a PUBLISH on a connection of `level` waits for.
    pub(crate) fn for_topic(&self, topic: &str, level: AckLevel) -> AckLevel {
        let found = self.topics.iter().find(|(filter, _)| topic_matches(filter, topic));
        found.map_or(level, |(_, level)| *level)
    }
}

/// The most bytes of messages that one session holds, on disk and in memory, where nobody has chosen another limit.
pub const SESSION_QUEUE_BYTES: usize = 1 << 30;

/// Capabilities and limits of a broker; the meaning of each is in the reference of the configuration.
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
    /// A queue is also full when its session holds as much memory as it may.
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
    /// Bytes of messages above which some leave memory, where they can. While the store is slow there may be some three times as many, still
    /// less than the half of the account that one client may have.
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
    /// When clients are held back because their connections break off, if ever.
    pub(crate) fn flapping(&self) -> Option<FlappingRule> {
        FlappingRule::new(self.flapping_disconnects, self.flapping_window_s, self.flapping_block_s)
    }

    pub(crate) fn memory_limits(&self) -> Limits {
        let all_bytes = self.memory_bytes as u64;
        Limits { all_bytes, client_bytes: (self.memory_bytes_per_client as u64).min(all_bytes) }
    }

    /// What a client may do about whom nothing else is known.
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

/// Where 0 stands for no bound.
fn bound(setting: usize) -> usize {
    if setting == 0 { usize::MAX } else { setting }
}
