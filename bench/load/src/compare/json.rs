//! Writes result files: one line for each value up to a depth, and deeper values within that line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::failure::{ErrorContext, Result};

/// Values at this depth are on one line: metrics in a summary, histograms.
const INLINE_FROM_DEPTH: usize = 4;

pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    let mut bytes = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, ShallowFormatter { depth: 0, is_empty: true }))
        .during(|| "writing JSON".to_owned())?;
    bytes.push(b'\n');
    String::from_utf8(bytes).during(|| "writing JSON".to_owned())
}

struct ShallowFormatter {
    depth: usize,
    is_empty: bool,
}

impl ShallowFormatter {
    fn begin<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        writer.write_all(bracket)
    }

    fn element<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            writer.write_all(if self.depth > INLINE_FROM_DEPTH { b", " } else { b"," })?;
        }
        self.break_line(writer)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        let was_inline = self.depth > INLINE_FROM_DEPTH;
        self.depth -= 1;
        if !self.is_empty && !was_inline {
            writer.write_all(b"\n")?;
            self.indent(writer)?;
        }
        self.is_empty = false;
        writer.write_all(bracket)
    }

    fn break_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        if self.depth > INLINE_FROM_DEPTH {
            return Ok(());
        }
        writer.write_all(b"\n")?;
        self.indent(writer)
    }

    fn indent<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for ShallowFormatter {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.element(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.begin(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.element(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn compact_output_has_the_same_value_with_nested_objects_on_one_line() {
        let value = json!({"a": [], "b": {"c": {"d": {"e": [1, {"f": [2, 3]}], "g": {}}}}, "h": "x\ny"});
        let text = to_json(&value).expect("serialises");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("valid"), value);
        assert!(text.contains("\"a\": [],\n"), "{text}");
        assert!(text.contains("        \"e\": [1, {\"f\": [2, 3]}],\n        \"g\": {}\n      }\n"), "{text}");
    }
}
