//! Writes messages in the binary form of Protocol Buffers.

use crate::plan::{EnumPlan, FieldPlan, Kind, MessagePlan};
use crate::sink::{AnyPosition, AnyScalar, AnyShape, Scalar, Sink, ValueContext};

/// Appends a message.
pub(crate) struct ProtobufSink<'o> {
    out: &'o mut Vec<u8>,
    /// Maximum length of `out`.
    end: usize,
    /// The offsets where the contents of open messages and packed lists begin; their length is inserted there.
    open: Vec<usize>,
}

impl<'o> ProtobufSink<'o> {
    /// Appends to `out` until it is longer than `end`.
    pub(crate) fn new(out: &'o mut Vec<u8>, end: usize) -> ProtobufSink<'o> {
        ProtobufSink { out, end, open: Vec::new() }
    }

    fn tag(&mut self, number: u32, wire_type: u8) {
        varint(u64::from(number) << 3 | u64::from(wire_type), self.out);
    }

    /// Writes the tag before a value, unless it is in a packed list or is the payload.
    fn before(&mut self, place: ValueContext<'_>) {
        let is_packed_item = matches!(place, ValueContext::Item(field) if field.packed);
        if let Some(field) = place.field().filter(|_| !is_packed_item) {
            self.tag(field.number, field.kind.wire_type());
        }
    }

    fn open(&mut self) {
        // Most are shorter than 128 bytes.
        self.out.push(0);
        self.open.push(self.out.len());
    }

    fn close(&mut self) {
        let Some(start) = self.open.pop() else { return };
        let length = self.out.len() - start;
        if length < 0x80 {
            self.out[start - 1] = length as u8;
            return;
        }
        let mut written = Vec::with_capacity(5);
        varint(length as u64, &mut written);
        self.out.splice(start - 1..start, written);
    }

    fn open_place(&mut self, place: ValueContext<'_>) {
        if let ValueContext::Root = place {
            return;
        }
        self.before(place);
        self.open();
    }

    fn close_place(&mut self, place: ValueContext<'_>) {
        if !matches!(place, ValueContext::Root) {
            self.close();
        }
    }

    fn open_any(&mut self, place: AnyPosition<'_>) {
        match place {
            AnyPosition::Outer(place) => self.open_place(place),
            AnyPosition::Item => {
                self.tag(1, 2);
                self.open();
            }
            AnyPosition::Entry(key) => {
                self.tag(1, 2);
                self.open();
                self.tag(1, 2);
                delimited(key.as_bytes(), self.out);
                self.tag(2, 2);
                self.open();
            }
        }
    }

    fn close_any(&mut self, place: AnyPosition<'_>) {
        match place {
            AnyPosition::Outer(place) => self.close_place(place),
            AnyPosition::Item => self.close(),
            AnyPosition::Entry(_) => {
                self.close();
                self.close();
            }
        }
    }
}

impl Sink for ProtobufSink<'_> {
    const USES_VALUES: bool = true;

    #[inline]
    fn is_full(&self) -> bool {
        self.out.len() > self.end
    }

    fn message_begin(&mut self, place: ValueContext<'_>, _: &MessagePlan) {
        self.open_place(place);
    }

    fn message_end(&mut self, place: ValueContext<'_>, _: &MessagePlan) {
        self.close_place(place);
    }

    fn list_begin(&mut self, field: &FieldPlan) {
        if field.packed {
            self.tag(field.number, 2);
            self.open();
        }
    }

    fn list_end(&mut self, field: &FieldPlan) {
        if field.packed {
            self.close();
        }
    }

    fn entry_begin(&mut self, field: &FieldPlan) {
        self.tag(field.number, 2);
        self.open();
    }

    fn entry_end(&mut self) {
        self.close();
    }

    fn scalar(&mut self, place: ValueContext<'_>, value: Scalar<'_>) {
        if matches!(place, ValueContext::WrapperValue(_)) && value.is_zero() {
            return;
        }
        self.before(place);
        let Some(kind) = place.field().map(|field| field.kind) else { return };
        match value {
            Scalar::Double(value) => self.out.extend_from_slice(&value.to_le_bytes()),
            Scalar::Float(value) => self.out.extend_from_slice(&value.to_le_bytes()),
            Scalar::Bool(value) => self.out.push(u8::from(value)),
            Scalar::Text(text) => delimited(text.as_bytes(), self.out),
            Scalar::Bytes(bytes) => delimited(bytes, self.out),
            Scalar::Int(value) => match kind {
                Kind::Sint32 | Kind::Sint64 => varint(((value << 1) ^ (value >> 63)) as u64, self.out),
                Kind::Sfixed32 => self.out.extend_from_slice(&(value as i32).to_le_bytes()),
                Kind::Sfixed64 => self.out.extend_from_slice(&value.to_le_bytes()),
                // Negative 32-bit numbers take ten bytes too.
                _ => varint(value as u64, self.out),
            },
            Scalar::Uint(value) => match kind {
                Kind::Fixed32 => self.out.extend_from_slice(&(value as u32).to_le_bytes()),
                Kind::Fixed64 => self.out.extend_from_slice(&value.to_le_bytes()),
                _ => varint(value, self.out),
            },
        }
    }

    fn enumeration(&mut self, place: ValueContext<'_>, _: &EnumPlan, number: i32) {
        self.before(place);
        varint(i64::from(number) as u64, self.out);
    }

    fn timestamp(&mut self, place: ValueContext<'_>, seconds: i64, nanos: u32) {
        self.open_place(place);
        seconds_and_nanos(seconds, i64::from(nanos), self.out);
        self.close_place(place);
    }

    fn duration(&mut self, place: ValueContext<'_>, seconds: i64, nanos: i32) {
        self.open_place(place);
        seconds_and_nanos(seconds, i64::from(nanos), self.out);
        self.close_place(place);
    }

    fn field_mask(&mut self, place: ValueContext<'_>, paths: &str) {
        self.open_place(place);
        for path in paths.split(',').filter(|path| !path.is_empty()) {
            self.tag(1, 2);
            delimited(path.as_bytes(), self.out);
        }
        self.close_place(place);
    }

    fn any_scalar(&mut self, place: AnyPosition<'_>, value: AnyScalar<'_>) {
        self.open_any(place);
        match value {
            AnyScalar::Null => self.out.extend_from_slice(&[0x08, 0]),
            AnyScalar::Number(value) => {
                self.tag(2, 1);
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            AnyScalar::Text(text) => {
                self.tag(3, 2);
                delimited(text.as_bytes(), self.out);
            }
            AnyScalar::Bool(value) => self.out.extend_from_slice(&[0x20, u8::from(value)]),
            // These occur only with a JSON Schema, which has no binary form.
            AnyScalar::Int(_) | AnyScalar::Uint(_) => {}
        }
        self.close_any(place);
    }

    fn any_begin(&mut self, place: AnyPosition<'_>, shape: AnyShape, wrapped: bool) {
        self.open_any(place);
        if wrapped {
            self.tag(if shape == AnyShape::Struct { 5 } else { 6 }, 2);
            self.open();
        }
    }

    fn any_end(&mut self, place: AnyPosition<'_>, _: AnyShape, wrapped: bool) {
        if wrapped {
            self.close();
        }
        self.close_any(place);
    }
}

/// `Timestamp` and `Duration` have the same fields.
fn seconds_and_nanos(seconds: i64, nanos: i64, out: &mut Vec<u8>) {
    for (tag, value) in [(0x08, seconds), (0x10, nanos)] {
        if value != 0 {
            out.push(tag);
            varint(value as u64, out);
        }
    }
}

fn delimited(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
