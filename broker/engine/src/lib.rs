//! One shard of the broker as a machine without I/O: bytes and time go in, bytes and wishes come out.
//!
//! [`Shard`] is the whole of it, and [`turn`](turn()) drives it. A reactor does so with sockets, a fuzzer or a test without. The
//! connections of a shard and their sessions belong to it alone, so nothing of them is locked; what shards must agree on is in
//! [`tautwire_router::Exchange`] and [`Board`].

#![forbid(unsafe_code)]

mod access;
mod account;
mod ack;
mod acknowledge;
mod admission;
mod ahead;
mod audit;
mod change;
mod cold;
mod connections;
mod contracts;
mod counters;
mod deliver;
mod discovery;
mod drops;
mod ending;
mod fan_out;
mod formats;
mod frames;
mod handshake;
mod holding_back;
mod hub;
mod incoming;
mod jobs;
mod lifecycle;
mod log_state;
mod mount;
pub mod mutant;
mod operator;
mod origin;
mod pacing;
mod partial;
mod place;
mod quotas;
mod regime;
mod restore;
mod route;
mod scans;
mod sessions;
mod settings;
mod shard;
mod shared;
mod subscribe;
mod survey;
mod sys;
mod terms;
mod throttle;
mod transit;
mod turn;
mod waiting;
mod wheel;
mod written;

pub use access::{Fate, Known, Visitor};
pub use connections::{Attempt, Chunk, Output, Question, Standing, State, Verdict};
pub use counters::{Counter, Counters, Totals};
pub use drops::{DropEvent, DropReason};
pub use hub::Action;
pub use mount::MountPoint;
pub use operator::{NotPublished, Promise, PromiseFate, Publication, Published};
pub use origin::{Certificate, Entry, Offer, Origin, Peer};
pub use place::ConnectionId;
pub use regime::{Board, Regime};
pub use restore::{RestoreError, restore};
pub use settings::{Acks, Settings, SlowConsumer};
pub use shard::Shard;
pub use shared::Shared;
pub use survey::{
    ClientDetail, ClientOrder, ClientSummary, ClientsPage, ClientsQuery, ConnectionSummary, Explained, Finding,
    Outcome, PAGE_MAX, Rank, Reply, SubscriptionList, Survey, WhyQuery,
};
pub use turn::{Rest, Surroundings, turn};
