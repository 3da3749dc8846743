//! One shard of the broker as a machine without I/O: bytes and time go in, bytes and wishes come out.
//!
//! [`Shard`] is the whole of it, and [`turn`](turn()) drives it. A reactor does so with sockets, a fuzzer or a test without. The
//! connections of a shard and their sessions belong to it alone, so nothing of them is locked; what shards must agree on is in
//! [`tautwire_router::Exchange`] and [`Board`].

#![forbid(unsafe_code)]

mod access;
mod ack;
mod apply_settings;
mod audit;
mod auth_progress;
mod authentication;
mod capacity;
mod clock;
mod cluster;
mod cold;
mod connect;
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
mod jobs;
mod lifecycle;
mod log_state;
mod logbook;
mod lost;
mod memory_budget;
mod metered;
mod mount;
pub mod mutant;
mod operator;
mod origin;
mod pacing;
mod packet_copies;
mod partial;
mod place;
mod publish_packets;
mod queue_room;
mod quota_state;
mod quotas;
mod read_ahead;
mod refusal;
mod regime;
mod restore;
mod retained_publisher;
mod route;
mod scans;
mod send_acks;
mod session_cleanup;
mod sessions;
mod settings;
mod shard;
mod shard_context;
mod share_delivery;
mod share_queue;
mod shared;
mod slow_consumer;
mod state;
mod stopwatch;
mod subscribe;
mod survey;
mod sys;
mod tap;
mod terms;
mod text;
mod throttle;
mod throttled;
mod trace;
mod trace_parent;
mod transcoding;
mod transcoding_budget;
mod transit;
mod turn;
mod violations;
mod waiting;
mod wheel;
mod work_budget;
mod written;

pub use access::{ClientCheck, ClientInfo, RecheckOutcome};
pub use auth_progress::AuthProgress;
pub use cluster::{
    ClusterEvent, ClusterRequest, ClusterSettings, RetainedChange, Retaining, home_of, messages_of, shares_of,
};
pub use connections::{Action, AuthAttempt, AuthDecision, AuthRequest, AuthState, ChallengeState, Chunk, Output};
pub use counters::{Counter, Counters, Totals};
pub use drops::{DropEvent, DropReason};
pub use metered::{METERED_FILTERS_MAX, TopicTotals};
pub use mount::MountPoint;
pub use operator::{NotPublished, Promise, PromiseFate, Publication, Published};
pub use origin::{Certificate, Entry, Offer, Origin, Peer, ProtocolVersions};
pub use place::{ConnectionId, reserved_places};
pub use refusal::{Hypothesis, Judged, PublishRefusal};
pub use regime::{Board, Regime};
pub use restore::{RestoreError, restore};
pub use settings::{Acks, SESSION_QUEUE_BYTES, Settings};
pub use shard::Shard;
pub use shared::Shared;
pub use slow_consumer::{SlowConsumer, SlowConsumers};
pub use stopwatch::{Latencies, LatencyCounts};
pub use survey::{
    ClientDetail, ClientOrder, ClientSummary, ClientsPage, ClientsQuery, ConnectionSummary, Explained, Fetched,
    Finding, OtherTurns, Outcome, PAGE_MAX, QueueLimit, Rank, Removed, Reply, RetainedPage, RetainedQuery,
    SubscriptionList, Survey, TopicLevel, TopicLevels, TopicsQuery, WhyQuery,
};
pub use tap::{Tap, Tapped};
pub use trace::{Span, SpanSink, Step, Tracer};
pub use turn::{Rest, Surroundings, turn};
pub use violations::{ContractViolations, ViolationBook, ViolationSample};
