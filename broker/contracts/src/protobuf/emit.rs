//! Passes the values of a checked payload to a sink: fields by ascending number, the last of several values of a singular field, and the
//! merged parts of a message.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::plan::{Action, Cardinality, FieldPlan, Kind, MessageIndex, MessagePlan, Plan, WellKnown};
use crate::protobuf::wire;
use crate::sink::{AnyPosition, AnyScalar, AnyShape, Scalar, Sink, ValueContext, check_size};
use crate::typed::time::{DURATION_SECONDS_MAX, TIMESTAMP_SECONDS};
use crate::violation::{Checked, Rule, Violation};

/// Walks a payload that `check` has accepted.
///
/// # Errors
/// A value that the other formats cannot represent, such as a timestamp after the year 9999.
pub(crate) fn emit(plan: &Plan, payload: &[u8], sink: &mut impl Sink) -> Checked {
    let mut emit = Emit { plan, sink, found: Vec::new() };
    emit.message(plan.root, payload, ValueContext::Root)
}

struct Emit<'e, K> {
    plan: &'e Plan,
    sink: &'e mut K,
    /// The ranges of the fields of the open messages, those of the innermost last.
    found: Vec<FieldRange>,
}

/// The range of a field's values in its message.
#[derive(Debug, Clone, Copy, Default)]
struct FieldRange {
    count: u32,
    /// The first tag.
    first: u32,
    /// The end of the last value.
    end: u32,
    /// The last value, after its tag.
    last: u32,
}

