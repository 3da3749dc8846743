//! Writes messages in the canonical JSON mapping of Protocol Buffers.

use std::io::Write as _;

use super::string;
use crate::plan::{Cardinality, EnumPlan, FieldPlan, Kind, MessagePlan, WellKnown};
use crate::sink::{AnyPosition, AnyScalar, AnyShape, Scalar, Sink, ValueContext};
use crate::typed::{base64, time};

/// Text up to this length is written without checking the limit first.
const LONG_TEXT_BYTES: usize = 4 << 10;

/// Appends JSON.
pub(crate) struct JsonSink<'o> {
    out: &'o mut Vec<u8>,
    /// Maximum length of `out`.
    end: usize,
}

impl<'o> JsonSink<'o> {
    /// Appends to `out` until it is longer than `end`.
    pub(crate) fn new(out: &'o mut Vec<u8>, end: usize) -> JsonSink<'o> {
        JsonSink { out, end }
    }

    /// Writes a comma, unless this is the first item. The last byte shows it: a value never ends with `{`, `[` or `:`.
    fn comma(&mut self) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }

    /// Writes what precedes a value.
    fn before(&mut self, place: ValueContext<'_>) {
        match place {
            ValueContext::Root | ValueContext::MapValue(_) | ValueContext::WrapperValue(_) => {}
            ValueContext::Field(field) => self.name(field),
            ValueContext::Item(_) | ValueContext::MapKey(_) => self.comma(),
        }
    }

    fn name(&mut self, field: &FieldPlan) {
        self.comma();
        // Names in a schema need no escapes, but `json_name` may.
        string::write(&field.json_name, self.out);
        self.out.push(b':');
    }

    fn before_any(&mut self, place: AnyPosition<'_>) {
        match place {
            AnyPosition::Outer(place) => self.before(place),
            AnyPosition::Item => self.comma(),
            AnyPosition::Entry(key) => {
                self.comma();
                string::write(key, self.out);
                self.out.push(b':');
            }
        }
    }

    /// Escapes may make text six times as long, so the length of long text is checked first.
    fn text(&mut self, text: &str) {
        if text.len() > LONG_TEXT_BYTES && self.out.len() + string::written_len(text) > self.end {
            self.out.push(b'"');
            self.end = 0;
            return;
        }
        string::write(text, self.out);
    }

    fn quoted(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.out.push(b'"');
        write(self.out);
        self.out.push(b'"');
    }
}

