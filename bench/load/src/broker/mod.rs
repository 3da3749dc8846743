//! The brokers to measure: started, placed, read from `/proc`, and stopped.

mod cluster;
mod instance;
mod kind;
mod launch;
mod process;
mod readiness;

pub(crate) use cluster::{Cluster, Member};
pub(crate) use instance::Broker;
pub(crate) use kind::{BrokerKind, Programs, repository_root, versions_of_tools};
pub(crate) use process::{Helper, RunningProcess, become_program, command_killed_with_parent};
