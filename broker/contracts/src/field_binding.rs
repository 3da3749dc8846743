//! Ties between a topic level and a payload field: both must have the same value.

use crate::json::JsonSource;
use crate::level_value::{plain_value_is, value_is, zero_is};
use crate::messagepack::MessagePackSource;
use crate::payload_types::{DEPTH_MAX, Types};
use crate::plan::{Cardinality, FieldIndex, Kind, MessageIndex, Plan};
use crate::protobuf;
use crate::source::{self, Source, Value};
use crate::topic_pattern::TopicPattern;
use crate::violation::{Checked, Rule, Violation};
use tautwire_message::Format;

/// A tie between a level and a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldBinding {
    /// The name of the level.
    pub(crate) level: Box<str>,
    /// The field, as written: `device.id`.
    pub(crate) path: Box<str>,
    field_path: FieldPath,
}

/// The path to the field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldPath {
    /// The enclosing messages, and the field.
    Fields(Box<[FieldIndex]>),
    /// The names of the properties.
    Names(Box<[Box<str>]>),
}

impl FieldBinding {
    /// Ties `level` to the field at `path`.
    ///
    /// # Errors
    /// Why the field cannot be tied.
    pub(crate) fn new(types: &Types, level: &str, path: &str) -> Result<FieldBinding, String> {
        let plan = match types {
            Types::Message(plan) => plan,
            Types::Schema(_) => {
                let field_path = FieldPath::Names(path.split('.').map(Into::into).collect());
                return Ok(FieldBinding { level: level.into(), path: path.into(), field_path });
            }
        };
        let mut message = Some(plan.root);
        let mut steps = Vec::new();
        let mut last = None;
        for name in path.split('.') {
            let Some(inner) = message else { return Err(format!("{path}: {name} is not inside a message")) };
            let plan_of = plan.message(inner);
            let index = plan_of
                .names
                .find(name.as_bytes())
                .ok_or_else(|| format!("{} has no field {name}", plan_of.full_name))?;
            let field = plan_of.field(index);
            if field.cardinality != Cardinality::Singular {
                return Err(format!("{path}: {name} has more than one value"));
            }
            message = match field.kind {
                Kind::Message(inner) if plan.message(inner).well_known.is_none() => Some(inner),
                _ => None,
            };
            steps.push(index);
            last = Some(field);
        }
        match last.map(|field| field.kind) {
            Some(Kind::Double | Kind::Float | Kind::Bytes | Kind::Message(_)) | None => {
                Err(format!("{path}: only strings, integers, booleans and enumerations can be compared with a level"))
            }
            _ => Ok(FieldBinding {
                level: level.into(),
                path: path.into(),
                field_path: FieldPath::Fields(steps.into_boxed_slice()),
            }),
        }
    }

    /// Checks a payload that satisfies the types.
    pub(crate) fn check(
        &self,
        types: &Types,
        topics: &TopicPattern,
        format: Format,
        topic: &str,
        payload: &[u8],
    ) -> Checked {
        let level = topics.level(&self.level, topic).unwrap_or_default();
        let same = match (types, &self.field_path, format) {
            (Types::Message(plan), FieldPath::Fields(steps), Format::Protobuf) => {
                protobuf::field_is(plan, steps, payload, level)?
            }
            (Types::Message(plan), FieldPath::Fields(steps), Format::Json) => {
                in_message(plan, plan.root, &mut JsonSource::new(payload)?, steps, level)?
            }
            (Types::Message(plan), FieldPath::Fields(steps), Format::MessagePack) => {
                in_message(plan, plan.root, &mut MessagePackSource::new(payload), steps, level)?
            }
            (_, FieldPath::Names(names), Format::Json) => in_map(&mut JsonSource::new(payload)?, names, level)?,
            (_, FieldPath::Names(names), _) => in_map(&mut MessagePackSource::new(payload), names, level)?,
            (Types::Schema(_), FieldPath::Fields(_), _) => false,
        };
        if same {
            return Ok(());
        }
        let expected = format!("the value of the topic level {{{}}}", self.level);
        Err(Violation::new(Rule::TopicFieldMismatch, 0, expected, "another value").inside(&self.path))
    }
}

/// Compares the field at the end of `steps`, in a message that is a map.
fn in_message<'a>(
    plan: &Plan,
    message: MessageIndex,
    source: &mut impl Source<'a>,
    steps: &[FieldIndex],
    level: &str,
) -> Checked<bool> {
    let Some((wanted, deeper)) = steps.split_first() else { return Ok(false) };
    let message = plan.message(message);
    let field = message.field(*wanted);
    let Value::Map(mut sequence) = source.value()? else { return Ok(false) };
    loop {
        let found = source.key_is(&mut sequence, &field.json_name)
            || match source.key(&mut sequence)? {
                None => return Ok(zero_is(plan, field, level) && deeper.is_empty()),
                Some(name) => message.names.find(name.decoded().as_bytes()) == Some(*wanted),
            };
        if !found {
            let value = source.value()?;
            source::skip(source, value, DEPTH_MAX)?;
            continue;
        }
        return match (deeper, field.kind) {
            ([_, ..], Kind::Message(inner)) => in_message(plan, inner, source, deeper, level),
            _ => Ok(value_is(plan, field, &source.value()?, level)),
        };
    }
}

/// Compares the property at the end of `names`.
fn in_map<'a>(source: &mut impl Source<'a>, names: &[Box<str>], level: &str) -> Checked<bool> {
    let Some((wanted, deeper)) = names.split_first() else { return Ok(false) };
    let Value::Map(mut sequence) = source.value()? else { return Ok(false) };
    while let Some(name) = source.key(&mut sequence)? {
        if *name.decoded() != **wanted {
            let value = source.value()?;
            source::skip(source, value, DEPTH_MAX)?;
        } else if deeper.is_empty() {
            let value = source.value()?;
            return Ok(match &value {
                Value::Text(text) => text.decoded() == level,
                _ => plain_value_is(&value, level),
            });
        } else {
            return in_map(source, deeper, level);
        }
    }
    Ok(false)
}
