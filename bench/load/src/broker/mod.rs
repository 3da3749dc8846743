//! Brokers under measurement: started fresh, placed, read from `/proc`, stopped.

mod cluster;
mod kind;
mod launch;
mod process;

pub(crate) use cluster::{Cluster, Member};
pub(crate) use kind::{BrokerKind, Programs, repository_root, versions_of_tools};
pub(crate) use process::{Broker, Helper, RunningProcess, become_program, dying_with_us};
