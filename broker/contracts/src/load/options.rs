//! Contracts in a `.proto` file, as options of its messages.

use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, MessageDescriptor, Value};

use super::draft::Draft;
use super::error::{ErrorCode, LoadError, SourcePosition};
use crate::contract::{OnViolation, Unacknowledged};
use tautwire_message::Format;

/// The file to import, and its text.
pub(super) const FILE: &str = "tautwire/contract.proto";
pub(super) const TEXT: &str = include_str!("contract.proto");
const EXTENSION: &str = "tautwire.contract";

/// The contracts in the options of the messages of `file`.
pub(super) fn drafts(pool: &DescriptorPool, file: &str) -> Result<Vec<Draft>, LoadError> {
    let Some(extension) = pool.get_extension_by_name(EXTENSION) else { return Ok(Vec::new()) };
    let mut drafts = Vec::new();
    for message in pool.all_messages().filter(|message| message.parent_file().name() == file) {
        let options = message.options();
        if !options.has_extension(&extension) {
            continue;
        }
        if let Value::Message(contract) = &*options.get_extension(&extension) {
            drafts.push(draft(file, &message, contract)?);
        }
    }
    Ok(drafts)
}

fn draft(file: &str, message: &MessageDescriptor, contract: &DynamicMessage) -> Result<Draft, LoadError> {
    let place = SourcePosition { file: file.to_owned(), position: None };
    let wrong = |what: &str| {
        let text = format!("option ({EXTENSION}) of {}: {what}", message.full_name());
        LoadError::at(ErrorCode::Value, place.clone(), text)
    };
    let mut draft = Draft::new(place.clone());
    draft.schema = file.to_owned();
    draft.message = Some(message.full_name().to_owned());
    draft.name = text(contract, "name").unwrap_or_else(|| message.name().to_ascii_lowercase());
    draft.topics = text(contract, "topics").ok_or_else(|| wrong("topics is missing"))?;
    if let Some(name) = text(contract, "on_violation") {
        let found = OnViolation::ALL.into_iter().find(|(known, _)| *known == name);
        draft.on_violation =
            found.ok_or_else(|| wrong("on_violation must be one of observe, reject, quarantine, disconnect"))?.1;
    }
    draft.unacknowledged = match text(contract, "unacknowledged").as_deref() {
        None | Some("drop") => Unacknowledged::Drop,
        Some("disconnect") => Unacknowledged::Disconnect,
        Some(_) => return Err(wrong("unacknowledged must be one of drop, disconnect")),
    };
    draft.unknown_fields_refused = match text(contract, "unknown_fields").as_deref() {
        None | Some("allow") => false,
        Some("reject") => true,
        Some(_) => return Err(wrong("unknown_fields must be one of allow, reject")),
    };
    if let Some(Value::List(names)) = contract.get_field_by_name("format").as_deref() {
        for name in names {
            let format = name.as_str().and_then(Format::named);
            draft.formats.push(format.ok_or_else(|| wrong("format must be one of protobuf, messagepack, json"))?);
        }
    }
    if draft.formats.is_empty() {
        draft.formats.push(Format::Protobuf);
    }
    if let Some(Value::Map(topic_fields)) = contract.get_field_by_name("topic_fields").as_deref() {
        for (level, field) in topic_fields {
            if let (MapKey::String(level), Some(field)) = (level, field.as_str()) {
                draft.topic_fields.push((level.clone(), field.to_owned()));
            }
        }
        draft.topic_fields.sort();
    }
    Ok(draft)
}

fn text(contract: &DynamicMessage, field: &str) -> Option<String> {
    let value = contract.get_field_by_name(field)?;
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
