//! Checks a payload against a plan in one pass, without allocating.

use crate::plan::{
    Action, Cardinality, EnumPlan, FieldIndex, FieldPlan, Kind, MessageIndex, MessagePlan, Plan, REQUIRED_MAX, TagStep,
};
use crate::protobuf::wire;
use crate::violation::{Checked, Rule, Violation};

/// Checks beyond the types of a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadCheck {
    /// Reject fields that the schema does not have, and numbers that an enumeration does not have.
    pub(crate) unknown_fields_refused: bool,
    /// Maximum nesting of messages; the payload itself has depth 1.
    pub(crate) depth_max: u16,
}

/// Checks that `payload` is a valid message of the plan's root type.
pub(crate) fn check(plan: &Plan, payload: &[u8], check: PayloadCheck) -> Checked {
    Walk { plan, check }.message(plan.root, payload, 0, check.depth_max)
}

struct Walk<'p> {
    plan: &'p Plan,
    check: PayloadCheck,
}

impl Walk<'_> {
    /// Checks the message in `bytes[start..]`.
    fn message(&self, index: MessageIndex, bytes: &[u8], start: usize, depth_left: u16) -> Checked {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            let expected = format!("messages nested at most {} deep", self.check.depth_max);
            return Err(Violation::new(Rule::Depth, start, expected, "a deeper one"));
        };
        let message = self.plan.message(index);
        let mut present = RequiredSeen::default();
        let mut at = start;
        while let Some(first) = bytes.get(at) {
            let (step, wire_type, value_at) = if *first < 0x80 {
                (message.by_tag[usize::from(*first)], first & 7, at + 1)
            } else {
                let (tag, value_at) = wire::tag(bytes, at)?;
                (message.step(tag.number, tag.wire_type), tag.wire_type, value_at)
            };
            at = match self.value(message, step.action, step.field, wire_type, bytes, value_at, depth_left) {
                Ok(end) => end,
                Err(violation) => return Err(in_field(message, step, bytes, start, at, violation)),
            };
            if !message.required.is_empty() && step.action != Action::Unknown {
                present.note(message, step.field);
            }
        }
        if message.required.is_empty() { Ok(()) } else { present.all_of(message, at) }
    }

    /// Checks one value; returns its end.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the parts of one step of the walk, in registers")]
    fn value(
        &self,
        message: &MessagePlan,
        action: Action,
        field: FieldIndex,
        wire_type: u8,
        bytes: &[u8],
        at: usize,
        depth_left: u16,
    ) -> Checked<usize> {
        match action {
            Action::Varint => wire::skip_varint(bytes, at),
            Action::String => {
                let (start, end) = wire::delimited(bytes, at)?;
                match core::str::from_utf8(&bytes[start..end]) {
                    Ok(_) => Ok(end),
                    Err(error) => Err(not_utf8(start + error.valid_up_to())),
                }
            }
            Action::Fixed64 => wire::fixed(bytes, at, 8),
            Action::Fixed32 => wire::fixed(bytes, at, 4),
            Action::Bytes => Ok(wire::delimited(bytes, at)?.1),
            Action::Enum => {
                let (value, end) = wire::varint(bytes, at)?;
                self.enumerated(message.field(field), value, at)?;
                Ok(end)
            }
            Action::Message => {
                let (start, end) = wire::delimited(bytes, at)?;
                let Kind::Message(inner) = message.field(field).kind else { return Ok(end) };
                self.message(inner, &bytes[..end], start, depth_left)?;
                Ok(end)
            }
            Action::PackedVarint => {
                let (mut at, end) = wire::delimited(bytes, at)?;
                while at < end {
                    at = wire::skip_varint(&bytes[..end], at)?;
                }
                Ok(end)
            }
            Action::PackedEnum => {
                let (mut at, end) = wire::delimited(bytes, at)?;
                while at < end {
                    let (value, next) = wire::varint(&bytes[..end], at)?;
                    self.enumerated(message.field(field), value, at)?;
                    at = next;
                }
                Ok(end)
            }
            Action::PackedFixed64 => packed_fixed(bytes, at, 8),
            Action::PackedFixed32 => packed_fixed(bytes, at, 4),
            Action::Unknown => {
                let end = wire::skip(bytes, at, wire_type)?;
                if self.check.unknown_fields_refused {
                    return Err(Violation::new(Rule::UnknownField, at, "a field of the schema", "an unknown field"));
                }
                Ok(end)
            }
            Action::NoNumber => Err(Violation::new(Rule::Malformed, at - 1, "a field number from 1 on", "0")),
            Action::WrongWireType => {
                if matches!(wire_type, 3 | 4 | 6 | 7) {
                    wire::skip(bytes, at, wire_type)?;
                }
                let expected = message.field(field).kind.name();
                Err(Violation::new(Rule::Type, at, expected, wire_type_name(wire_type)))
            }
        }
    }

    #[inline]
    fn enumerated(&self, field: &FieldPlan, value: u64, at: usize) -> Checked {
        if !self.check.unknown_fields_refused {
            return Ok(());
        }
        let Kind::Enum(index) = field.kind else { return Ok(()) };
        if self.plan.enumeration(index).has(value as i32) { Ok(()) } else { Err(not_enumerated(at)) }
    }
}

