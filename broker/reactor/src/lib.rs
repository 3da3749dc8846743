//! The threads of the broker. Each runs one [`tautwire_engine::Shard`]: it executes turns with [`tautwire_engine::turn()`], and sleeps when
//! a turn allows it.
//!
//! `worker` is the loop; `reactor_io` is the I/O of a turn: the `connections`, the `acceptor` that accepts them, the `shard_channels` to
//! other threads, and the `inbox` for commands from outside. There is no async runtime and no lock on the message path. A connection costs
//! a slot in a table; it has buffers only while it has incomplete input or unsent output.

#![deny(unsafe_code)]

mod accept_burst;
mod accept_limiter;
mod accept_rate;
mod accepted_connection;
mod acceptor;
mod admin_queries;
mod authenticator;
mod broker;
mod churn_budget;
mod clock;
mod cluster;
mod connections;
mod control;
mod count;
mod data;
mod data_loss;
mod deadline_timer;
mod descriptors;
mod heap;
mod inbox;
mod listener;
mod listener_config;
mod listener_set;
mod local;
mod pending_publishes;
mod reactor_io;
mod retained;
mod shard_channels;
mod short_timer;
mod spill;
mod start_error;
mod tap;
mod waker;
mod worker;

pub use accept_limiter::ListenerState;
pub use accept_rate::{AcceptLimits, ConnectRate, TRACKED_ADDRESSES_MAX};
pub use admin_queries::{QueryClient, QueryDeadline, QueryError};
pub use authenticator::{AuthResponder, Authenticator};
pub use broker::{AcceptOptions, Broker};
pub use cluster::{ClusterOptions, ClusterSender, ClusterThread};
pub use control::{CONFIG_APPLY_TIMEOUT, ConfigChange, Control};
pub use count::counted;
pub use data::{DataDirectory, DataError, DataLock, DataState};
pub use heap::{release_code_pages, set_mmap_threshold};
pub use inbox::PublishError;
pub use listener_config::{ListenAddress, ListenerConfig, ProxyRequirements};
pub use listener_set::PreparedListeners;
pub use start_error::StartError;
pub use tap::TapGuard;
pub use tautwire_journal::OnDamage;
pub use tautwire_message::Durations;
