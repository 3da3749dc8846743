//! One shard of the broker, without I/O: bytes and the time go in, bytes and actions come out.
//!
//! A [`Shard`] is driven by [`turn`](turn()): by a reactor with sockets, or by a fuzzer or a test without. A shard owns its connections and
//! their sessions, so they need no locks. State that shards share is in [`tautwire_router::Exchange`] and [`ConfigCell`].

#![forbid(unsafe_code)]

mod access;
mod connection;
mod counters;
mod index;
mod mode;
pub mod mutant;
mod operations;
mod routing;
mod scheduling;
mod session;
mod settings;
mod shard;
mod shard_context;
mod shared;
mod storage;
mod text;

pub use access::{ClientCheck, ClientInfo, RecheckOutcome};
pub use connection::auth_progress::AuthProgress;
pub use connection::connections::{
    Action, AuthAttempt, AuthDecision, AuthRequest, AuthState, ChallengeState, Chunk, Output,
};
pub use connection::mount::MountPoint;
pub use connection::origin::{
    Certificate, ConnectionListener, ConnectionOrigin, ListenerOverrides, Peer, ProtocolVersions,
};
pub use counters::{Counter, Counters, Totals};
pub use index::{ConnectionId, reserved_slots};
pub use mode::cluster::{
    ClusterEvent, ClusterRequest, ClusterSettings, RetainInfo, RetainedChange, home_of, messages_of, shares_of,
};
pub use mode::{Clustered, Mode, Volatile};
pub use operations::admin_query::{
    AdminQuery, ClientDetail, ClientOrder, ClientSummary, ClientsPage, ClientsQuery, ConnectionSummary,
    DeliveryOutcome, Explanation, FetchedMessage, OtherDispatches, PAGE_MAX, QueryResult, QueueLimit, Rank,
    RemovalResult, Reply, RetainedPage, RetainedQuery, SubscriptionList, TopicLevel, TopicLevels, TopicsQuery,
    WhyQuery,
};
pub use operations::latency::{Latencies, LatencyCounts};
pub use operations::operator::{ConfirmStatus, Publication, PublishConfirm, PublishFailure, PublishReceipt};
pub use operations::refusal::{HypotheticalPublish, PublishDecision, PublishRefusal};
pub use operations::tap::{Tap, TappedMessage};
pub use operations::trace::{Span, SpanSink, Step, Tracer};
pub use operations::violations::{ContractViolations, ViolationReport, ViolationSample};
pub use routing::metered::{METERED_FILTERS_MAX, TopicTotals};
pub use scheduling::io::{Io, NextTurn};
pub use scheduling::turn::turn;
pub use session::drops::{DropEvent, DropReason};
pub use session::restore::{RestoreError, restore};
pub use session::slow_consumer::{SlowConsumer, SlowConsumers};
pub use settings::config::{ConfigCell, ConfigSnapshot};
pub use settings::values::{Acks, SESSION_QUEUE_BYTES, Settings};
pub use shard::Shard;
pub use shared::Shared;
