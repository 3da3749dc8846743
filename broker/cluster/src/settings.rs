//! Times and limits of a node.

/// What a node is set to. All nodes of a cluster have the same times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long after a beat the next one is due, in milliseconds.
    pub beat_ms: u64,
    /// How long a node serves its clients after it sent the last beat that was confirmed, in milliseconds.
    pub lease_ms: u64,
    /// How much longer others wait before they bury it, in milliseconds: for clocks of different speed.
    pub margin_ms: u64,
    /// How long a client waits for its session before it is refused, in milliseconds.
    pub claim_timeout_ms: u64,
    /// After what time something is asked again that was not answered, in milliseconds.
    pub ask_again_ms: u64,
    /// Claims under way at once.
    pub claims_max: usize,
    /// A group takes no more messages once it has so many bytes.
    pub group_max_bytes: usize,
    /// Messages in one group.
    pub group_messages_max: usize,
    /// What waits in one partition for the group before it. Beyond it, messages are given back.
    pub waiting_max_bytes: usize,
    /// Shards of this node: each gets what arrives.
    pub shards: usize,
    /// What is read from the log at once, in bytes; one group at least.
    pub read_max_bytes: usize,
    /// Of one partition, what has arrived and has not been taken by all shards, in bytes. Beyond it, nothing is asked for.
    pub handed_max_bytes: usize,
    /// Groups that stay in memory for those who are a little behind, in bytes.
    pub kept_max_bytes: usize,
    /// Reads under way for those who are behind. Beyond it, they wait.
    pub reads_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            beat_ms: 1500,
            lease_ms: 6000,
            margin_ms: 1000,
            claim_timeout_ms: 5000,
            ask_again_ms: 250,
            claims_max: 4096,
            group_max_bytes: 512 * 1024,
            group_messages_max: 1024,
            waiting_max_bytes: 16 * 1024 * 1024,
            shards: 1,
            read_max_bytes: 256 * 1024,
            handed_max_bytes: 2 * 1024 * 1024,
            kept_max_bytes: 32 * 1024 * 1024,
            reads_max: 64,
        }
    }
}