impl EnumPlan {
    pub(crate) fn has(&self, number: i32) -> bool {
        self.values.binary_search_by_key(&number, |(known, _)| *known).is_ok()
    }
}

fn packed_fixed(bytes: &[u8], at: usize, size: usize) -> Checked<usize> {
    let (start, end) = wire::delimited(bytes, at)?;
    if (end - start).is_multiple_of(size) {
        return Ok(end);
    }
    let expected = if size == 8 { "a multiple of 8 bytes" } else { "a multiple of 4 bytes" };
    Err(Violation::new(Rule::Malformed, start, expected, "another length"))
}

/// The required fields that have been seen.
#[derive(Default)]
struct RequiredSeen(u64);

impl RequiredSeen {
    fn note(&mut self, message: &MessagePlan, field: FieldIndex) {
        if let Some(at) = message.required.iter().position(|required| *required == field) {
            self.0 |= 1 << (at % REQUIRED_MAX);
        }
    }

    fn all_of(&self, message: &MessagePlan, at: usize) -> Checked {
        for (place, required) in message.required.iter().enumerate() {
            if self.0 & 1 << (place % REQUIRED_MAX) == 0 {
                let missing = Violation::new(Rule::Required, at, "a required value", "none");
                return Err(missing.inside(&message.field(*required).name));
            }
        }
        Ok(())
    }
}

#[cold]
fn not_utf8(at: usize) -> Box<Violation> {
    Violation::new(Rule::Utf8, at, "UTF-8", "invalid bytes")
}

#[cold]
fn not_enumerated(at: usize) -> Box<Violation> {
    Violation::new(Rule::Enumeration, at, "a number of the enumeration", "another")
}

fn wire_type_name(wire_type: u8) -> &'static str {
    match wire_type {
        0 => "a variable length number",
        1 => "a value of 8 bytes",
        2 => "a value with a length",
        _ => "a value of 4 bytes",
    }
}

/// Prepends a field to the path of a violation; counts the items of a list, which the walk does not.
#[cold]
fn in_field(
    message: &MessagePlan,
    step: TagStep,
    bytes: &[u8],
    start: usize,
    at: usize,
    violation: Box<Violation>,
) -> Box<Violation> {
    if step.action == Action::NoNumber {
        return violation;
    }
    if step.action == Action::Unknown {
        return match wire::tag(bytes, at) {
            Ok((tag, _)) => violation.inside(&format!("#{}", tag.number)),
            Err(no_tag) => no_tag,
        };
    }
    let field = message.field(step.field);
    if field.cardinality == Cardinality::Singular {
        return violation.inside(&field.name);
    }
    let mut before = 0;
    let mut scan = start;
    while scan < at {
        let Ok((tag, value_at)) = wire::tag(bytes, scan) else { break };
        before += usize::from(tag.number == field.number);
        let Ok(end) = wire::skip(bytes, value_at, tag.wire_type) else { break };
        scan = end;
    }
    violation.inside_item(before).inside(&field.name)
}