impl<K: Sink> Emit<'_, K> {
    fn message(&mut self, index: MessageIndex, bytes: &[u8], place: ValueContext<'_>) -> Checked {
        check_size(self.sink)?;
        let plan = self.plan;
        let message = plan.message(index);
        match message.well_known {
            None | Some(WellKnown::Empty | WellKnown::Wrapper) => {}
            Some(kind) => return self.well_known(kind, message, bytes, place),
        }
        self.sink.message_begin(place, message);
        if message.well_known == Some(WellKnown::Wrapper) {
            self.wrapped(message, bytes)?;
        } else {
            self.fields(message, bytes)?;
        }
        self.sink.message_end(place, message);
        Ok(())
    }

    fn fields(&mut self, message: &MessagePlan, bytes: &[u8]) -> Checked {
        let base = self.found.len();
        self.find(message, bytes, base)?;
        for (at, field) in message.fields.iter().enumerate() {
            let found = self.found[base + at];
            if found.count > 0 {
                self.field(field, bytes, found).map_err(|violation| violation.inside(&field.name))?;
            }
        }
        self.found.truncate(base);
        Ok(())
    }

    /// Collects the ranges of the fields.
    fn find(&mut self, message: &MessagePlan, bytes: &[u8], base: usize) -> Checked {
        self.found.resize(base + message.fields.len(), FieldRange::default());
        let mut chosen: Option<Vec<Option<usize>>> =
            (message.oneofs > 0).then(|| vec![None; usize::from(message.oneofs)]);
        let mut at = 0;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            let end = wire::skip(bytes, value_at, tag.wire_type)?;
            let step = message.step(tag.number, tag.wire_type);
            if step.action != Action::Unknown
                && self.is_known(message.field(step.field), step.action, bytes, value_at)?
            {
                let place = usize::from(step.field.0);
                if let (Some(chosen), Some(choice)) = (&mut chosen, message.field(step.field).oneof) {
                    // The last field of a oneof wins.
                    if let Some(before) = chosen[usize::from(choice)].replace(place).filter(|before| *before != place) {
                        self.found[base + before] = FieldRange::default();
                    }
                }
                let found = &mut self.found[base + place];
                if found.count == 0 {
                    found.first = at as u32;
                }
                *found = FieldRange { count: found.count + 1, end: end as u32, last: value_at as u32, ..*found };
            }
            at = end;
        }
        Ok(())
    }

    /// A number that a closed enumeration does not have is an unknown field.
    fn is_known(&self, field: &FieldPlan, action: Action, bytes: &[u8], value_at: usize) -> Checked<bool> {
        match field.kind {
            Kind::Enum(index) if action == Action::Enum && self.plan.enumeration(index).is_closed => {
                let (value, _) = wire::varint(bytes, value_at)?;
                Ok(self.plan.enumeration(index).has(value as i32))
            }
            _ => Ok(true),
        }
    }

    fn field(&mut self, field: &FieldPlan, bytes: &[u8], found: FieldRange) -> Checked {
        if field.cardinality != Cardinality::Singular {
            return self.list(field, bytes, found);
        }
        let last = found.last as usize;
        let Kind::Message(index) = field.kind else {
            return self.scalar(field, bytes, last, ValueContext::Field(field)).map(|_| ());
        };
        self.message(index, &whole(field, bytes, found)?, ValueContext::Field(field))
    }

    fn list(&mut self, field: &FieldPlan, bytes: &[u8], found: FieldRange) -> Checked {
        let mut is_open = false;
        let mut count = 0;
        let last = match field.kind {
            Kind::Message(entry) if field.cardinality == Cardinality::Map && found.count > 1 => {
                Some(self.last_entries(field, entry, bytes, found)?)
            }
            _ => None,
        };
        each(field, bytes, found, |wire_type, value_at| {
            let is_packed = wire_type == 2 && field.kind.wire_type() != 2;
            let (mut at, end) = if is_packed { wire::delimited(bytes, value_at)? } else { (value_at, value_at + 1) };
            if last.as_ref().is_some_and(|last| !last.contains(&value_at)) {
                return Ok(());
            }
            while at < end {
                if self.is_unknown_item(field, bytes, at)? {
                    at = if is_packed { wire::skip_varint(bytes, at)? } else { end };
                    continue;
                }
                if !std::mem::replace(&mut is_open, true) {
                    self.sink.list_begin(field);
                }
                check_size(self.sink)?;
                let next = self.item(field, bytes, at).map_err(|violation| violation.inside_item(count))?;
                at = if is_packed { next } else { end };
                count += 1;
            }
            Ok(())
        })?;
        if is_open {
            self.sink.list_end(field);
        }
        Ok(())
    }

    /// Whether an item, or the value of an entry, is a number that a closed enumeration does not have.
    fn is_unknown_item(&self, field: &FieldPlan, bytes: &[u8], at: usize) -> Checked<bool> {
        match field.kind {
            Kind::Enum(index) if self.plan.enumeration(index).is_closed => {
                Ok(!self.plan.enumeration(index).has(wire::varint(bytes, at)?.0 as i32))
            }
            Kind::Message(entry) if field.cardinality == Cardinality::Map => {
                let [_, value] = &*self.plan.message(entry).fields else { return Ok(false) };
                let Kind::Enum(_) = value.kind else { return Ok(false) };
                let (start, end) = wire::delimited(bytes, at)?;
                let entry = &bytes[start..end];
                let mut is_unknown = false;
                let mut at = 0;
                while at < entry.len() {
                    let (tag, value_at) = wire::tag(entry, at)?;
                    at = wire::skip(entry, value_at, tag.wire_type)?;
                    is_unknown |= tag.number == value.number && self.is_unknown_item(value, entry, value_at)?;
                }
                Ok(is_unknown)
            }
            _ => Ok(false),
        }
    }

    /// Emits an item of a list; returns its end.
    fn item(&mut self, field: &FieldPlan, bytes: &[u8], at: usize) -> Checked<usize> {
        let Kind::Message(index) = field.kind else {
            return self.scalar(field, bytes, at, ValueContext::Item(field));
        };
        let (start, end) = wire::delimited(bytes, at)?;
        if field.cardinality == Cardinality::Map {
            self.entry(field, index, &bytes[start..end])?;
        } else {
            self.message(index, &bytes[start..end], ValueContext::Item(field))?;
        }
        Ok(end)
    }

    /// The effective entries of a map: the last one of each key.
    fn last_entries(
        &mut self,
        field: &FieldPlan,
        entry: MessageIndex,
        bytes: &[u8],
        found: FieldRange,
    ) -> Checked<HashSet<usize>> {
        let plan = self.plan;
        let [key_field, _] = &*plan.message(entry).fields else { return Ok(HashSet::new()) };
        let mut last = HashMap::new();
        each(field, bytes, found, |_, value_at| {
            let (start, end) = wire::delimited(bytes, value_at)?;
            last.insert(entry_key(key_field, &bytes[start..end])?, value_at);
            Ok(())
        })?;
        Ok(last.into_values().collect())
    }

    fn entry(&mut self, field: &FieldPlan, index: MessageIndex, bytes: &[u8]) -> Checked {
        let plan = self.plan;
        let message = plan.message(index);
        let [key, value] = &*message.fields else { return Ok(()) };
        let base = self.found.len();
        self.find(message, bytes, base)?;
        let (key_at, value_at) = (self.found[base], self.found[base + 1]);
        self.found.truncate(base);
        self.sink.entry_begin(field);
        if key_at.count > 0 {
            self.scalar(key, bytes, key_at.last as usize, ValueContext::MapKey(key))?;
        } else {
            self.zero(key, ValueContext::MapKey(key))?;
        }
        if value_at.count == 0 {
            self.zero(value, ValueContext::MapValue(value))?;
        } else if let Kind::Message(inner) = value.kind {
            self.message(inner, &whole(value, bytes, value_at)?, ValueContext::MapValue(value))?;
        } else {
            self.scalar(value, bytes, value_at.last as usize, ValueContext::MapValue(value))?;
        }
        self.sink.entry_end();
        Ok(())
    }

    /// Emits a value that is omitted because it is zero.
    fn zero(&mut self, field: &FieldPlan, place: ValueContext<'_>) -> Checked {
        match field.kind {
            Kind::Message(index) => self.message(index, &[], place),
            Kind::Enum(_) | Kind::Bool => self.scalar(field, &[0], 0, place).map(|_| ()),
            _ => self.scalar(field, &[0; 8], 0, place).map(|_| ()),
        }
    }

    fn wrapped(&mut self, message: &MessagePlan, bytes: &[u8]) -> Checked {
        let Some(field) = message.fields.first() else { return Ok(()) };
        let base = self.found.len();
        self.find(message, bytes, base)?;
        let found = self.found[base];
        self.found.truncate(base);
        if found.count == 0 {
            return self.zero(field, ValueContext::WrapperValue(field));
        }
        self.scalar(field, bytes, found.last as usize, ValueContext::WrapperValue(field)).map(|_| ())
    }

    /// Emits a value that is not a message; returns its end.
    fn scalar(&mut self, field: &FieldPlan, bytes: &[u8], at: usize, place: ValueContext<'_>) -> Checked<usize> {
        let (scalar, end) = match field.kind {
            Kind::String => {
                let (start, end) = wire::delimited(bytes, at)?;
                let text = core::str::from_utf8(&bytes[start..end]);
                (Scalar::Text(text.map_err(|_| Violation::new(Rule::Utf8, start, "UTF-8", "invalid bytes"))?), end)
            }
            Kind::Bytes => {
                let (start, end) = wire::delimited(bytes, at)?;
                (Scalar::Bytes(&bytes[start..end]), end)
            }
            Kind::Double => (Scalar::Double(f64::from_bits(wire::eight(bytes, at)?)), at + 8),
            Kind::Fixed64 => (Scalar::Uint(wire::eight(bytes, at)?), at + 8),
            Kind::Sfixed64 => (Scalar::Int(wire::eight(bytes, at)? as i64), at + 8),
            Kind::Float => (Scalar::Float(f32::from_bits(wire::four(bytes, at)?)), at + 4),
            Kind::Fixed32 => (Scalar::Uint(u64::from(wire::four(bytes, at)?)), at + 4),
            Kind::Sfixed32 => (Scalar::Int(i64::from(wire::four(bytes, at)? as i32)), at + 4),
            Kind::Message(_) => return Ok(wire::delimited(bytes, at)?.1),
            kind => {
                let (value, end) = wire::varint(bytes, at)?;
                let scalar = match kind {
                    Kind::Enum(index) => {
                        let number = value as i32;
                        if !(number == 0 && place.omits_default()) {
                            let plan = self.plan;
                            self.sink.enumeration(place, plan.enumeration(index), number);
                        }
                        return Ok(end);
                    }
                    Kind::Bool => Scalar::Bool(value != 0),
                    Kind::Uint64 => Scalar::Uint(value),
                    Kind::Uint32 => Scalar::Uint(u64::from(value as u32)),
                    Kind::Int32 => Scalar::Int(i64::from(value as i32)),
                    Kind::Sint32 => Scalar::Int(wire::zigzag(u64::from(value as u32))),
                    Kind::Sint64 => Scalar::Int(wire::zigzag(value)),
                    _ => Scalar::Int(value as i64),
                };
                (scalar, end)
            }
        };
        if !(place.omits_default() && scalar.is_zero()) {
            self.sink.scalar(place, scalar);
        }
        Ok(end)
    }

    fn well_known(&mut self, kind: WellKnown, message: &MessagePlan, bytes: &[u8], place: ValueContext<'_>) -> Checked {
        match kind {
            WellKnown::Timestamp => {
                let (seconds, nanos) = seconds_and_nanos(bytes)?;
                if !TIMESTAMP_SECONDS.contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
                    return Err(out_of_range("a timestamp in the years 1 to 9999"));
                }
                self.sink.timestamp(place, seconds, nanos as u32);
            }
            WellKnown::Duration => {
                let (seconds, nanos) = seconds_and_nanos(bytes)?;
                let same_sign = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
                if seconds.unsigned_abs() > DURATION_SECONDS_MAX || nanos.unsigned_abs() > 999_999_999 || !same_sign {
                    return Err(out_of_range("a duration of at most 10,000 years with one sign"));
                }
                self.sink.duration(place, seconds, nanos as i32);
            }
            WellKnown::FieldMask => {
                let mut paths = String::new();
                let mut at = 0;
                while at < bytes.len() {
                    let (tag, value_at) = wire::tag(bytes, at)?;
                    at = wire::skip(bytes, value_at, tag.wire_type)?;
                    if tag.number == 1 && tag.wire_type == 2 {
                        let (start, end) = wire::delimited(bytes, value_at)?;
                        let path = String::from_utf8_lossy(&bytes[start..end]);
                        if !crate::typed::round_trips_camel_case(&path) {
                            return Err(out_of_range("paths that can be written in camel case"));
                        }
                        paths.push_str(if paths.is_empty() { "" } else { "," });
                        paths.push_str(&path);
                    }
                }
                self.sink.field_mask(place, &paths);
            }
            WellKnown::Value => self.any_value(bytes, AnyPosition::Outer(place))?,
            WellKnown::Struct => self.any_struct(bytes, AnyPosition::Outer(place), false)?,
            WellKnown::ListValue => self.any_list(bytes, AnyPosition::Outer(place), false)?,
            WellKnown::Any => {
                return Err(Violation::new(
                    Rule::Format,
                    0,
                    "no google.protobuf.Any",
                    "one, which only the binary form has",
                ));
            }
            WellKnown::Wrapper | WellKnown::Empty => {
                self.sink.message_begin(place, message);
                self.sink.message_end(place, message);
            }
        }
        Ok(())
    }

    /// `google.protobuf.Value`: the last field of its oneof.
    fn any_value(&mut self, bytes: &[u8], place: AnyPosition<'_>) -> Checked {
        let mut last = None;
        let mut parts = 0;
        let mut at = 0;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            at = wire::skip(bytes, value_at, tag.wire_type)?;
            if (1..=6).contains(&tag.number) {
                parts = if last.is_some_and(|(before, _)| before == tag.number) { parts + 1 } else { 1 };
                last = Some((tag.number, value_at));
            }
        }
        if let Some((number @ 5..=6, _)) = last
            && parts > 1
        {
            let whole = last_parts(bytes, number)?;
            return match number {
                5 => self.any_struct(&whole, place, true),
                _ => self.any_list(&whole, place, true),
            };
        }
        let Some((number, at)) = last else {
            return Err(Violation::new(Rule::Required, 0, "a value", "a google.protobuf.Value without one"));
        };
        match number {
            1 => self.sink.any_scalar(place, AnyScalar::Null),
            2 => {
                let value = f64::from_bits(wire::eight(bytes, at)?);
                if !value.is_finite() {
                    return Err(out_of_range("a finite number"));
                }
                self.sink.any_scalar(place, AnyScalar::Number(value));
            }
            3 => {
                let (start, end) = wire::delimited(bytes, at)?;
                self.sink.any_scalar(place, AnyScalar::Text(&String::from_utf8_lossy(&bytes[start..end])));
            }
            4 => self.sink.any_scalar(place, AnyScalar::Bool(wire::varint(bytes, at)?.0 != 0)),
            5 => {
                let (start, end) = wire::delimited(bytes, at)?;
                self.any_struct(&bytes[start..end], place, true)?;
            }
            _ => {
                let (start, end) = wire::delimited(bytes, at)?;
                self.any_list(&bytes[start..end], place, true)?;
            }
        }
        Ok(())
    }

    fn any_struct(&mut self, bytes: &[u8], place: AnyPosition<'_>, wrapped: bool) -> Checked {
        self.sink.any_begin(place, AnyShape::Struct, wrapped);
        let mut entries: Vec<(Cow<'_, str>, Cow<'_, [u8]>)> = Vec::new();
        let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
        let mut at = 0;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            at = wire::skip(bytes, value_at, tag.wire_type)?;
            if tag.number == 1 {
                let (start, end) = wire::delimited(bytes, value_at)?;
                let (key, value) = any_entry(&bytes[start..end])?;
                // The last one of each key.
                match places.get(&key) {
                    Some(place) => entries[*place].1 = value,
                    None => {
                        places.insert(key.clone(), entries.len());
                        entries.push((key, value));
                    }
                }
            }
        }
        for (key, value) in &entries {
            self.any_value(value, AnyPosition::Entry(key)).map_err(|violation| violation.inside(key))?;
        }
        self.sink.any_end(place, AnyShape::Struct, wrapped);
        Ok(())
    }

    fn any_list(&mut self, bytes: &[u8], place: AnyPosition<'_>, wrapped: bool) -> Checked {
        self.sink.any_begin(place, AnyShape::List, wrapped);
        let mut at = 0;
        while at < bytes.len() {
            let (tag, value_at) = wire::tag(bytes, at)?;
            at = wire::skip(bytes, value_at, tag.wire_type)?;
            if tag.number == 1 {
                let (start, end) = wire::delimited(bytes, value_at)?;
                self.any_value(&bytes[start..end], AnyPosition::Item)?;
            }
        }
        self.sink.any_end(place, AnyShape::List, wrapped);
        Ok(())
    }
}

