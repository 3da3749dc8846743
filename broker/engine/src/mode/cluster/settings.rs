//! What a shard in a cluster is set to.

/// Times and limits of a shard in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// What operators call the node: a level of its `$SYS` topics.
    pub node_name: String,
    /// Bytes of messages of QoS 1 and 2 that may be on their way to the log. Beyond it, publishers are not read from.
    pub publishing_max_bytes: usize,
    /// The largest message, in its stored form, that is acknowledged at [`Memory`](tautwire_session::AckLevel::Memory) before the log has it.
    pub answered_at_once_max_bytes: usize,
    /// Bytes of messages of QoS 0 that wait for the thread of the cluster. Beyond it, they are dropped.
    pub broadcasts_max_bytes: usize,
    /// Messages of one group that a member of a shared subscription may have without having acknowledged them.
    pub member_messages_max: usize,
    /// The same in bytes. One message of any size may be had.
    pub member_max_bytes: usize,
    /// How long a partition of a group waits for members to acknowledge what they have before it goes to another node, in milliseconds. What
    /// they have not acknowledged then is delivered again there.
    pub return_wait_ms: u64,
    /// How long after an acknowledgement of its client a session is saved at the latest, in milliseconds.
    pub checkpoint_ms: u64,
    /// How often a session is saved that is only passed by messages for others, in milliseconds.
    pub passed_save_ms: u64,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            node_name: String::new(),
            publishing_max_bytes: 8 << 20,
            answered_at_once_max_bytes: 64 << 10,
            broadcasts_max_bytes: 4 << 20,
            member_messages_max: 64,
            member_max_bytes: 1 << 20,
            return_wait_ms: 1_000,
            checkpoint_ms: 200,
            passed_save_ms: 60_000,
        }
    }
}
