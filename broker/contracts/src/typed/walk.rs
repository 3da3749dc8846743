//! Walks a message in JSON or MessagePack in one pass: checks every value, and passes it to a sink.

use std::borrow::Cow;

use super::{base64, number};
use crate::plan::{
    Cardinality, EnumPlan, FIELDS_MAX, FieldIndex, FieldPlan, Kind, MessageIndex, MessagePlan, Pass, Plan, WellKnown,
};
use crate::protobuf::PayloadCheck;
use crate::sink::{Scalar, Sink, ValueContext, check_size};
use crate::source::{self, Sequence, Source, Text, Value};
use crate::violation::{Checked, Rule, Violation};

/// Walks the whole payload as a message of the plan's root type.
pub(crate) fn walk<'a>(
    plan: &Plan,
    source: &mut impl Source<'a>,
    sink: &mut impl Sink,
    check: PayloadCheck,
) -> Checked {
    let mut walk = Walk { plan, check, source, sink };
    if plan.root().well_known.is_none()
        && let Some(depth_left) = check.depth_max.checked_sub(1)
        && let Some(sequence) = walk.source.begin_map()
    {
        walk.message(plan.root(), sequence, ValueContext::Root, depth_left)?;
    } else {
        let value = walk.source.value()?;
        walk.message_value(plan.root, value, ValueContext::Root, check.depth_max)?;
    }
    walk.source.end()
}

pub(super) struct Walk<'w, S, K> {
    pub(super) plan: &'w Plan,
    pub(super) check: PayloadCheck,
    pub(super) source: &'w mut S,
    pub(super) sink: &'w mut K,
}

/// The fields that have been seen: one bit each.
pub(crate) struct SeenFields<const WORDS: usize>([u64; WORDS]);

/// The number of words for the maximum number of fields.
const WORDS_MAX: usize = FIELDS_MAX / 64;