impl Sink for JsonSink<'_> {
    const USES_VALUES: bool = true;

    #[inline]
    fn is_full(&self) -> bool {
        self.out.len() > self.end
    }

    fn message_begin(&mut self, place: ValueContext<'_>, message: &MessagePlan) {
        self.before(place);
        if message.well_known != Some(WellKnown::Wrapper) {
            self.out.push(b'{');
        }
    }

    fn message_end(&mut self, _: ValueContext<'_>, message: &MessagePlan) {
        if message.well_known != Some(WellKnown::Wrapper) {
            self.out.push(b'}');
        }
    }

    fn list_begin(&mut self, field: &FieldPlan) {
        self.name(field);
        self.out.push(if field.cardinality == Cardinality::Map { b'{' } else { b'[' });
    }

    fn list_end(&mut self, field: &FieldPlan) {
        self.out.push(if field.cardinality == Cardinality::Map { b'}' } else { b']' });
    }

    fn entry_begin(&mut self, _: &FieldPlan) {}

    fn entry_end(&mut self) {}

    fn scalar(&mut self, place: ValueContext<'_>, value: Scalar<'_>) {
        self.before(place);
        let is_key = matches!(place, ValueContext::MapKey(_));
        // 64-bit numbers are strings, since most JSON parsers store numbers as doubles.
        let is_wide = place.field().is_some_and(|field| {
            matches!(field.kind, Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64)
        });
        match value {
            Scalar::Text(text) => self.text(text),
            Scalar::Bytes(bytes) => self.quoted(|out| base64::encode(bytes, out)),
            Scalar::Double(value) => number(value, self.out),
            Scalar::Float(value) => short_number(value, self.out),
            Scalar::Int(value) if is_wide || is_key => self.quoted(|out| integer(value, out)),
            Scalar::Int(value) => integer(value, self.out),
            Scalar::Uint(value) if is_wide || is_key => self.quoted(|out| unsigned(value, out)),
            Scalar::Uint(value) => unsigned(value, self.out),
            Scalar::Bool(value) if is_key => self.quoted(|out| boolean(value, out)),
            Scalar::Bool(value) => boolean(value, self.out),
        }
        if is_key {
            self.out.push(b':');
        }
    }

    fn enumeration(&mut self, place: ValueContext<'_>, plan: &EnumPlan, number: i32) {
        self.before(place);
        match plan.name_of(number) {
            _ if plan.is_null => self.out.extend_from_slice(b"null"),
            Some(name) => string::write(name, self.out),
            None => integer(i64::from(number), self.out),
        }
    }

    fn timestamp(&mut self, place: ValueContext<'_>, seconds: i64, nanos: u32) {
        self.before(place);
        self.quoted(|out| time::write_timestamp(seconds, nanos, out));
    }

    fn duration(&mut self, place: ValueContext<'_>, seconds: i64, nanos: i32) {
        self.before(place);
        self.quoted(|out| time::write_duration(seconds, nanos, out));
    }

    fn field_mask(&mut self, place: ValueContext<'_>, paths: &str) {
        self.before(place);
        string::write(&crate::typed::camel_case(paths), self.out);
    }

    fn any_scalar(&mut self, place: AnyPosition<'_>, value: AnyScalar<'_>) {
        self.before_any(place);
        match value {
            AnyScalar::Null => self.out.extend_from_slice(b"null"),
            AnyScalar::Bool(value) => boolean(value, self.out),
            AnyScalar::Number(value) => number(value, self.out),
            AnyScalar::Int(value) => integer(value, self.out),
            AnyScalar::Uint(value) => unsigned(value, self.out),
            AnyScalar::Text(text) => self.text(text),
        }
    }

    fn any_begin(&mut self, place: AnyPosition<'_>, shape: AnyShape, _: bool) {
        self.before_any(place);
        self.out.push(if shape == AnyShape::Struct { b'{' } else { b'[' });
    }

    fn any_end(&mut self, _: AnyPosition<'_>, shape: AnyShape, _: bool) {
        self.out.push(if shape == AnyShape::Struct { b'}' } else { b']' });
    }
}

fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(value.unsigned_abs(), out);
}

fn unsigned(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes the shortest text that parses to the same number.
fn number(value: f64, out: &mut Vec<u8>) {
    if !written_otherwise(value, out) {
        // Writing to memory does not fail.
        let _ = if is_plain(value.abs()) { write!(out, "{value}") } else { write!(out, "{value:e}") };
    }
}

fn short_number(value: f32, out: &mut Vec<u8>) {
    if !written_otherwise(f64::from(value), out) {
        let _ = if is_plain(f64::from(value.abs())) { write!(out, "{value}") } else { write!(out, "{value:e}") };
    }
}

/// Whether a number is more readable without an exponent.
fn is_plain(magnitude: f64) -> bool {
    magnitude == 0.0 || (1e-5..1e17).contains(&magnitude)
}

/// Writes non-finite numbers by name, and small integers by a fast path.
fn written_otherwise(value: f64, out: &mut Vec<u8>) -> bool {
    const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    let name: &[u8] = match value {
        _ if value.is_nan() => b"\"NaN\"",
        f64::INFINITY => b"\"Infinity\"",
        f64::NEG_INFINITY => b"\"-Infinity\"",
        _ if value.trunc() == value && value.abs() < EXACT_BELOW && (value != 0.0 || value.is_sign_positive()) => {
            integer(value as i64, out);
            return true;
        }
        _ => return false,
    };
    out.extend_from_slice(name);
    true
}
