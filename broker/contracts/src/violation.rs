//! What is wrong with a payload, said so that its sender can mend it.

use std::borrow::Cow;
use std::fmt;

/// A payload breaks its contract: where, what was expected there, and what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What kind of fault it is.
    pub rule: Rule,
    /// The offset in the payload at which it was found, in bytes.
    pub offset: usize,
    /// From the innermost field out, as it is found while leaving the walk.
    path: Vec<Step>,
    expected: Cow<'static, str>,
    found: Cow<'static, str>,
}

/// A part of the way to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(Box<str>),
    Index(usize),
}

/// Kinds of violations, with names that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The payload is not what its format says: cut short, a length past the end, a bad token.
    Malformed,
    /// A string is not UTF-8.
    Utf8,
    /// A value of another type than the field's.
    Type,
    /// A number that the field's type, or its limits, cannot hold.
    Range,
    /// A length, count or size beyond the limits of the schema.
    Length,
    /// A value that is not among those that may stand there.
    Enumeration,
    /// A string that does not match its pattern.
    Pattern,
    /// A string that is not of its format, such as a date or an identifier.
    TextFormat,
    /// A field that must be there is missing.
    Required,
    /// A field that the schema does not know.
    UnknownField,
    /// A field, or another of the same choice, stands there twice.
    Duplicate,
    /// A group, which no contract may use.
    Group,
    /// Nested deeper than the limit.
    Depth,
    /// Bytes after the end of the value.
    Trailing,
    /// Items that must differ are equal.
    Unique,
    /// A value fits none, or more than one, of the alternatives.
    Alternatives,
    /// A level of the topic differs from the field it is tied to.
    TopicTie,
    /// The content type names a format that the contract does not list.
    Format,
    /// The payload in another format would be larger than it may be. No payload breaks its contract by that.
    TooLarge,
}

impl Rule {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Rule::Malformed => "malformed",
            Rule::Utf8 => "utf8",
            Rule::Type => "type",
            Rule::Range => "range",
            Rule::Length => "length",
            Rule::Enumeration => "enumeration",
            Rule::Pattern => "pattern",
            Rule::TextFormat => "text_format",
            Rule::Required => "required",
            Rule::UnknownField => "unknown_field",
            Rule::Duplicate => "duplicate",
            Rule::Group => "group",
            Rule::Depth => "depth",
            Rule::Trailing => "trailing",
            Rule::Unique => "unique",
            Rule::Alternatives => "alternatives",
            Rule::TopicTie => "topic_tie",
            Rule::Format => "format",
            Rule::TooLarge => "too_large",
        }
    }
}

/// What a walk gives: boxed, so that the way without a fault stays short.
pub(crate) type Checked<T = ()> = Result<T, Box<Violation>>;

impl Violation {
    #[cold]
    pub(crate) fn new(
        rule: Rule,
        offset: usize,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) -> Box<Violation> {
        Box::new(Violation { rule, offset, path: Vec::new(), expected: expected.into(), found: found.into() })
    }

    /// The same, found inside `field`.
    #[cold]
    pub(crate) fn inside(mut self: Box<Violation>, field: &str) -> Box<Violation> {
        self.path.push(Step::Field(field.into()));
        self
    }

    /// The same, found inside an item of a list.
    #[cold]
    pub(crate) fn inside_item(mut self: Box<Violation>, index: usize) -> Box<Violation> {
        self.path.push(Step::Index(index));
        self
    }

    /// The way to the field, such as `readings[2].unit`; empty for the payload itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.path.iter().rev() {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// What should have been there.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What was there. Never a value of the payload, only what kind of value it is.
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        write!(f, "expected {}, found {} at byte {} [{}]", self.expected, self.found, self.offset, self.rule.code())
    }
}

impl std::error::Error for Violation {}