impl<const WORDS: usize> SeenFields<WORDS> {
    /// Marks a field as seen; returns whether it is the first time.
    #[inline]
    fn first(&mut self, at: u16) -> bool {
        let word = &mut self.0[usize::from(at) / 64 % WORDS];
        let bit = 1 << (at % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    fn has(&self, at: u16) -> bool {
        self.0[usize::from(at) / 64 % WORDS] & 1 << (at % 64) != 0
    }
}

impl<'a, 'w, S: Source<'a>, K: Sink> Walk<'w, S, K> {
    /// A message that begins with `value`.
    pub(super) fn message_value(
        &mut self,
        index: MessageIndex,
        value: Value<'a>,
        place: ValueContext<'_>,
        depth_left: u16,
    ) -> Checked {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(source::too_deep(self.source.offset()));
        };
        let plan = self.plan;
        let message = plan.message(index);
        match message.well_known {
            None | Some(WellKnown::Empty) => {}
            Some(kind) => return self.well_known(kind, message, value, place, depth_left),
        }
        let Value::Map(sequence) = value else {
            return Err(self.mistyped("a map of fields", value.describe()));
        };
        self.message(message, sequence, place, depth_left)
    }

    /// A message whose map has begun.
    fn message(
        &mut self,
        message: &MessagePlan,
        sequence: Sequence,
        place: ValueContext<'_>,
        depth_left: u16,
    ) -> Checked {
        check_size(self.sink)?;
        self.sink.message_begin(place, message);
        // Most messages have few fields, and clearing many bits takes time.
        if message.fields.len() <= 64 {
            self.fields::<1>(message, sequence, depth_left)?;
        } else {
            self.fields::<WORDS_MAX>(message, sequence, depth_left)?;
        }
        self.sink.message_end(place, message);
        Ok(())
    }

    fn fields<const WORDS: usize>(
        &mut self,
        message: &MessagePlan,
        mut sequence: Sequence,
        depth_left: u16,
    ) -> Checked {
        let mut met = SeenFields::<WORDS>([0; WORDS]);
        let mut choices = SeenFields::<WORDS>([0; WORDS]);
        // Keys mostly come in schema order.
        let mut next = 0;
        loop {
            let (field, index) = match message.fields.get(next) {
                Some(field) if self.source.key_is(&mut sequence, &field.json_name) => (field, FieldIndex(next as u16)),
                _ => {
                    let at = self.source.offset();
                    let Some(name) = self.source.key(&mut sequence)? else { break };
                    let name = name.decoded();
                    let Some(index) = message.names.find(name.as_bytes()) else {
                        self.unknown(at, &name, depth_left)?;
                        continue;
                    };
                    (message.field(index), index)
                }
            };
            next = usize::from(index.0) + 1;
            let outcome = if !met.first(index.0) {
                let at = self.source.offset();
                Err(Violation::new(Rule::Duplicate, at, "one value", "a duplicate name"))
            } else if !K::USES_VALUES && self.source.pass(field.pass) {
                Ok(())
            } else {
                self.field(field, &mut choices, depth_left)
            };
            outcome.map_err(|violation| violation.inside(&field.name))?;
        }
        for required in &message.required {
            if !met.has(required.0) {
                let missing = Violation::new(Rule::Required, self.source.offset(), "a required value", "none");
                return Err(missing.inside(&message.field(*required).name));
            }
        }
        Ok(())
    }

    fn unknown(&mut self, at: usize, name: &str, depth_left: u16) -> Checked {
        if self.check.unknown_fields_refused {
            return Err(unknown_field(at, name));
        }
        let value = self.source.value()?;
        source::skip(self.source, value, depth_left)
    }

    /// A field whose value has no fast path. A separate function, so that the fast path stays short.
    #[inline(never)]
    fn field<const WORDS: usize>(
        &mut self,
        field: &FieldPlan,
        choices: &mut SeenFields<WORDS>,
        depth_left: u16,
    ) -> Checked {
        if let (Pass::Name, Kind::Enum(index)) = (field.pass, field.kind)
            && !K::USES_VALUES
            && self.source.pass_name(&self.plan.enumeration(index).names)
        {
            return Ok(());
        }
        if field.oneof.is_none() {
            match (field.cardinality, field.kind) {
                (Cardinality::Singular, Kind::Message(index)) => {
                    let plan = self.plan;
                    let message = plan.message(index);
                    if message.well_known.is_none()
                        && let Some(depth_left) = depth_left.checked_sub(1)
                        && let Some(sequence) = self.source.begin_map()
                    {
                        return self.message(message, sequence, ValueContext::Field(field), depth_left);
                    }
                }
                (Cardinality::Repeated, _) => {
                    if let Some(sequence) = self.source.begin_list() {
                        return self.items(field, sequence, depth_left);
                    }
                }
                _ => {}
            }
        }
        let at = self.source.offset();
        let value = self.source.value()?;
        if let Value::Null = value
            && !self.takes_null(field)
        {
            // Treated as if the field were absent.
            return Ok(());
        }
        if let Some(choice) = field.oneof
            && !choices.first(choice)
        {
            return Err(Violation::new(Rule::Duplicate, at, "one field of the oneof", "several"));
        }
        match field.cardinality {
            Cardinality::Singular => self.one(field, value, ValueContext::Field(field), depth_left),
            Cardinality::Repeated => self.list(field, value, depth_left),
            Cardinality::Map => self.map(field, value, depth_left),
        }
    }

    fn takes_null(&self, field: &FieldPlan) -> bool {
        field.cardinality == Cardinality::Singular
            && match field.kind {
                Kind::Message(index) => self.plan.message(index).well_known == Some(WellKnown::Value),
                Kind::Enum(index) => self.plan.enumeration(index).is_null,
                _ => false,
            }
    }

    fn list(&mut self, field: &FieldPlan, value: Value<'a>, depth_left: u16) -> Checked {
        let Value::List(sequence) = value else {
            return Err(self.mistyped("a list", value.describe()));
        };
        self.items(field, sequence, depth_left)
    }

    /// The items of a list that has begun.
    fn items(&mut self, field: &FieldPlan, mut sequence: Sequence, depth_left: u16) -> Checked {
        let mut index = 0;
        let pass = field.kind.pass();
        while self.source.item(&mut sequence)? {
            if !K::USES_VALUES && self.source.pass(pass) {
                index += 1;
                continue;
            }
            if index == 0 {
                self.sink.list_begin(field);
            }
            check_size(self.sink)?;
            let value = self.source.value()?;
            self.one(field, value, ValueContext::Item(field), depth_left)
                .map_err(|violation| violation.inside_item(index))?;
            index += 1;
        }
        if index > 0 {
            self.sink.list_end(field);
        }
        Ok(())
    }

    fn map(&mut self, field: &FieldPlan, value: Value<'a>, depth_left: u16) -> Checked {
        let Value::Map(mut sequence) = value else {
            return Err(self.mistyped("a map", value.describe()));
        };
        let Kind::Message(entry) = field.kind else { return Ok(()) };
        let plan = self.plan;
        let [key_field, value_field] = &*plan.message(entry).fields else { return Ok(()) };
        let mut index = 0;
        while let Some(key) = self.source.key(&mut sequence)? {
            // In the binary form an entry is a message.
            let Some(depth_left) = depth_left.checked_sub(1) else {
                return Err(source::too_deep(self.source.offset()));
            };
            if index == 0 {
                self.sink.list_begin(field);
            }
            check_size(self.sink)?;
            self.sink.entry_begin(field);
            self.map_key(key_field, key).map_err(|violation| violation.inside_item(index))?;
            let value = self.source.value()?;
            self.one(value_field, value, ValueContext::MapValue(value_field), depth_left)
                .map_err(|violation| violation.inside(&key.decoded()))?;
            self.sink.entry_end();
            index += 1;
        }
        if index > 0 {
            self.sink.list_end(field);
        }
        Ok(())
    }

    fn map_key(&mut self, field: &FieldPlan, key: Text<'a>) -> Checked {
        let text = key.decoded();
        let scalar = match field.kind {
            Kind::String => Scalar::Text(&text),
            Kind::Bool => match &*text {
                "true" => Scalar::Bool(true),
                "false" => Scalar::Bool(false),
                _ => return Err(self.mistyped("\"true\" or \"false\" as the key", "another string")),
            },
            kind => number::integer_key(kind, &text).map_err(|misfit| self.misfit(kind.name(), misfit))?,
        };
        self.sink.scalar(ValueContext::MapKey(field), scalar);
        Ok(())
    }

    /// One value of the field's kind.
    pub(super) fn one(
        &mut self,
        field: &FieldPlan,
        value: Value<'a>,
        place: ValueContext<'_>,
        depth_left: u16,
    ) -> Checked {
        match field.kind {
            Kind::Message(index) => self.message_value(index, value, place, depth_left),
            Kind::Enum(index) => {
                let plan = self.plan;
                self.enumeration(plan.enumeration(index), value, place)
            }
            kind => self.scalar(kind, value, place),
        }
    }

    fn scalar(&mut self, kind: Kind, value: Value<'a>, place: ValueContext<'_>) -> Checked {
        let bytes;
        let decoded;
        let scalar = match (kind, &value) {
            (Kind::String, Value::Text(text)) => {
                if !K::USES_VALUES {
                    return Ok(());
                }
                decoded = text.decoded();
                Scalar::Text(&decoded)
            }
            (Kind::Bool, Value::Bool(value)) => Scalar::Bool(*value),
            (Kind::Bytes, Value::Bytes(bytes)) => Scalar::Bytes(bytes),
            (Kind::Bytes, Value::Text(text)) if S::IS_TEXT => {
                bytes = self.base64(&text.decoded())?;
                Scalar::Bytes(&bytes)
            }
            (Kind::Double | Kind::Float, Value::Decimal(text))
                if !K::USES_VALUES && number::is_in_range(text, kind == Kind::Float) =>
            {
                return Ok(());
            }
            (Kind::Double, value) => {
                Scalar::Double(number::double(value, S::IS_TEXT).map_err(|misfit| self.misfit(kind.name(), misfit))?)
            }
            (Kind::Float, value) => {
                Scalar::Float(number::float(value, S::IS_TEXT).map_err(|misfit| self.misfit(kind.name(), misfit))?)
            }
            (Kind::String | Kind::Bool | Kind::Bytes, value) => {
                return Err(self.mistyped(kind.name(), value.describe()));
            }
            (_, Value::Text(text)) if S::IS_TEXT => {
                number::integer_text(kind, &text.decoded()).map_err(|misfit| self.misfit(kind.name(), misfit))?
            }
            (_, value) => number::integer(kind, value).map_err(|misfit| self.misfit(kind.name(), misfit))?,
        };
        if !(place.omits_default() && scalar.is_zero()) {
            self.sink.scalar(place, scalar);
        }
        Ok(())
    }

    fn base64(&mut self, text: &str) -> Checked<Cow<'static, [u8]>> {
        if !K::USES_VALUES && base64::is_valid(text) {
            return Ok(Cow::Borrowed(b""));
        }
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
        match base64::decode(text, &mut bytes) {
            Some(()) => Ok(Cow::Owned(bytes)),
            None => Err(self.mistyped("bytes in base64", "another string")),
        }
    }

