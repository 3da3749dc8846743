//! One shard of the broker as a machine without I/O: bytes and time go in, bytes and actions come out.
//!
//! [`Shard`] is the whole of it, and [`turn`](turn()) drives it. A reactor does so with sockets, a fuzzer or a test without. The
//! connections of a shard and their sessions belong to it alone, so nothing of them is locked; what shards must agree on is in
//! [`tautwire_router::Exchange`] and [`ConfigCell`].

#![forbid(unsafe_code)]

mod access;
mod ack;
mod admin_query;
mod apply_settings;
mod audit;
mod auth_progress;
mod authentication;
mod capacity;
mod clock;
mod config;
mod connect;
mod connect_refusal;
mod connections;
mod contracts;
mod counters;
mod current_config;
mod deliver;
mod discovery;
mod drops;
mod fan_out;
mod flapping_block;
mod incoming;
mod incoming_acks;
mod index;
mod io;
mod jobs;
mod journal_writer;
mod latency;
mod lifecycle;
mod log_state;
mod memory_budget;
mod message_loss;
mod metered;
mod mode;
mod mount;
pub mod mutant;
mod operator;
mod origin;
mod packet_copies;
mod partial_packet;
mod paused_readers;
mod publish_packets;
mod publish_range;
mod queue_capacity;
mod quota_state;
mod quotas;
mod rate_limit;
mod read_ahead;
mod refusal;
mod restore;
mod retained_publisher;
mod route;
mod scans;
mod send_acks;
mod server_limits;
mod session_cleanup;
mod sessions;
mod settings;
mod shard;
mod shard_context;
mod shard_outbox;
mod share_delivery;
mod share_queue;
mod shared;
mod slow_consumer;
mod spill;
mod subscribe;
mod sys;
mod tap;
mod text;
mod throttle;
mod throttled;
mod timer_wheel;
mod trace;
mod trace_parent;
mod transcoding;
mod transcoding_budget;
mod turn;
mod violations;
mod work_budget;

pub use access::{ClientCheck, ClientInfo, RecheckOutcome};
pub use admin_query::{
    AdminQuery, ClientDetail, ClientOrder, ClientSummary, ClientsPage, ClientsQuery, ConnectionSummary,
    DeliveryOutcome, Explanation, FetchedMessage, OtherTurns, PAGE_MAX, QueryResult, QueueLimit, Rank, RemovalResult,
    Reply, RetainedPage, RetainedQuery, SubscriptionList, TopicLevel, TopicLevels, TopicsQuery, WhyQuery,
};
pub use auth_progress::AuthProgress;
pub use config::{ConfigCell, ConfigSnapshot};
pub use connections::{Action, AuthAttempt, AuthDecision, AuthRequest, AuthState, ChallengeState, Chunk, Output};
pub use counters::{Counter, Counters, Totals};
pub use drops::{DropEvent, DropReason};
pub use index::{ConnectionId, reserved_slots};
pub use io::{Io, NextTurn};
pub use latency::{Latencies, LatencyCounts};
pub use metered::{METERED_FILTERS_MAX, TopicTotals};
pub use mode::cluster::{
    ClusterEvent, ClusterRequest, ClusterSettings, RetainInfo, RetainedChange, home_of, messages_of, shares_of,
};
pub use mode::{Clustered, Mode, Volatile};
pub use mount::MountPoint;
pub use operator::{ConfirmStatus, Publication, PublishConfirm, PublishFailure, Published};
pub use origin::{Certificate, ConnectionListener, ConnectionOrigin, ListenerOverrides, Peer, ProtocolVersions};
pub use refusal::{HypotheticalPublish, PublishDecision, PublishRefusal};
pub use restore::{RestoreError, restore};
pub use settings::{Acks, SESSION_QUEUE_BYTES, Settings};
pub use shard::Shard;
pub use shared::Shared;
pub use slow_consumer::{SlowConsumer, SlowConsumers};
pub use tap::{Tap, TappedMessage};
pub use trace::{Span, SpanSink, Step, Tracer};
pub use turn::turn;
pub use violations::{ContractViolations, ViolationReport, ViolationSample};
