//! Times and limits of a node.

/// The settings of a node. All nodes of a cluster have the same times.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The interval of heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
    /// How long a node serves its clients after it has sent the last confirmed heartbeat, in milliseconds.
    pub lease_ms: u64,
    /// How much longer other nodes wait before they remove it, in milliseconds, to allow for clock drift.
    pub margin_ms: u64,
    /// How long a client waits for its session before it is rejected, in milliseconds.
    pub claim_timeout_ms: u64,
    /// The delay before an unanswered request is repeated, in milliseconds.
    pub retry_ms: u64,
    /// How long a round waits at most until the other nodes know this node's interest, in milliseconds. A request during a round also waits
    /// for the next round.
    pub interest_sync_timeout_ms: u64,
    /// The limit of concurrent claims.
    pub claims_max: usize,
    /// The size limit of a group in bytes.
    pub group_max_bytes: usize,
    /// The limit of messages in a group.
    pub group_messages_max: usize,
    /// The bytes that may wait in one partition while a group is in flight. Above the limit, messages are returned to the caller.
    pub waiting_max_bytes: usize,
    /// The number of shards of this node, each of which receives the arriving groups.
    pub shards: usize,
    /// The bytes per read of the log, which has at least one group.
    pub read_max_bytes: usize,
    /// The bytes of one partition that have arrived and were not processed by all shards. Above the limit, no more are requested.
    pub in_flight_max_bytes: usize,
    /// The bytes of groups that are cached for slightly lagging sessions.
    pub cache_max_bytes: usize,
    /// The limit of concurrent reads for lagging sessions. Further ones wait.
    pub reads_max: usize,
    /// How long a message waits to be sent before it is refused, in milliseconds.
    pub publish_timeout_ms: u64,
    /// The Server Reference for clients of this node; empty if there is none.
    pub reference: String,
    /// The bytes of messages that may wait to be retained. Above the limit, messages with RETAIN are returned to the caller.
    pub retaining_max_bytes: usize,
    /// How long the store keeps a retained record at least, in seconds, even if it has expired or the topic was cleared. Its log position
    /// is known for that time, so that nothing older can be written after it. Longer than any write may be in flight.
    pub retained_floor_s: u32,
    /// Retained messages per read from the store.
    pub mirror_page: usize,
    /// How much longer than its expiry interval a session is kept, in seconds, to allow for clock differences of the store's servers.
    pub expiry_margin_s: u32,
    /// Session records per read.
    pub scan_page: usize,
    /// Sessions that are freed concurrently after the death of their node.
    pub collections_max: usize,
    /// How long a node leaves the shares of other nodes to them, in milliseconds.
    pub share_ms: u64,
    /// The interval of garbage collection of all sessions, in milliseconds.
    pub collection_interval_ms: u64,
    /// The interval of checking all groups of shared subscriptions for members with ended sessions, in milliseconds.
    pub group_check_interval_ms: u64,
    /// The members whose sessions are checked in one such pass. The next pass continues after them.
    pub group_check_members_max: usize,
    /// The time after which a missing record must still be missing to count as deleted, in milliseconds: longer than a server of the store
    /// may answer as a leader after it has lost its quorum.
    pub confirm_gone_ms: u64,
    /// How long the record of a group without members is kept, in seconds: longer than any write of it may be in flight.
    pub empty_group_s: u32,
    /// Extracts the shared subscriptions from a session's state.
    pub shares_of: SharesOf,
    /// The limit of sessions that migrate to other nodes concurrently.
    pub migrations_max: usize,
    /// How long a command to another node is repeated, in milliseconds.
    pub command_timeout_ms: u64,
    /// The interval of reading the shared configuration, even without a reported change, in milliseconds.
    pub config_poll_ms: u64,
    /// The size limit of a revision of the shared configuration, in bytes.
    pub config_max_bytes: usize,
}

// The intervals of background checks are not configurable: they find leftovers of nodes that have died at the wrong moment, for which no
// one waits. Shorter intervals would permanently cost the store reads.

/// A pass reads all sessions on each node. It finds wills without an owner, which need an owner that gave up and a claim that never came.
const COLLECTION_INTERVAL_MS: u64 = 600_000;
/// Until then, a member with an ended session only keeps its group's position in the log.
const GROUP_CHECK_INTERVAL_MS: u64 = 120_000;
/// Three times as long as a leader without a quorum may take to notice that, which is 10 s.
const CONFIRM_GONE_MS: u64 = 30_000;
/// As long as a cleared topic keeps its position: no write is in flight for so long.
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

/// Returns the shared subscriptions, `$share/name/filter`, in the session state that the engine has encoded; `None` if it cannot decode the
/// state.
#[derive(Clone, Copy)]
pub struct SharesOf(pub fn(&[u8]) -> Option<Vec<String>>);

impl SharesOf {
    /// Returns the shared subscriptions of an ended session. An unreadable state yields none, although it may have some.
    pub(crate) fn named(self, state: &[u8]) -> Vec<String> {
        if state.is_empty() { Vec::new() } else { (self.0)(state).unwrap_or_default() }
    }

    /// Whether a session may have this shared subscription.
    pub(crate) fn may_have(self, state: &[u8], share: &str) -> bool {
        // A record without state does not represent a session.
        !state.is_empty() && (self.0)(state).is_none_or(|shares| shares.iter().any(|known| known == share))
    }
}

impl std::fmt::Debug for SharesOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharesOf")
    }
}
