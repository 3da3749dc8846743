//! The settings of a shard in a cluster.

/// Times and limits of a shard in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The node's name for operators: a level of its `$SYS` topics.
    pub node_name: String,
    /// Maximum bytes of messages of QoS 1 and 2 that are being stored in the log. Beyond it, reading from publishers is paused.
    pub publishing_max_bytes: usize,
    /// The largest message, in its stored form, that is acknowledged at [`Memory`](tautwire_session::AckLevel::Memory) before the log has
    /// stored it.
    pub ack_before_stored_max_bytes: usize,
    /// Maximum bytes of messages of QoS 0 that wait for the cluster thread. Beyond it, messages are dropped.
    pub broadcasts_max_bytes: usize,
    /// Maximum unacknowledged messages of one group at a member of a shared subscription.
    pub member_messages_max: usize,
    /// The same in bytes. A single message may be larger.
    pub member_max_bytes: usize,
    /// How long a partition of a group waits for acknowledgements of members before it moves to another node, in milliseconds. Messages
    /// that are not acknowledged by then are delivered again there.
    pub return_wait_ms: u64,
    /// The maximum delay between an acknowledgement of a client and the save of its session, in milliseconds.
    pub checkpoint_ms: u64,
    /// How often a session is saved while only messages for others advance its position, in milliseconds.
    pub idle_save_ms: u64,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            node_name: String::new(),
            publishing_max_bytes: 8 << 20,
            ack_before_stored_max_bytes: 64 << 10,
            broadcasts_max_bytes: 4 << 20,
            member_messages_max: 64,
            member_max_bytes: 1 << 20,
            return_wait_ms: 1_000,
            checkpoint_ms: 200,
            idle_save_ms: 60_000,
        }
    }
}
