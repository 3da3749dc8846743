//! The definition of a contract.

use tautwire_message::Format;

use super::error::SourcePosition;
use crate::contract::{OnViolation, Unacknowledged};

/// The definition of a contract, not yet validated.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) place: SourcePosition,
    pub(super) name: String,
    pub(super) topics: String,
    pub(super) topics_position: Option<SourcePosition>,
    pub(super) formats: Vec<Format>,
    pub(super) schema: String,
    pub(super) schema_place: Option<SourcePosition>,
    pub(super) message: Option<String>,
    pub(super) on_violation: OnViolation,
    pub(super) unacknowledged: Unacknowledged,
    pub(super) unknown_fields_refused: bool,
    /// Levels and fields.
    pub(super) topic_fields: Vec<(String, String)>,
}

impl Draft {
    pub(super) fn new(place: SourcePosition) -> Draft {
        Draft {
            place,
            name: String::new(),
            topics: String::new(),
            topics_position: None,
            formats: Vec::new(),
            schema: String::new(),
            schema_place: None,
            message: None,
            on_violation: OnViolation::default(),
            unacknowledged: Unacknowledged::Drop,
            unknown_fields_refused: false,
            topic_fields: Vec::new(),
        }
    }
}
