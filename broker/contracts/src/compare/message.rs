//! Comparison of two versions of a Protobuf message.

use super::{DifferenceList, Effect};
use crate::plan::{Cardinality, EnumPlan, FieldPlan, Kind, MessageIndex, Plan};

/// `in_text`: whether names matter, as in JSON and MessagePack.
pub(super) fn compare(old: &Plan, new: &Plan, in_text: bool, notes: &mut DifferenceList) {
    let mut comparison = Comparison { old, new, in_text, met: Vec::new() };
    comparison.messages(old.root, new.root, notes);
}

struct Comparison<'p> {
    old: &'p Plan,
    new: &'p Plan,
    in_text: bool,
    /// Pairs that have been compared: message types may be recursive.
    met: Vec<(MessageIndex, MessageIndex)>,
}

impl Comparison<'_> {
    fn messages(&mut self, old: MessageIndex, new: MessageIndex, notes: &mut DifferenceList) {
        if self.met.contains(&(old, new)) {
            return;
        }
        self.met.push((old, new));
        let (old_plan, new_plan) = (self.old.message(old), self.new.message(new));
        if old_plan.well_known != new_plan.well_known {
            notes.add(format!("was {}, is {}", old_plan.full_name, new_plan.full_name), Effect::Both);
            return;
        }
        for field in &old_plan.fields {
            let required = old_plan.required.iter().any(|index| old_plan.field(*index).number == field.number);
            notes.within(&field.name, |notes| match new_plan.numbered(field.number) {
                Some(index) => {
                    let still = new_plan.required.contains(&index);
                    match (required, still) {
                        (false, true) => notes.add("is required now", Effect::OldWriters),
                        (true, false) => notes.add("is optional now", Effect::OldReaders),
                        _ => {}
                    }
                    self.fields(field, new_plan.field(index), notes);
                }
                None if new_plan.names.find(field.json_name.as_bytes()).is_some() => {
                    notes.add(format!("no longer has the number {}", field.number), Effect::Both);
                }
                None if required => notes.add("was removed, and old readers require it", Effect::OldReaders),
                None => notes.add("was removed", Effect::None),
            });
        }
        for field in new_plan.fields.iter().filter(|field| old_plan.numbered(field.number).is_none()) {
            let required = new_plan.required.iter().any(|index| new_plan.field(*index).number == field.number);
            let known = old_plan.names.find(field.json_name.as_bytes()).is_some();
            notes.within(&field.name, |notes| match (required, known) {
                (_, true) => {}
                (true, _) => notes.add("was added and is required", Effect::OldWriters),
                (false, _) => notes.add("was added", Effect::None),
            });
        }
    }

    fn fields(&mut self, old: &FieldPlan, new: &FieldPlan, notes: &mut DifferenceList) {
        if old.json_name != new.json_name {
            let effect = if self.in_text { Effect::Both } else { Effect::None };
            notes.add(format!("was renamed to {}", new.json_name), effect);
        }
        if old.cardinality != new.cardinality {
            let effect = match (old.cardinality, new.cardinality) {
                // A reader takes the last of several values, unless they are packed.
                (Cardinality::Singular, Cardinality::Repeated) if !new.packed && !self.in_text => Effect::None,
                _ => Effect::Both,
            };
            notes.add(format!("was {}, is {}", shape(old), shape(new)), effect);
            return;
        }
        if old.oneof.is_some() != new.oneof.is_some() {
            notes.add("was moved into or out of a oneof: setting one of its fields clears the others", Effect::Both);
        }
        match (old.kind, new.kind) {
            (Kind::Message(old), Kind::Message(new)) => self.messages(old, new, notes),
            (Kind::Enum(old), Kind::Enum(new)) => {
                self.enums(self.old.enumeration(old), self.new.enumeration(new), notes);
            }
            (old, new) if std::mem::discriminant(&old) == std::mem::discriminant(&new) => {}
            (old, new) => {
                let effect = if self.in_text { Effect::Both } else { changed_kind(old, new) };
                notes.add(format!("was {}, is {}", old.name(), new.name()), effect);
            }
        }
    }

    fn enums(&self, old: &EnumPlan, new: &EnumPlan, notes: &mut DifferenceList) {
        for (number, name) in &old.values {
            match new.name_of(*number) {
                None => {
                    let effect = if self.in_text || new.is_closed { Effect::OldWriters } else { Effect::None };
                    notes.add(format!("the value {name} was removed"), effect);
                }
                Some(other) if *other != **name => {
                    let effect = if self.in_text { Effect::Both } else { Effect::None };
                    notes.add(format!("the value {name} was renamed to {other}"), effect);
                }
                Some(_) => {}
            }
        }
        for (_, name) in new.values.iter().filter(|(number, _)| !old.has(*number)) {
            let effect = if self.in_text || old.is_closed { Effect::OldReaders } else { Effect::None };
            notes.add(format!("the value {name} was added"), effect);
        }
    }
}

fn shape(field: &FieldPlan) -> &'static str {
    match field.cardinality {
        Cardinality::Singular => "a single value",
        Cardinality::Repeated => "a list",
        Cardinality::Map => "a map",
    }
}

/// The effect of reading one kind as another, in the binary form.
fn changed_kind(old: Kind, new: Kind) -> Effect {
    let is_plain_varint =
        |kind| matches!(kind, Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Bool | Kind::Enum(_));
    let wide = |kind| matches!(kind, Kind::Int64 | Kind::Uint64 | Kind::Sint64);
    match (old, new) {
        (Kind::Sint32, Kind::Sint64) => Effect::OldReaders,
        (Kind::Sint64, Kind::Sint32) => Effect::OldWriters,
        (Kind::Fixed32, Kind::Sfixed32) | (Kind::Sfixed32, Kind::Fixed32) => Effect::Both,
        // Every string is valid bytes; not all bytes are valid strings.
        (Kind::String, Kind::Bytes) => Effect::OldReaders,
        (Kind::Bytes, Kind::String) => Effect::OldWriters,
        (old, new) if is_plain_varint(old) && is_plain_varint(new) && wide(new) && !wide(old) => Effect::OldReaders,
        (old, new) if is_plain_varint(old) && is_plain_varint(new) && wide(old) && !wide(new) => Effect::OldWriters,
        _ => Effect::Both,
    }
}
