//! Looks one field up in a payload that has been checked.

use crate::plan::{FieldIndex, FieldPlan, Kind, Plan};
use crate::protobuf::wire;
use crate::tie::{number_is, zero_is};
use crate::violation::Checked;

/// Whether the field at the end of `steps` says what `level` says. The last of several values counts.
pub(crate) fn field_is(plan: &Plan, steps: &[FieldIndex], payload: &[u8], level: &str) -> Checked<bool> {
    let mut message = plan.root();
    let mut bytes = payload;
    for (place, step) in steps.iter().enumerate() {
        let field = message.field(*step);
        let mut last = None;
        let mut at = 0;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            at = wire::skip(bytes, value_at, tag.wire_type)?;
            if tag.number == field.number {
                last = Some(value_at);
            }
        }
        match (last, field.kind) {
            (None, _) if place + 1 == steps.len() => return Ok(zero_is(plan, field, level)),
            (None, _) => return Ok(false),
            (Some(at), Kind::Message(inner)) => {
                let (start, end) = wire::delimited(bytes, at)?;
                bytes = &bytes[start..end];
                message = plan.message(inner);
            }
            (Some(at), _) => return value_is(plan, field, bytes, at, level),
        }
    }
    Ok(false)
}

fn value_is(plan: &Plan, field: &FieldPlan, bytes: &[u8], at: usize, level: &str) -> Checked<bool> {
    Ok(match field.kind {
        Kind::String => {
            let (start, end) = wire::delimited(bytes, at)?;
            bytes[start..end] == *level.as_bytes()
        }
        Kind::Fixed32 => level.parse() == Ok(wire::four(bytes, at)?),
        Kind::Sfixed32 => level.parse() == Ok(wire::four(bytes, at)? as i32),
        Kind::Fixed64 => level.parse() == Ok(wire::eight(bytes, at)?),
        Kind::Sfixed64 => level.parse() == Ok(wire::eight(bytes, at)? as i64),
        Kind::Double | Kind::Float | Kind::Bytes | Kind::Message(_) => false,
        kind => {
            let (value, _) = wire::varint(bytes, at)?;
            match kind {
                Kind::Bool => level == if value != 0 { "true" } else { "false" },
                Kind::Enum(_) => number_is(plan, field, Some(value as i32), level),
                Kind::Uint32 => level.parse() == Ok(value as u32),
                Kind::Uint64 => level.parse() == Ok(value),
                Kind::Int32 => level.parse() == Ok(value as i32),
                Kind::Sint32 => level.parse() == Ok(wire::zigzag(u64::from(value as u32))),
                Kind::Sint64 => level.parse() == Ok(wire::zigzag(value)),
                _ => level.parse() == Ok(value as i64),
            }
        }
    })
}
