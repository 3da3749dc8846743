//! The interface of the readers of JSON and MessagePack.

use std::borrow::Cow;

use crate::plan::{Name, Names, Pass};
use crate::violation::{Checked, Rule, Violation};

/// A payload that is read value by value, in place.
pub(crate) trait Source<'a> {
    /// Whether 64-bit numbers, bytes and timestamps are strings.
    const IS_TEXT: bool;

    /// The read position.
    fn offset(&self) -> usize;

    /// The next value; for a list or a map, its beginning.
    fn value(&mut self) -> Checked<Value<'a>>;

    /// Whether the list has another item.
    fn item(&mut self, sequence: &mut Sequence) -> Checked<bool>;

    /// The next key of the map; `None` at its end.
    fn key(&mut self, sequence: &mut Sequence) -> Checked<Option<Text<'a>>>;

    /// Consumes the next key if it is `name`, in the usual spelling; returns whether it did. Comparing is cheaper than decoding.
    fn key_is(&mut self, sequence: &mut Sequence, name: &Name) -> bool;

    /// Skips the next value if `pass` has a fast path for it; returns whether it did. A value without one may still be valid.
    fn pass(&mut self, pass: Pass) -> bool;

    /// The same for a string that is one of `names`.
    fn pass_name(&mut self, names: &Names) -> bool;

    /// Consumes the beginning of a short map, if that is next.
    fn begin_map(&mut self) -> Option<Sequence>;

    /// Consumes the beginning of a short list, if that is next.
    fn begin_list(&mut self) -> Option<Sequence>;

    /// Checks that the payload ends here.
    fn end(&mut self) -> Checked;
}

/// The state of reading a list or map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sequence {
    /// Remaining items or entries, if the format has a count.
    pub(crate) left: u32,
    pub(crate) is_first: bool,
}

/// A value, or the beginning of one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above the range of `Int`.
    Uint(u64),
    /// A number with a fraction or an exponent, or beyond 64-bit integers, as written.
    Decimal(&'a str),
    Float(f64),
    Text(Text<'a>),
    Bytes(&'a [u8]),
    /// The seconds and nanoseconds of a timestamp.
    Timestamp(i64, u32),
    Extension,
    List(Sequence),
    Map(Sequence),
}

/// A string, which may contain escapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) raw: &'a str,
    pub(crate) is_escaped: bool,
}

impl<'a> Text<'a> {
    /// The string with escapes decoded.
    pub(crate) fn decoded(&self) -> Cow<'a, str> {
        if self.is_escaped { Cow::Owned(crate::json::unescaped(self.raw)) } else { Cow::Borrowed(self.raw) }
    }
}

impl Value<'_> {
    /// The kind of value, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Uint(_) => "an integer",
            Value::Decimal(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(..) => "a timestamp",
            Value::Extension => "an extension type",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Skips a value of which only the beginning has been read.
pub(crate) fn skip<'a>(source: &mut impl Source<'a>, value: Value<'a>, depth_left: u16) -> Checked {
    let (Value::List(mut sequence) | Value::Map(mut sequence)) = value else { return Ok(()) };
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err(too_deep(source.offset()));
    };
    let is_map = matches!(value, Value::Map(_));
    loop {
        let has_more = if is_map { source.key(&mut sequence)?.is_some() } else { source.item(&mut sequence)? };
        if !has_more {
            return Ok(());
        }
        let value = source.value()?;
        skip(source, value, depth_left)?;
    }
}

#[cold]
pub(crate) fn too_deep(offset: usize) -> Box<Violation> {
    Violation::new(Rule::Depth, offset, "values nested less deep", "one beyond the limit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonSource;

    #[test]
    fn a_value_that_is_skipped_is_still_checked() {
        for (text, good) in [(r#"{"a":[1,{"b":null}]}"#, true), (r#"{"a":[1,]}"#, false), (r#"[[[[]]]]"#, false)] {
            let mut source = JsonSource::new(text.as_bytes()).expect("valid");
            let value = source.value().expect("valid");
            assert_eq!(skip(&mut source, value, 3).and_then(|()| source.end()).is_ok(), good, "{text}");
        }
    }
}
