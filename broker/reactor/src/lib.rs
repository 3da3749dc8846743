//! The threads of the broker. Each runs one [`tautwire_engine::Shard`]: it makes turns by [`tautwire_engine::turn()`], and sleeps when
//! the turn says that it may.
//!
//! `worker` is the loop; `host` is what a turn finds around its shard: the `connections`, the `door` by which they come, the
//! `ways` to other threads, and the `inbox` for what comes from outside. There is no async runtime and no lock on the path of
//! messages. A connection costs a slot in a table; it has buffers only while bytes of it are incomplete or unsent.

#![deny(unsafe_code)]

mod alarm;
mod arrivals;
mod bell;
mod broker;
mod clock;
mod cluster;
mod cold;
mod connections;
mod count;
mod data;
mod descriptors;
mod door;
mod doorkeeper;
mod gate;
mod host;
mod inbox;
mod listener;
mod local;
mod loss;
mod memory;
mod promises;
mod retained;
mod roster;
mod rush;
mod surveys;
mod tap;
mod ticker;
mod turnover;
mod ways;
mod worker;

pub use arrivals::{ArrivalLimits, ConnectRate, RATED_ADDRESSES_MAX};
pub use broker::{Broker, Change, Control, Entrance, StartError, TAKEN_ON_MAX};
pub use cluster::{ClusterMail, ClusterSeat, ClusterThread};
pub use count::counted;
pub use data::{DataDirectory, DataError, DataLock, DataState};
pub use doorkeeper::{Doorkeeper, Ticket};
pub use gate::ListenerState;
pub use inbox::PublishError;
pub use listener::{Listen, Place, ProxyRequirements};
pub use memory::{forget_code, keep_large_apart};
pub use roster::NextListeners;
pub use surveys::{AskError, Asker, Patience};
pub use tap::Watching;
pub use tautwire_journal::OnDamage;
pub use tautwire_message::Durations;
