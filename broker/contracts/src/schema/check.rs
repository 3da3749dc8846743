//! Checks a payload in JSON or MessagePack in one pass.

use super::{Additional, Constant, ListRules, MapRules, NodeIndex, Number, NumberRules, SchemaPlan, TextRules, Types};
use crate::source::{self, Sequence, Source, Text, Value};
use crate::violation::{Checked, Rule, Violation};

/// Checks beyond the schema of a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaCheck {
    /// Reject properties that the schema does not list, if it has no additionalProperties.
    pub(crate) unknown_fields_refused: bool,
    /// Maximum nesting of lists and maps.
    pub(crate) depth_max: u16,
}

/// Checks the whole payload.
pub(crate) fn check<'a>(
    plan: &SchemaPlan,
    source: &mut impl Source<'a>,
    check: crate::protobuf::PayloadCheck,
) -> Checked {
    let check = SchemaCheck { unknown_fields_refused: check.unknown_fields_refused, depth_max: check.depth_max };
    let mut walk = Walk { plan, check, source };
    walk.value(plan.root, check.depth_max)?;
    walk.source.end()
}

struct Walk<'w, S> {
    plan: &'w SchemaPlan,
    check: SchemaCheck,
    source: &'w mut S,
}

/// The properties that have been seen: one bit each. A schema has at most this many for a map.
struct SeenFields([u64; SeenFields::WORDS]);

impl SeenFields {
    const WORDS: usize = 16;

    fn first(&mut self, at: usize) -> bool {
        let word = &mut self.0[at / 64 % SeenFields::WORDS];
        let first = *word & 1 << (at % 64) == 0;
        *word |= 1 << (at % 64);
        first
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64 % SeenFields::WORDS] & 1 << (at % 64) != 0
    }
}

impl<'a, 'w, S: Source<'a>> Walk<'w, S> {
    fn value(&mut self, index: NodeIndex, depth_left: u16) -> Checked {
        let value = self.source.value()?;
        let plan = self.plan;
        let node = plan.node(index);
        if !node.types.has(type_of(&value)) {
            let found = value.describe();
            return Err(Violation::new(Rule::Type, self.source.offset(), node.types.describe(), found));
        }
        if let Some(allowed) = &node.allowed
            && !allowed.iter().any(|constant| constant.is(&value))
        {
            return Err(self.wrong(Rule::Enumeration, "one of the values in the schema"));
        }
        match value {
            Value::Text(text) => node.text.as_ref().map_or(Ok(()), |rules| self.text(rules, &text)),
            Value::Int(_) | Value::Uint(_) | Value::Decimal(_) | Value::Float(_) => {
                node.number.as_ref().map_or(Ok(()), |rules| self.number(rules, &value))
            }
            Value::List(sequence) => match &node.list {
                Some(rules) => self.list(rules, sequence, depth_left),
                None => source::skip(self.source, value, depth_left),
            },
            Value::Map(sequence) => match &node.map {
                Some(rules) => self.map(rules, sequence, depth_left),
                None if self.check.unknown_fields_refused => self.map(&MapRules::default(), sequence, depth_left),
                None => source::skip(self.source, value, depth_left),
            },
            _ => Ok(()),
        }
    }