/// Concatenates the parts of a message, which merges them.
fn whole<'b>(field: &FieldPlan, bytes: &'b [u8], found: FieldRange) -> Checked<Cow<'b, [u8]>> {
    if found.count == 1 {
        let (start, end) = wire::delimited(bytes, found.last as usize)?;
        return Ok(Cow::Borrowed(&bytes[start..end]));
    }
    let mut whole = Vec::new();
    each(field, bytes, found, |_, value_at| {
        let (start, end) = wire::delimited(bytes, value_at)?;
        whole.extend_from_slice(&bytes[start..end]);
        Ok(())
    })?;
    Ok(Cow::Owned(whole))
}

/// The parts of message `number` of a `google.protobuf.Value`, after the last other field of its oneof.
fn last_parts(bytes: &[u8], number: u32) -> Checked<Vec<u8>> {
    let mut whole = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (tag, value_at) = wire::tag(bytes, at)?;
        at = wire::skip(bytes, value_at, tag.wire_type)?;
        if tag.number == number {
            let (start, end) = wire::delimited(bytes, value_at)?;
            whole.extend_from_slice(&bytes[start..end]);
        } else if (1..=6).contains(&tag.number) {
            whole.clear();
        }
    }
    Ok(whole)
}

/// Key and value of an entry of `google.protobuf.Struct`.
fn any_entry(bytes: &[u8]) -> Checked<(Cow<'_, str>, Cow<'_, [u8]>)> {
    let (mut key, mut value) = (Cow::Borrowed(""), Cow::Borrowed(&[][..]));
    let mut at = 0;
    while at < bytes.len() {
        let (tag, value_at) = wire::tag(bytes, at)?;
        at = wire::skip(bytes, value_at, tag.wire_type)?;
        if tag.wire_type == 2 {
            let (start, end) = wire::delimited(bytes, value_at)?;
            let part = &bytes[start..end];
            match tag.number {
                1 => key = String::from_utf8_lossy(part),
                2 if value.is_empty() => value = Cow::Borrowed(part),
                2 => value.to_mut().extend_from_slice(part),
                _ => {}
            }
        }
    }
    Ok((key, value))
}

