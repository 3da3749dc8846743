//! Brokers under measurement: started fresh, placed, read from `/proc`, stopped.

mod kind;
mod process;

pub(crate) use kind::{BrokerKind, Programs, repository_root};
pub(crate) use process::{Broker, Helper, become_program};
