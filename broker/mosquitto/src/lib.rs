//! The state of Mosquitto, as it stands in `mosquitto.db`, made into ours.
//!
//! [`Database::read`] takes the file apart; [`take_over`] makes sessions and retained messages of it, and a [`Report`] of what stays behind.
//! There is no I/O. The format is described in `docs/internals/mosquitto-db.md`.

#![forbid(unsafe_code)]

mod chunk;
mod database;
mod error;
mod messages;
mod report;
mod takeover;
mod unreleased;

pub use database::{Client, Database, Delivery, Direction, State, StoredMessage, Subscription, is_database, is_sqlite};
pub use error::{DatabaseError, Fault};
pub use report::{Reason, Report};
pub use takeover::{Moment, MountPoints, TakenOver, take_over};