/// The key of a map entry, to find the last of equal ones.
#[derive(Debug, PartialEq, Eq, Hash)]
enum EntryKey<'b> {
    Text(&'b [u8]),
    Number(u64),
}

fn entry_key<'b>(field: &FieldPlan, entry: &'b [u8]) -> Checked<EntryKey<'b>> {
    let mut key = if field.kind == Kind::String { EntryKey::Text(b"") } else { EntryKey::Number(0) };
    let mut at = 0;
    while at < entry.len() {
        let (tag, value_at) = wire::tag(entry, at)?;
        at = wire::skip(entry, value_at, tag.wire_type)?;
        if tag.number == field.number {
            key = match field.kind {
                Kind::String => {
                    let (start, end) = wire::delimited(entry, value_at)?;
                    EntryKey::Text(&entry[start..end])
                }
                Kind::Fixed64 | Kind::Sfixed64 => EntryKey::Number(wire::eight(entry, value_at)?),
                Kind::Fixed32 | Kind::Sfixed32 => EntryKey::Number(u64::from(wire::four(entry, value_at)?)),
                kind => EntryKey::Number(match (wire::varint(entry, value_at)?.0, kind) {
                    (value, Kind::Bool) => u64::from(value != 0),
                    (value, Kind::Int32 | Kind::Uint32 | Kind::Sint32) => u64::from(value as u32),
                    (value, _) => value,
                }),
            };
        }
    }
    Ok(key)
}

/// Calls `visit` with the wire type and offset of each value of the field.
fn each(field: &FieldPlan, bytes: &[u8], found: FieldRange, mut visit: impl FnMut(u8, usize) -> Checked) -> Checked {
    let mut at = found.first as usize;
    while at < found.end as usize {
        let (tag, value_at) = wire::tag(bytes, at)?;
        at = wire::skip(bytes, value_at, tag.wire_type)?;
        if tag.number == field.number {
            visit(tag.wire_type, value_at)?;
        }
    }
    Ok(())
}

fn seconds_and_nanos(bytes: &[u8]) -> Checked<(i64, i64)> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut at = 0;
    while at < bytes.len() {
        let (tag, value_at) = wire::tag(bytes, at)?;
        at = wire::skip(bytes, value_at, tag.wire_type)?;
        match tag.number {
            1 => seconds = wire::varint(bytes, value_at)?.0 as i64,
            2 => nanos = i64::from(wire::varint(bytes, value_at)?.0 as i32),
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

#[cold]
fn out_of_range(expected: &'static str) -> Box<Violation> {
    Violation::new(Rule::Range, 0, expected, "another")
}
