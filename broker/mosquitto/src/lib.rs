//! Imports the state of Mosquitto from `mosquitto.db`.
//!
//! [`Database::read`] parses the file; [`import_database`] converts it to sessions and retained messages, and gives a [`Report`] of what
//! was skipped. There is no I/O. The format is described in `docs/internals/mosquitto-db.md`.

#![forbid(unsafe_code)]

mod chunk;
mod database;
mod error;
mod imported_state;
mod importer;
mod messages;
mod report;
mod unreleased;

pub use database::{Client, Database, Delivery, Direction, State, StoredMessage, Subscription, is_database, is_sqlite};
pub use error::{DatabaseError, Fault};
pub use importer::{BridgeSessions, Import, ImportTime, MountPoints, import_database};
pub use report::{Reason, Report};
