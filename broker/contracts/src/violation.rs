//! Violations of a contract, described so that the sender can fix them.

use std::borrow::Cow;
use std::fmt;

/// A violation of a contract: where, what was expected, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The kind of violation.
    pub rule: Rule,
    /// The offset in the payload at which it was found, in bytes.
    pub offset: usize,
    /// From the innermost field outwards, as it is built while the walk returns.
    path: Vec<Step>,
    expected: Cow<'static, str>,
    found: Cow<'static, str>,
}

/// A step of the path to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(Box<str>),
    Index(usize),
}

/// Kinds of violations, with stable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The payload is malformed in its format: truncated, a length past the end, a bad token.
    Malformed,
    /// A string is not UTF-8.
    Utf8,
    /// A value does not have the field's type.
    Type,
    /// A number is out of range for the field's type or its limits.
    Range,
    /// A length, count or size is beyond the limits of the schema.
    Length,
    /// A value is not one of the allowed ones.
    Enumeration,
    /// A string does not match its pattern.
    Pattern,
    /// A string does not have its format, such as a date or an identifier.
    TextFormat,
    /// A required field is missing.
    Required,
    /// A field is not in the schema.
    UnknownField,
    /// A field, or another of the same oneof, is repeated.
    Duplicate,
    /// A group, which is not supported.
    Group,
    /// Nested deeper than the limit.
    Depth,
    /// Bytes after the end of the value.
    Trailing,
    /// Items that must differ are equal.
    Unique,
    /// A value matches none, or more than one, of the alternatives.
    Alternatives,
    /// A level of the topic differs from the field that it is tied to.
    TopicFieldMismatch,
    /// The content type names a format that the contract does not list.
    Format,
    /// The payload would exceed the limit in another format. This is not a violation by the payload.
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
            Rule::TopicFieldMismatch => "topic_field_mismatch",
            Rule::Format => "format",
            Rule::TooLarge => "too_large",
        }
    }
}

/// The result of a walk: boxed, so that the fast path stays small.
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

    /// Adds `field` in front of the path.
    #[cold]
    pub(crate) fn inside(mut self: Box<Violation>, field: &str) -> Box<Violation> {
        self.path.push(Step::Field(field.into()));
        self
    }

    /// Adds a list index in front of the path.
    #[cold]
    pub(crate) fn inside_item(mut self: Box<Violation>, index: usize) -> Box<Violation> {
        self.path.push(Step::Index(index));
        self
    }

    /// The path of the field, such as `readings[2].unit`; empty for the payload itself.
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

    /// What was expected.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What was found. Never a value of the payload, only its kind.
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
