//! The state of Mosquitto, as it stands in `mosquitto.db`, made into ours.
//!
//! [`Database::read`] takes the file apart; [`import_database`] makes sessions and retained messages of it, and a [`Report`] of what stays behind.
//! There is no I/O. The format is described in `docs/internals/mosquitto-db.md`.

#![forbid(unsafe_code)]

mod chunk;
mod database;
mod error;
mod importer;
mod messages;
mod report;
mod unreleased;

pub use database::{Client, Database, Delivery, Direction, State, StoredMessage, Subscription, is_database, is_sqlite};
pub use error::{DatabaseError, Fault};
pub use importer::{Import, ImportTime, MountPoints, import_database};
pub use report::{Reason, Report};
