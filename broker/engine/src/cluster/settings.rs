//! What a shard in a cluster is set to.

/// Times and limits of a shard in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Bytes of messages of QoS 1 and 2 that may be on their way to the log. Beyond it, publishers are not read from.
    pub publishing_max_bytes: usize,
    /// Reads for sessions that are behind, under way at once.
    pub reads_max: usize,
    /// Bytes of messages of QoS 0 that wait for the thread of the cluster. Beyond it, they are dropped.
    pub broadcasts_max_bytes: usize,
    /// How long after an acknowledgement of its client a session is saved at the latest, in milliseconds.
    pub checkpoint_ms: u64,
    /// How often a session is saved that is only passed by messages for others, in milliseconds.
    pub passed_save_ms: u64,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        ClusterSettings {
            publishing_max_bytes: 8 << 20,
            reads_max: 64,
            broadcasts_max_bytes: 4 << 20,
            checkpoint_ms: 200,
            passed_save_ms: 60_000,
        }
    }
}
