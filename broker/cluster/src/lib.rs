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
mod groups;
pub mod interest;
mod lanes;
mod lease;
mod member;
pub mod mutant;
pub mod names;
mod nodes;
mod operation;
mod orders;
mod outbox;
mod peer_message;
mod queue;
pub mod record;
mod retained;
mod sessions;
mod settings;
mod status;
pub mod subject;
mod sweep;
mod wills;

pub use config::ConfigStatus;
pub use groups::PatrolStatus;
pub use lanes::LaneStatus;
pub use member::{Full, Member, Own, Publish, TICK_MS};
pub use nodes::{NodeStanding, NodeStatus};
pub use operation::{
    Answer, Decision, Elsewhere, Kept, Operation, OperationId, Output, Proposal, RETAINED_BATCH_MAX,
    RETAINED_BATCH_MAX_BYTES, Refusal, RetainedChange, Revision, Scanned, ScannedGroup, Sequence, Start,
};
pub use orders::OrderOutcome;
pub use peer_message::{PeerMessage, PeerMessageKind};
pub use retained::MirrorStatus;
pub use sessions::SessionsStatus;
pub use settings::{Settings, SharesOf};
pub use status::{Counters, Status};
pub use sweep::SweepStatus;
pub use wills::Terms;
