//! The guarantees of a cluster besides messages and clients: retained messages, wills, session expiry, one shared configuration.

mod configuration;
mod faults;
mod own;
mod peer_commands;
mod retained;
mod sessions;
mod tally;

pub(crate) use configuration::{Configurations, list_of, parts_of};
pub(crate) use faults::settings;
pub(crate) use own::OperatorPublishes;
pub(crate) use peer_commands::PeerCommands;
pub(crate) use retained::{Floor, Mirrored, Retaining};
pub(crate) use sessions::Sessions;
pub(crate) use tally::Tally;