    fn enumeration(&mut self, plan: &EnumPlan, value: Value<'a>, place: ValueContext<'_>) -> Checked {
        let number = match &value {
            Value::Null if plan.is_null => 0,
            Value::Text(text) => {
                let name = text.decoded();
                match plan.number_of(&name) {
                    Some(number) => number,
                    None => {
                        let offset = self.source.offset();
                        let expected = format!("a name of {}", plan.full_name);
                        return Err(Violation::new(Rule::Enumeration, offset, expected, "another string"));
                    }
                }
            }
            value => match number::integer(Kind::Int32, value) {
                Ok(Scalar::Int(number)) => number as i32,
                Ok(_) => 0,
                Err(misfit) => return Err(self.misfit("a name or number of an enumeration", misfit)),
            },
        };
        if (plan.is_closed || self.check.unknown_fields_refused) && !plan.has(number) {
            let expected = format!("a number of {}", plan.full_name);
            return Err(Violation::new(Rule::Enumeration, self.source.offset(), expected, "another"));
        }
        if !(number == 0 && place.omits_default()) {
            self.sink.enumeration(place, plan, number);
        }
        Ok(())
    }

    #[cold]
    pub(super) fn mistyped(&self, expected: &'static str, found: &'static str) -> Box<Violation> {
        Violation::new(Rule::Type, self.source.offset(), expected, found)
    }

    #[cold]
    pub(super) fn misfit(&self, expected: &'static str, (rule, found): number::NumberError) -> Box<Violation> {
        Violation::new(rule, self.source.offset(), expected, found)
    }
}

#[cold]
fn unknown_field(at: usize, name: &str) -> Box<Violation> {
    // A name is part of the payload, so only its length is reported.
    let found = format!("an unknown name of {} bytes", name.len());
    Violation::new(Rule::UnknownField, at, "a field of the schema", found)
}

impl EnumPlan {
    pub(crate) fn name_of(&self, number: i32) -> Option<&str> {
        let at = self.values.binary_search_by_key(&number, |(known, _)| *known).ok()?;
        Some(&self.values[at].1)
    }

    pub(crate) fn number_of(&self, name: &str) -> Option<i32> {
        let at = self.names.find(name.as_bytes())?;
        Some(self.by_name[usize::from(at.0)].1)
    }
}
