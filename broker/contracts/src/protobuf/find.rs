//! Finds a single field in a checked payload.

use crate::level_value::{number_is, zero_is};
use crate::plan::{FieldIndex, FieldPlan, Kind, MessageIndex, Plan};
use crate::protobuf::wire;
use crate::violation::Checked;

/// Whether the field at the end of `steps` equals `level`, over all parts that a message is split into. The last value wins, unless another
/// field of its oneof follows it.
pub(crate) fn field_is(plan: &Plan, steps: &[FieldIndex], payload: &[u8], level: &str) -> Checked<bool> {
    let mut search = Search { plan, last: None, is_message_present: false };
    search.visit(plan.root, steps, payload)?;
    match search.last {
        Some((field, bytes, at)) => value_is(plan, field, bytes, at, level),
        None => Ok(search.is_message_present && search.field(steps).is_some_and(|field| zero_is(plan, field, level))),
    }
}

struct Search<'p, 'b> {
    plan: &'p Plan,
    /// The field, its message, and the offset of its value.
    last: Option<(&'p FieldPlan, &'b [u8], usize)>,
    /// Whether the message with the field is present.
    is_message_present: bool,
}

impl<'p, 'b> Search<'p, 'b> {
    /// Searches the message, or one of its parts. Recurses once per step.
    fn visit(&mut self, message: MessageIndex, steps: &[FieldIndex], bytes: &'b [u8]) -> Checked {
        let Some((step, deeper)) = steps.split_first() else { return Ok(()) };
        let message = self.plan.message(message);
        let field = message.field(*step);
        self.is_message_present |= deeper.is_empty();
        let mut at = 0;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            at = wire::skip(bytes, value_at, tag.wire_type)?;
            if tag.number != field.number {
                let is_same_choice = |index| field.oneof.is_some() && message.field(index).oneof == field.oneof;
                if field.oneof.is_some() && message.numbered(tag.number).is_some_and(is_same_choice) {
                    self.last = None;
                    self.is_message_present = deeper.is_empty();
                }
                continue;
            }
            match field.kind {
                Kind::Message(inner) => {
                    let (start, end) = wire::delimited(bytes, value_at)?;
                    self.visit(inner, deeper, &bytes[start..end])?;
                }
                // A number that a closed enumeration does not have is an unknown field.
                Kind::Enum(index)
                    if self.plan.enumeration(index).is_closed
                        && !self.plan.enumeration(index).has(wire::varint(bytes, value_at)?.0 as i32) => {}
                _ => self.last = Some((field, bytes, value_at)),
            }
        }
        Ok(())
    }

    /// The field at the end of `steps`.
    fn field(&self, steps: &[FieldIndex]) -> Option<&'p FieldPlan> {
        let mut message = self.plan.root();
        let mut last = None;
        for step in steps {
            let field = message.field(*step);
            last = Some(field);
            if let Kind::Message(inner) = field.kind {
                message = self.plan.message(inner);
            }
        }
        last
    }
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
