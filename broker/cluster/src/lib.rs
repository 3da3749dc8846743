//! Several brokers as one: what one of them decides, and the names and bytes that they share. `docs/internals/cluster-format.md` describes
//! the bytes, and `docs/decisions/0032-cluster.md` says why things are as they are.
//!
//! [`Member`] is a machine without I/O. It is told the time, what the store has answered and what the engine asks for; it gives operations
//! for the store and decisions for the engine. The same calls give the same results. It knows no type of the store that holds the cluster's
//! state: a key-value store with revisions, and a log with the last message of each subject. Beside it, each shard of the engine has
//! [`Receivers`](delivery::Receivers), which know how far its sessions have come in the log: `docs/internals/cluster-delivery.md`.

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
pub use operation::{
    Answer, Decision, Elsewhere, Operation, OperationId, Output, ProposalOutcome, RETAINED_BATCH_MAX,
    RETAINED_BATCH_MAX_BYTES, Refusal, RetainedChange, RetainedEntry, Revision, Scanned, ScannedGroup, Sequence, Start,
};
pub use peer_commands::PeerCommandOutcome;
pub use peer_message::{PeerMessage, PeerMessageKind};
pub use producers::ProducerStatus;
pub use retained::MirrorStatus;
pub use sessions::SessionsStatus;
pub use settings::{Settings, SharesOf};
pub use status::{Counters, Status};
pub use wills::DisconnectSettings;
