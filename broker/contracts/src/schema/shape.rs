//! A schema's view for comparison.

use super::{Additional, Constant, Node, NodeIndex, Number, SchemaPlan, Types};
use crate::compare::Effect;

/// A subschema.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'s> {
    plan: &'s SchemaPlan,
    index: NodeIndex,
}

/// A rule about values that can become stricter or looser.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Limit {
    /// Looser when it is smaller; absent means no limit.
    AtLeast(Option<Number>),
    /// Looser when it is greater.
    AtMost(Option<Number>),
    /// Absent means no constraint.
    Exactly(Option<String>),
    /// Only these values, if present.
    OneOf(Option<Vec<Constant>>),
}

impl SchemaPlan {
    pub(crate) fn shape(&self) -> Shape<'_> {
        Shape { plan: self, index: self.root }
    }
}

impl<'s> Shape<'s> {
    pub(crate) fn id(&self) -> usize {
        self.index.0 as usize
    }

    fn node(&self) -> &'s Node {
        self.plan.node(self.index)
    }

    fn at(&self, index: NodeIndex) -> Shape<'s> {
        Shape { plan: self.plan, index }
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &'static str> + use<'s> {
        let types = self.node().types;
        [
            (Types::NULL, "null"),
            (Types::BOOLEAN, "a boolean"),
            (Types::INTEGER, "an integer"),
            (Types::FRACTION, "a number with a fraction"),
            (Types::TEXT, "a string"),
            (Types::LIST, "a list"),
            (Types::MAP, "a map"),
        ]
        .into_iter()
        .filter(move |(kind, _)| types.has(*kind))
        .map(|(_, name)| name)
    }

    /// The name, schema and required flag of each property.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&'s str, Shape<'s>, bool)> + use<'s> {
        let shape = *self;
        self.node().map.iter().flat_map(move |rules| {
            rules
                .properties
                .iter()
                .enumerate()
                .map(move |(at, (name, node))| (&**name, shape.at(*node), rules.required.contains(&(at as u16))))
        })
    }

    pub(crate) fn property(&self, name: &str) -> Option<(Shape<'s>, bool)> {
        self.properties().find(|(known, ..)| *known == name).map(|(_, shape, required)| (shape, required))
    }

    /// Whether unlisted names are rejected.
    pub(crate) fn is_closed(&self) -> bool {
        self.node().map.as_ref().is_some_and(|rules| rules.additional == Additional::Refused)
    }

    pub(crate) fn items(&self) -> Option<Shape<'s>> {
        self.node().list.as_ref()?.items.map(|items| self.at(items))
    }

    /// Each rule with its value here and in `new`.
    pub(crate) fn limits(&self, new: Shape<'_>) -> impl Iterator<Item = (&'static str, Limit, Limit)> {
        self.own_limits().into_iter().zip(new.own_limits()).map(|((name, old), (_, new))| (name, old, new))
    }

    fn own_limits(&self) -> [(&'static str, Limit); 15] {
        let node = self.node();
        let count = |count: usize| Some(Number::Whole(count as i128));
        let (text, number) = (node.text.as_deref(), node.number.as_deref());
        let (list, map) = (node.list.as_deref(), node.map.as_deref());
        [
            ("enum", Limit::OneOf(node.allowed.as_ref().map(|allowed| allowed.to_vec()))),
            ("minLength", Limit::AtLeast(text.and_then(|rules| rules.min_characters).and_then(count))),
            ("maxLength", Limit::AtMost(text.and_then(|rules| rules.max_characters).and_then(count))),
            (
                "pattern",
                Limit::Exactly(
                    text.and_then(|rules| rules.pattern.as_ref()).map(|pattern| pattern.as_str().to_owned()),
                ),
            ),
            ("format", Limit::Exactly(text.and_then(|rules| rules.format).map(|format| format!("{format:?}")))),
            ("minimum", Limit::AtLeast(number.and_then(|rules| rules.minimum))),
            ("maximum", Limit::AtMost(number.and_then(|rules| rules.maximum))),
            ("exclusiveMinimum", Limit::AtLeast(number.and_then(|rules| rules.above))),
            ("exclusiveMaximum", Limit::AtMost(number.and_then(|rules| rules.below))),
            (
                "multipleOf",
                Limit::Exactly(number.and_then(|rules| rules.multiple_of).map(|divisor| divisor.as_f64().to_string())),
            ),
            ("minItems", Limit::AtLeast(list.and_then(|rules| count(rules.min_items)))),
            ("maxItems", Limit::AtMost(list.and_then(|rules| rules.max_items).and_then(count))),
            ("minProperties", Limit::AtLeast(map.and_then(|rules| count(rules.min_properties)))),
            ("maxProperties", Limit::AtMost(map.and_then(|rules| rules.max_properties).and_then(count))),
            (
                "prefixItems",
                Limit::Exactly(list.map(|rules| rules.prefix.len().to_string()).filter(|count| count != "0")),
            ),
        ]
    }
}

impl Limit {
    /// The effect of the change to `new`, if it is one.
    pub(crate) fn change_to(&self, new: Limit) -> Option<Effect> {
        if *self == new {
            return None;
        }
        Some(match (self, &new) {
            (Limit::AtLeast(old), Limit::AtLeast(new)) => match (old, new) {
                (None, _) => Effect::OldWriters,
                (_, None) => Effect::OldReaders,
                (Some(old), Some(new)) if new > old => Effect::OldWriters,
                _ => Effect::OldReaders,
            },
            (Limit::AtMost(old), Limit::AtMost(new)) => match (old, new) {
                (None, _) => Effect::OldWriters,
                (_, None) => Effect::OldReaders,
                (Some(old), Some(new)) if new < old => Effect::OldWriters,
                _ => Effect::OldReaders,
            },
            (Limit::Exactly(None), _) | (Limit::OneOf(None), _) => Effect::OldWriters,
            (_, Limit::Exactly(None) | Limit::OneOf(None)) => Effect::OldReaders,
            (Limit::OneOf(Some(old)), Limit::OneOf(Some(new))) => {
                let lost = old.iter().any(|value| !new.contains(value));
                let won = new.iter().any(|value| !old.contains(value));
                match (lost, won) {
                    (true, true) => Effect::Both,
                    (true, false) => Effect::OldWriters,
                    _ => Effect::OldReaders,
                }
            }
            _ => Effect::Both,
        })
    }
}
