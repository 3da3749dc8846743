//! Contracts: schemas for the payloads of topics, checked by the broker.
#![forbid(unsafe_code)]

mod catalogue;
pub mod compare;
mod contract;
pub mod discovery;
mod field_binding;
mod json;
mod level_value;
mod load;
mod messagepack;
mod payload_types;
mod plan;
mod protobuf;
mod schema;
mod sink;
mod source;
mod topic_pattern;
mod typed;
mod untyped;
mod violation;

pub use catalogue::Catalogue;
pub use contract::{Contract, OnViolation, Schema, Unacknowledged};
pub use load::{ErrorCode, Files, LoadError, LoadLimits, MANAGED, MANIFEST};
pub use payload_types::DEPTH_MAX;
pub use plan::{Plan, PlanError, PlanLimits};
pub use tautwire_message::Format;
pub use topic_pattern::{TopicPattern, TopicPatternError};
pub use violation::{Rule, Violation};