    fn text(&mut self, rules: &TextRules, text: &Text<'a>) -> Checked {
        let text = text.decoded();
        if rules.min_characters.is_some() || rules.max_characters.is_some() {
            let characters = text.chars().count();
            if rules.min_characters.is_some_and(|least| characters < least) {
                return Err(self.wrong(Rule::Length, "a longer string"));
            }
            if rules.max_characters.is_some_and(|most| characters > most) {
                return Err(self.wrong(Rule::Length, "a shorter string"));
            }
        }
        if rules.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(&text)) {
            return Err(self.wrong(Rule::Pattern, "a string that matches the pattern"));
        }
        if rules.format.is_some_and(|format| !format.fits(&text)) {
            return Err(self.wrong(Rule::TextFormat, "a string of the format"));
        }
        Ok(())
    }

    fn number(&mut self, rules: &NumberRules, value: &Value<'a>) -> Checked {
        let Some(value) = number(value) else { return Err(self.wrong(Rule::Range, "a number")) };
        let is = |limit: Option<Number>, wrong: fn(&Number, &Number) -> bool| {
            limit.is_some_and(|limit| wrong(&value, &limit))
        };
        if is(rules.minimum, |value, least| value < least) || is(rules.above, |value, limit| value <= limit) {
            return Err(self.wrong(Rule::Range, "a greater number"));
        }
        if is(rules.maximum, |value, most| value > most) || is(rules.below, |value, limit| value >= limit) {
            return Err(self.wrong(Rule::Range, "a smaller number"));
        }
        if rules.multiple_of.is_some_and(|divisor| !is_multiple(value, divisor)) {
            return Err(self.wrong(Rule::Range, "a multiple of the schema's multipleOf"));
        }
        Ok(())
    }

    fn list(&mut self, rules: &ListRules, mut sequence: Sequence, depth_left: u16) -> Checked {
        let Some(depth_left) = depth_left.checked_sub(1) else { return Err(source::too_deep(self.source.offset())) };
        let mut count = 0;
        while self.source.item(&mut sequence)? {
            if rules.max_items.is_some_and(|most| count >= most) {
                return Err(self.wrong(Rule::Length, "fewer items"));
            }
            match rules.prefix.get(count).copied().or(rules.items) {
                Some(item) => self.value(item, depth_left).map_err(|violation| violation.inside_item(count))?,
                None => {
                    let value = self.source.value()?;
                    source::skip(self.source, value, depth_left)?;
                }
            }
            count += 1;
        }
        if count < rules.min_items { Err(self.wrong(Rule::Length, "more items")) } else { Ok(()) }
    }

    fn map(&mut self, rules: &MapRules, mut sequence: Sequence, depth_left: u16) -> Checked {
        let Some(depth_left) = depth_left.checked_sub(1) else { return Err(source::too_deep(self.source.offset())) };
        let mut met = SeenFields([0; SeenFields::WORDS]);
        let mut count = 0;
        // Keys mostly come in schema order.
        let mut next = 0;
        loop {
            let found = match rules.properties.get(next) {
                Some((name, _)) if self.source.key_is(&mut sequence, name) => Ok(next),
                _ => match self.source.key(&mut sequence)? {
                    None => break,
                    Some(name) => {
                        let name = name.decoded();
                        rules.names.find(name.as_bytes()).map(|index| usize::from(index.0)).ok_or(name)
                    }
                },
            };
            if rules.max_properties.is_some_and(|most| count >= most) {
                return Err(self.wrong(Rule::Length, "fewer fields"));
            }
            count += 1;
            match found {
                Ok(at) => {
                    next = at + 1;
                    let (name, node) = &rules.properties[at];
                    if !met.first(at) {
                        return Err(self.wrong(Rule::Duplicate, "one value").inside(name));
                    }
                    self.value(*node, depth_left).map_err(|violation| violation.inside(name))?;
                }
                Err(name) => self.additional(rules.additional, &name, depth_left)?,
            }
        }
        for at in &rules.required {
            if !met.has(usize::from(*at)) {
                let missing = Violation::new(Rule::Required, self.source.offset(), "a required value", "none");
                return Err(missing.inside(&rules.properties[usize::from(*at)].0));
            }
        }
        if count < rules.min_properties { Err(self.wrong(Rule::Length, "more fields")) } else { Ok(()) }
    }

    fn additional(&mut self, rule: Additional, name: &str, depth_left: u16) -> Checked {
        match rule {
            Additional::Like(node) => self.value(node, depth_left).map_err(|violation| violation.inside(name)),
            Additional::Unspecified if !self.check.unknown_fields_refused => {
                let value = self.source.value()?;
                source::skip(self.source, value, depth_left)
            }
            Additional::Unspecified | Additional::Refused => {
                let found = format!("an unknown name of {} bytes", name.len());
                Err(Violation::new(Rule::UnknownField, self.source.offset(), "a field of the schema", found))
            }
        }
    }

    #[cold]
    fn wrong(&self, rule: Rule, expected: &'static str) -> Box<Violation> {
        Violation::new(rule, self.source.offset(), expected, "another")
    }
}

fn type_of(value: &Value<'_>) -> Types {
    match value {
        Value::Null => Types::NULL,
        Value::Bool(_) => Types::BOOLEAN,
        Value::Int(_) | Value::Uint(_) => Types::INTEGER,
        // A number without a fraction is an integer, in any notation.
        Value::Float(value) if value.trunc() == *value => Types::INTEGER,
        Value::Float(value) if value.is_finite() => Types::FRACTION,
        Value::Decimal(text) => match text.parse::<f64>() {
            Ok(value) if value.trunc() == value => Types::INTEGER,
            _ => Types::FRACTION,
        },
        Value::Text(_) => Types::TEXT,
        Value::List(_) => Types::LIST,
        Value::Map(_) => Types::MAP,
        // JSON cannot represent these.
        Value::Float(_) | Value::Bytes(_) | Value::Timestamp(..) | Value::Extension => Types::NONE,
    }
}

fn number(value: &Value<'_>) -> Option<Number> {
    Some(match value {
        Value::Int(value) => Number::Whole(i128::from(*value)),
        Value::Uint(value) => Number::Whole(i128::from(*value)),
        Value::Float(value) => Number::of(*value),
        Value::Decimal(text) => match text.parse() {
            Ok(whole) => Number::Whole(whole),
            Err(_) => Number::of(text.parse().ok()?),
        },
        _ => return None,
    })
}

fn is_multiple(value: Number, divisor: Number) -> bool {
    match (value, divisor) {
        (Number::Whole(value), Number::Whole(divisor)) => value % divisor == 0,
        (value, divisor) => {
            let quotient = value.as_f64() / divisor.as_f64();
            // 0.3 is a multiple of 0.1, although their binary quotient is not an integer.
            (quotient - quotient.round()).abs() <= f64::EPSILON * quotient.abs()
        }
    }
}

impl Constant {
    fn is(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Constant::Null, Value::Null) => true,
            (Constant::Bool(a), Value::Bool(b)) => a == b,
            (Constant::Text(a), Value::Text(b)) => *b.decoded() == **a,
            (Constant::Number(a), value) => {
                number(value).is_some_and(|b| a.partial_cmp(&b) == Some(std::cmp::Ordering::Equal))
            }
            _ => false,
        }
    }
}
