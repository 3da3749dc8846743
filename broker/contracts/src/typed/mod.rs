//! Messages of a Protobuf schema in JSON and MessagePack: checked, and passed to a writer.

pub(crate) mod base64;
mod number;
pub(crate) mod time;
mod walk;
mod well_known;

pub(crate) use walk::walk;
pub(crate) use well_known::{camel_case, round_trips_camel_case};
