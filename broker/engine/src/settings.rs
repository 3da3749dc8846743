//! What an operator can set, as the engine uses it.

use tautwire_protocol::QoS;

/// What happens to a message for a session whose queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowConsumer {
    /// The new message is dropped.
    DropNew,
    /// The oldest waiting message is dropped.
    DropOld,
    /// The client is disconnected with 0x97 Quota exceeded; its queue stays.
    Disconnect,
}

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
    pub wildcard_subscription_available: bool,
    pub shared_subscription_available: bool,
    pub subscription_identifier_available: bool,
    pub response_information: Box<str>,
    pub max_session_expiry_s: u32,
    pub connect_timeout_s: u32,
    pub connections: usize,
    pub sessions: usize,
    pub client_id_bytes: usize,
    pub topic_bytes: usize,
    pub topic_levels: usize,
    pub subscriptions_per_session: usize,
    pub subscriptions_per_packet: usize,
    pub in_flight_per_client: u16,
    pub session_queue_messages: usize,
    pub session_queue_bytes: usize,
    pub slow_consumer: SlowConsumer,
    pub connection_output_bytes: usize,
    pub buffered_bytes: usize,
    pub client_bytes: usize,
    pub shard_queue_batches: usize,
    pub incomplete_packet_timeout_s: u32,
    pub write_stall_timeout_s: u32,
    pub sys_interval_s: u32,
    pub transcoded_bytes: usize,
    pub contract_discovery: bool,
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
            wildcard_subscription_available: true,
            shared_subscription_available: true,
            subscription_identifier_available: true,
            response_information: "".into(),
            max_session_expiry_s: u32::MAX,
            connect_timeout_s: 10,
            connections: 100_000,
            sessions: 1_000_000,
            client_id_bytes: 1024,
            topic_bytes: 65_535,
            topic_levels: 128,
            subscriptions_per_session: 100_000,
            subscriptions_per_packet: 10_000,
            in_flight_per_client: 1024,
            session_queue_messages: 10_000,
            session_queue_bytes: 64 << 20,
            slow_consumer: SlowConsumer::DropNew,
            connection_output_bytes: 4 << 20,
            buffered_bytes: 1 << 30,
            client_bytes: 256 << 20,
            shard_queue_batches: 64,
            incomplete_packet_timeout_s: 30,
            write_stall_timeout_s: 120,
            sys_interval_s: 10,
            transcoded_bytes: 2 << 20,
            contract_discovery: true,
        }
    }
}
