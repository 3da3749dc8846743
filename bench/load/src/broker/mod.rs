//! Brokers under measurement: started fresh, placed, read from `/proc`, stopped.

mod kind;
mod launch;
mod process;

pub(crate) use kind::{BrokerKind, Programs, repository_root, versions_of_tools};
pub(crate) use process::{Broker, Helper, become_program};
