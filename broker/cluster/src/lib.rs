//! Cluster logic: the decisions of a node, and the names and record formats that all nodes share. `docs/internals/cluster-format.md`
//! describes the formats, and `docs/decisions/0032-cluster.md` explains the design.
//!
//! [`Member`] is a deterministic state machine without I/O. It receives the time, answers of the store and requests of the engine; it
//! returns operations for the store and decisions for the engine. It is independent of the store, which is a key-value store with revisions
//! and a log that knows the last message of each subject. In addition, each shard of the engine has [`Receivers`](delivery::Receivers),
//! which track the positions of its sessions in the log: `docs/internals/cluster-delivery.md`.

#![forbid(unsafe_code)]

mod bytes;
mod config;
pub mod delivery;
mod drain;
mod garbage;
mod groups;
pub mod interest;
mod lease;
mod member;
pub mod mutant;
pub mod names;
mod nodes;
mod numbers;
mod operation;
mod outbox;
mod peer_commands;
mod peer_message;
mod producers;
mod queue;
pub mod record;
mod retained;
mod sessions;
mod settings;
mod status;
pub mod subject;
mod wills;

pub use config::ConfigStatus;
pub use garbage::GarbageCollectorStatus;
pub use groups::HealthCheckStatus;
pub use member::{Full, Member, OperatorPublish, Publish, TICK_MS};
pub use nodes::{NodeHealth, NodeStatus};
pub use numbers::{Revision, Sequence};
pub use operation::{
    Answer, Decision, Elsewhere, Operation, OperationId, Output, PeerCommandOutcome, ProposalOutcome,
    RETAINED_BATCH_MAX, RETAINED_BATCH_MAX_BYTES, Refusal, RetainedChange, RetainedEntry, Scanned, ScannedGroup, Start,
};
pub use peer_message::{PeerMessage, PeerMessageKind};
pub use producers::ProducerStatus;
pub use retained::MirrorStatus;
pub use sessions::SessionsStatus;
pub use settings::{Settings, SharesOf};
pub use status::{Counters, Status};
pub use wills::DisconnectSettings;
