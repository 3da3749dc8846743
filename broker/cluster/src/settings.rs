//! Times and limits of a node.

/// What a node is set to. All nodes of a cluster have the same times.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long after a beat the next one is due, in milliseconds.
    pub heartbeat_ms: u64,
    /// How long a node serves its clients after it sent the last beat that was confirmed, in milliseconds.
    pub lease_ms: u64,
    /// How much longer others wait before they bury it, in milliseconds: for clocks of different speed.
    pub margin_ms: u64,
    /// How long a client waits for its session before it is refused, in milliseconds.
    pub claim_timeout_ms: u64,
    /// After what time something is asked again that was not answered, in milliseconds.
    pub retry_ms: u64,
    /// How long a round waits at most until the other nodes know what this one listens to, in milliseconds. Whoever asks while one goes on waits
    /// for the next one as well.
    pub interest_sync_timeout_ms: u64,
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
    pub in_flight_max_bytes: usize,
    /// Groups that stay in memory for those who are a little behind, in bytes.
    pub cache_max_bytes: usize,
    /// Reads under way for those who are behind. Beyond it, they wait.
    pub reads_max: usize,
    /// How long a message waits for its group to be sent before it is refused, in milliseconds.
    pub publish_timeout_ms: u64,
    /// Where clients reach this node, as a Server Reference says it; empty where they cannot be told.
    pub reference: String,
    /// Bytes of messages that wait to be retained. Beyond it, messages with RETAIN are given back.
    pub retaining_max_bytes: usize,
    /// For how long the store keeps at least what a topic retains, in seconds, even if it has expired or the topic was cleared: its place in the
    /// log is known so long, and nothing older can come after it. Longer than any write may be under way.
    pub retained_floor_s: u32,
    /// Retained messages that are read from the store at once.
    pub mirror_page: usize,
    /// How much longer than its interval a session is kept, in seconds: for clocks of the store's servers that differ.
    pub expiry_margin_s: u32,
    /// Records of sessions that are read at once.
    pub scan_page: usize,
    /// Sessions that are freed at once after the death of their node.
    pub collections_max: usize,
    /// How long a node leaves the share of others to them, in milliseconds.
    pub share_ms: u64,
    /// After what time all sessions are looked through for what nobody sees to, in milliseconds.
    pub collection_interval_ms: u64,
    /// How often all groups of shared subscriptions are looked through for members whose sessions have ended unseen, in milliseconds.
    pub group_check_interval_ms: u64,
    /// Members whose sessions are looked for in one such pass. The next one goes on behind them.
    pub group_check_members_max: usize,
    /// That a record is gone is believed if it is still gone after so long, in milliseconds: longer than a server of the store that has lost its
    /// quorum may answer as if it led.
    pub confirm_gone_ms: u64,
    /// How long the record of a group without members stays, in seconds: longer than any write of it may be under way.
    pub empty_group_s: u32,
    /// How the shared subscriptions are read in a session's state.
    pub shares_of: SharesOf,
    /// Sessions that move to other nodes at once.
    pub migrations_max: usize,
    /// How long another node is asked to take an order, in milliseconds.
    pub command_timeout_ms: u64,
    /// How often the shared configuration is read, whether the store has reported a change or not, in milliseconds.
    pub config_poll_ms: u64,
    /// Bytes of one revision of the shared configuration.
    pub config_max_bytes: usize,
}

// The times of patrols have no keys: what patrols find is left by nodes that have died at the wrong moment, and nobody waits for it. Shorter ones
// would cost the store reads for ever.

/// A pass reads all sessions on each node. What it looks for, a will that nobody owns, needs an owner that gave it up and a claim that never came.
const COLLECTION_INTERVAL_MS: u64 = 600_000;
/// A member that has ended unseen keeps its group's place in the log until then, and nothing else.
const GROUP_CHECK_INTERVAL_MS: u64 = 120_000;
/// Three times as long as a leader without a quorum may take to notice that, which is 10 s.
const CONFIRM_GONE_MS: u64 = 30_000;
/// As long as what was cleared leaves its place behind: no write is under way for so long.
const EMPTY_GROUP_S: u32 = 3600;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat_ms: 1500,
            lease_ms: 6000,
            margin_ms: 1000,
            claim_timeout_ms: 5000,
            retry_ms: 250,
            interest_sync_timeout_ms: 1000,
            claims_max: 4096,
            group_max_bytes: 512 * 1024,
            group_messages_max: 1024,
            waiting_max_bytes: 16 * 1024 * 1024,
            shards: 1,
            read_max_bytes: 256 * 1024,
            in_flight_max_bytes: 2 * 1024 * 1024,
            cache_max_bytes: 32 * 1024 * 1024,
            reads_max: 64,
            publish_timeout_ms: 10_000,
            reference: String::new(),
            retaining_max_bytes: 16 * 1024 * 1024,
            retained_floor_s: 3600,
            mirror_page: 1024,
            expiry_margin_s: 2,
            scan_page: 256,
            collections_max: 256,
            share_ms: 2000,
            collection_interval_ms: COLLECTION_INTERVAL_MS,
            group_check_interval_ms: GROUP_CHECK_INTERVAL_MS,
            group_check_members_max: 10_000,
            confirm_gone_ms: CONFIRM_GONE_MS,
            empty_group_s: EMPTY_GROUP_S,
            shares_of: SharesOf(|_| None),
            migrations_max: 256,
            command_timeout_ms: 5000,
            config_poll_ms: 5000,
            config_max_bytes: 768 * 1024,
        }
    }
}

/// Gives the shared subscriptions, `$share/name/filter`, in the state of a session as the engine writes it; `None` where it cannot read the state.
#[derive(Clone, Copy)]
pub struct SharesOf(pub fn(&[u8]) -> Option<Vec<String>>);

impl SharesOf {
    /// Of a session that has ended. A state that cannot be read may have any, and names none.
    pub(crate) fn named(self, state: &[u8]) -> Vec<String> {
        if state.is_empty() { Vec::new() } else { (self.0)(state).unwrap_or_default() }
    }

    /// Whether a session may have this one.
    pub(crate) fn may_have(self, state: &[u8], share: &str) -> bool {
        // A record without state stands for no session.
        !state.is_empty() && (self.0)(state).is_none_or(|shares| shares.iter().any(|known| known == share))
    }
}

impl std::fmt::Debug for SharesOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharesOf")
    }
}
