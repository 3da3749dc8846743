//! The types of payloads.

use crate::plan::Plan;
use crate::schema::SchemaPlan;

/// Maximum nesting of payloads, which bounds the recursion.
pub const DEPTH_MAX: u16 = 100;

/// The types of a contract's payloads.
#[derive(Debug)]
pub(crate) enum Types {
    /// A message of a Protobuf schema.
    Message(Plan),
    /// A JSON Schema.
    Schema(SchemaPlan),
}
