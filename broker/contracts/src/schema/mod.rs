//! JSON Schema 2020-12, limited to what one pass over a payload can check.

mod check;
mod compile;
mod shape;
mod text;

pub(crate) use check::check;
pub(crate) use compile::compile;
pub(crate) use shape::Shape;
pub(crate) use text::TextFormat;

use crate::plan::{Name, Names};

/// A schema, compiled for walking payloads.
#[derive(Debug)]
pub(crate) struct SchemaPlan {
    nodes: Box<[Node]>,
    root: NodeIndex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeIndex(u32);

/// A subschema.
#[derive(Debug, Default)]
struct Node {
    types: Types,
    /// The only allowed values.
    allowed: Option<Box<[Constant]>>,
    text: Option<Box<TextRules>>,
    number: Option<Box<NumberRules>>,
    list: Option<Box<ListRules>>,
    map: Option<Box<MapRules>>,
}

/// The allowed types of values, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NULL: Types = Types(1);
    const BOOLEAN: Types = Types(2);
    const INTEGER: Types = Types(4);
    /// Numbers with a fraction.
    const FRACTION: Types = Types(8);
    const TEXT: Types = Types(16);
    const LIST: Types = Types(32);
    const MAP: Types = Types(64);
    const NONE: Types = Types(0);

    fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// The type with this name in a schema.
    fn named(name: &str) -> Option<Types> {
        Some(match name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "integer" => Types::INTEGER,
            "number" => Types::INTEGER.with(Types::FRACTION),
            "string" => Types::TEXT,
            "array" => Types::LIST,
            "object" => Types::MAP,
            _ => return None,
        })
    }

    /// A description for messages.
    fn describe(self) -> String {
        let names = [
            (Types::NULL, "null"),
            (Types::BOOLEAN, "a boolean"),
            (Types::FRACTION, "a number"),
            (Types::INTEGER, "an integer"),
            (Types::TEXT, "a string"),
            (Types::LIST, "a list"),
            (Types::MAP, "a map"),
        ];
        let is_number = |kind: Types| kind == Types::INTEGER && self.has(Types::FRACTION);
        let found: Vec<_> =
            names.into_iter().filter(|(kind, _)| self.has(*kind) && !is_number(*kind)).map(|(_, name)| name).collect();
        if found.is_empty() { "nothing".to_owned() } else { found.join(" or ") }
    }
}

impl Default for Types {
    fn default() -> Types {
        Types(127)
    }
}

/// A constant in a schema.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
}

/// A number, exact if it is an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Fraction(f64),
}

#[derive(Debug, Default)]
struct TextRules {
    min_characters: Option<usize>,
    max_characters: Option<usize>,
    pattern: Option<regex_lite::Regex>,
    format: Option<TextFormat>,
}

#[derive(Debug, Default)]
struct NumberRules {
    minimum: Option<Number>,
    maximum: Option<Number>,
    above: Option<Number>,
    below: Option<Number>,
    multiple_of: Option<Number>,
}

#[derive(Debug, Default)]
struct ListRules {
    /// For the first items, one each.
    prefix: Box<[NodeIndex]>,
    /// For the other items.
    items: Option<NodeIndex>,
    min_items: usize,
    max_items: Option<usize>,
}

#[derive(Debug, Default)]
struct MapRules {
    names: Names,
    properties: Box<[(Name, NodeIndex)]>,
    /// Indices of properties.
    required: Box<[u16]>,
    /// For names that are not properties.
    additional: Additional,
    min_properties: usize,
    max_properties: Option<usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Additional {
    /// The schema has no rule for them.
    #[default]
    Unspecified,
    Refused,
    Like(NodeIndex),
}

impl SchemaPlan {
    fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.0 as usize]
    }
}

impl Number {
    /// An integer where possible: 1e3 and 1000 are equal.
    fn of(value: f64) -> Number {
        const EXACT_BELOW: f64 = 1e38;
        if value.trunc() == value && value.abs() < EXACT_BELOW {
            Number::Whole(value as i128)
        } else {
            Number::Fraction(value)
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Fraction(value) => value,
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.partial_cmp(b),
            (a, b) => a.as_f64().partial_cmp(&b.as_f64()),
        }
    }
}
