//! Compiles the definition of a contract.

use super::draft::Draft;
use super::error::{ErrorCode, LoadError, SourcePosition};
use super::folder::LoadLimits;
use super::schemas::Schemas;
use std::sync::Arc;

use crate::contract::{Contract, Schema};
use crate::field_binding::FieldBinding;
use crate::payload_types::Types;
use crate::plan::Plan;
use crate::topic_pattern::TopicPattern;
use tautwire_message::Format;

/// Names are used in topic levels, file names and generated code.
const NAME_MAX_BYTES: usize = 64;

pub(super) fn make(draft: &Draft, schemas: &Schemas, limits: &LoadLimits) -> Result<Contract, LoadError> {
    let at = |place: &Option<SourcePosition>| place.clone().unwrap_or_else(|| draft.place.clone());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if draft.name.len() > NAME_MAX_BYTES || !draft.name.bytes().all(is_name) {
        let message = format!("name must have only letters, digits, _ and -, at most {NAME_MAX_BYTES}");
        return Err(LoadError::at(ErrorCode::Value, draft.place.clone(), message));
    }
    let topics = TopicPattern::new(&draft.topics)
        .map_err(|error| LoadError::at(ErrorCode::Value, at(&draft.topics_position), format!("topics: {error}")))?;
    let (schema, types) = types(draft, schemas, limits, &at(&draft.schema_place))?;
    let field_binding = |(level, field): &(String, String)| {
        if !topics.names().any(|name| name == level) {
            return Err(format!("topics has no level {{{level}}}"));
        }
        FieldBinding::new(&types, level, field)
    };
    let topic_fields = draft.topic_fields.iter().map(field_binding).collect::<Result<Vec<_>, _>>();
    let topic_fields = topic_fields
        .map_err(|why| LoadError::at(ErrorCode::Value, draft.place.clone(), format!("topic_fields: {why}")))?;
    Ok(Contract {
        name: draft.name.as_str().into(),
        topics,
        formats: draft.formats.clone().into_boxed_slice(),
        schema,
        types,
        on_violation: draft.on_violation,
        unacknowledged: draft.unacknowledged,
        unknown_fields_refused: draft.unknown_fields_refused,
        topic_fields: topic_fields.into_boxed_slice(),
    })
}

/// The types of the payloads, and their schema.
fn types(
    draft: &Draft,
    schemas: &Schemas,
    limits: &LoadLimits,
    place: &SourcePosition,
) -> Result<(Arc<Schema>, Types), LoadError> {
    let wrong = |why: String| LoadError::at(ErrorCode::Schema, place.clone(), why);
    if draft.schema.ends_with(".json") {
        if draft.message.is_some() {
            return Err(wrong("message is for .proto files; a JSON Schema is one type".to_owned()));
        }
        if draft.formats.contains(&Format::Protobuf) {
            return Err(wrong("protobuf cannot represent a JSON Schema; list json or messagepack".to_owned()));
        }
        let (schema, plan) = schemas.json_schema(&draft.schema, place, limits)?;
        return Ok((schema, Types::Schema(plan)));
    }
    let (schema, root) = schemas.message(&draft.schema, draft.message.as_deref(), place)?;
    let plan = Plan::new(&root, &limits.plan).map_err(|error| wrong(error.to_string()))?;
    if let Some(other) = draft.formats.iter().find(|format| **format != Format::Protobuf)
        && !plan.can_transcode()
    {
        return Err(wrong(format!("{} cannot represent google.protobuf.Any; list only protobuf", other.name())));
    }
    Ok((schema, Types::Message(plan)))
}
