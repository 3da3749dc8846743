//! Values as they come: what JSON and MessagePack have in common.

use std::borrow::Cow;

use crate::plan::{Name, Names, Pass};
use crate::violation::{Checked, Rule, Violation};

/// A payload that is read value by value, in place.
pub(crate) trait Source<'a> {
    /// Whether numbers of 64 bits, bytes and moments of time are written as text.
    const IS_TEXT: bool;

    /// The offset of what is read next.
    fn offset(&self) -> usize;

    /// The next value; for a list or a map, its beginning.
    fn value(&mut self) -> Checked<Value<'a>>;

    /// Whether the list goes on.
    fn item(&mut self, sequence: &mut Sequence) -> Checked<bool>;

    /// The next key of the map; `None` where it ends.
    fn key(&mut self, sequence: &mut Sequence) -> Checked<Option<Text<'a>>>;

    /// Reads the next key if it is `name`, in the usual spelling; says whether it has. To be right costs less than to read.
    fn key_is(&mut self, sequence: &mut Sequence, name: &Name) -> bool;

    /// Reads past the next value if it is one that `pass` tells at a glance; says whether it has. Others need be no fault.
    fn pass(&mut self, pass: Pass) -> bool;

    /// The same for a text that is one of `names`.
    fn pass_name(&mut self, names: &Names) -> bool;

    /// Reads the beginning of a short map, if that is next.
    fn begin_map(&mut self) -> Option<Sequence>;

    /// Reads the beginning of a short list, if that is next.
    fn begin_list(&mut self) -> Option<Sequence>;

    /// The payload ends here.
    fn end(&mut self) -> Checked;
}

/// How far a list or map has been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sequence {
    /// Items or entries that are to come, where the format says how many there are.
    pub(crate) left: u32,
    pub(crate) is_first: bool,
}

/// A value, or the beginning of one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Above what `Int` can hold.
    Uint(u64),
    /// A number with a fraction or an exponent, or one that no integer can hold, as it is written.
    Decimal(&'a str),
    Float(f64),
    Text(Text<'a>),
    Bytes(&'a [u8]),
    /// The seconds and nanoseconds of a moment of time.
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
    /// Without escapes.
    pub(crate) fn decoded(&self) -> Cow<'a, str> {
        if self.is_escaped { Cow::Owned(crate::json::unescaped(self.raw)) } else { Cow::Borrowed(self.raw) }
    }
}

impl Value<'_> {
    /// What it is, for messages.
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

/// Reads past a value of which only the beginning has been read.
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
            let mut source = JsonSource::new(text.as_bytes()).expect("it is right");
            let value = source.value().expect("it is right");
            assert_eq!(skip(&mut source, value, 3).and_then(|()| source.end()).is_ok(), good, "{text}");
        }
    }
}
