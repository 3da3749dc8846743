//! Writes messages as MessagePack: maps with JSON names, native types.

use crate::plan::{Cardinality, EnumPlan, FieldPlan, MessagePlan, WellKnown};
use crate::sink::{AnyPosition, AnyScalar, AnyShape, Scalar, Sink, ValueContext};
use crate::typed::time;

/// Appends MessagePack.
pub(crate) struct MessagePackSink<'o> {
    out: &'o mut Vec<u8>,
    /// Maximum length of `out`.
    end: usize,
    /// Open lists and maps, the innermost last.
    open: Vec<Open>,
}

/// A list or map whose length is written when it is closed.
#[derive(Debug, Clone, Copy)]
struct Open {
    header_at: usize,
    count: u32,
    is_map: bool,
}

/// The header of a list or map, with a two-byte length.
const HEADER_BYTES: usize = 3;
const SHORT_MAX: u32 = 15;

impl<'o> MessagePackSink<'o> {
    /// Appends to `out` until it is longer than `end`.
    pub(crate) fn new(out: &'o mut Vec<u8>, end: usize) -> MessagePackSink<'o> {
        MessagePackSink { out, end, open: Vec::new() }
    }

    fn counted(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.count += 1;
        }
    }

    fn before(&mut self, place: ValueContext<'_>) {
        match place {
            ValueContext::Root | ValueContext::MapValue(_) | ValueContext::WrapperValue(_) => {}
            ValueContext::Field(field) => {
                self.counted();
                text(&field.json_name, self.out);
            }
            ValueContext::Item(_) | ValueContext::MapKey(_) => self.counted(),
        }
    }

    fn before_any(&mut self, place: AnyPosition<'_>) {
        match place {
            AnyPosition::Outer(place) => self.before(place),
            AnyPosition::Item => self.counted(),
            AnyPosition::Entry(key) => {
                self.counted();
                text(key, self.out);
            }
        }
    }

    fn open(&mut self, is_map: bool) {
        self.open.push(Open { header_at: self.out.len(), count: 0, is_map });
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
    }

    fn close(&mut self) {
        let Some(Open { header_at, count, is_map }) = self.open.pop() else { return };
        let body_at = header_at + HEADER_BYTES;
        if count <= SHORT_MAX {
            self.out[header_at] = if is_map { 0x80 } else { 0x90 } | count as u8;
            self.out.copy_within(body_at.., header_at + 1);
            self.out.truncate(self.out.len() - (HEADER_BYTES - 1));
        } else if let Ok(count) = u16::try_from(count) {
            self.out[header_at] = if is_map { 0xde } else { 0xdc };
            self.out[header_at + 1..body_at].copy_from_slice(&count.to_be_bytes());
        } else {
            self.out[header_at] = if is_map { 0xdf } else { 0xdd };
            let bytes = count.to_be_bytes();
            self.out[header_at + 1..body_at].copy_from_slice(&bytes[..2]);
            self.out.splice(body_at..body_at, bytes[2..].iter().copied());
        }
    }
}

impl Sink for MessagePackSink<'_> {
    const USES_VALUES: bool = true;

    #[inline]
    fn is_full(&self) -> bool {
        // Headers that have not been closed may become shorter.
        self.out.len().saturating_sub(self.open.len() * (HEADER_BYTES - 1)) > self.end
    }

    fn message_begin(&mut self, place: ValueContext<'_>, message: &MessagePlan) {
        self.before(place);
        if message.well_known != Some(WellKnown::Wrapper) {
            self.open(true);
        }
    }

    fn message_end(&mut self, _: ValueContext<'_>, message: &MessagePlan) {
        if message.well_known != Some(WellKnown::Wrapper) {
            self.close();
        }
    }

    fn list_begin(&mut self, field: &FieldPlan) {
        self.before(ValueContext::Field(field));
        self.open(field.cardinality == Cardinality::Map);
    }

    fn list_end(&mut self, _: &FieldPlan) {
        self.close();
    }

    fn entry_begin(&mut self, _: &FieldPlan) {}

    fn entry_end(&mut self) {}

    fn scalar(&mut self, place: ValueContext<'_>, value: Scalar<'_>) {
        self.before(place);
        if let ValueContext::MapKey(_) = place {
            // Keys are strings, as in JSON, so that every reader supports the map.
            return match value {
                Scalar::Int(value) => text(&value.to_string(), self.out),
                Scalar::Uint(value) => text(&value.to_string(), self.out),
                Scalar::Bool(value) => text(if value { "true" } else { "false" }, self.out),
                Scalar::Text(value) => text(value, self.out),
                Scalar::Double(_) | Scalar::Float(_) | Scalar::Bytes(_) => {}
            };
        }
        match value {
            Scalar::Double(value) => {
                self.out.push(0xcb);
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            Scalar::Float(value) => {
                self.out.push(0xca);
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            Scalar::Int(value) => integer(value, self.out),
            Scalar::Uint(value) => unsigned(value, self.out),
            Scalar::Bool(value) => self.out.push(if value { 0xc3 } else { 0xc2 }),
            Scalar::Text(value) => text(value, self.out),
            Scalar::Bytes(value) => bytes(value, self.out),
        }
    }

    fn enumeration(&mut self, place: ValueContext<'_>, plan: &EnumPlan, number: i32) {
        self.before(place);
        match plan.name_of(number) {
            _ if plan.is_null => self.out.push(0xc0),
            Some(name) => text(name, self.out),
            None => integer(i64::from(number), self.out),
        }
    }

    fn timestamp(&mut self, place: ValueContext<'_>, seconds: i64, nanos: u32) {
        self.before(place);
        match (u32::try_from(seconds), nanos) {
            (Ok(seconds), 0) => {
                self.out.extend_from_slice(&[0xd6, 0xff]);
                self.out.extend_from_slice(&seconds.to_be_bytes());
            }
            _ if (0..1 << 34).contains(&seconds) => {
                self.out.extend_from_slice(&[0xd7, 0xff]);
                self.out.extend_from_slice(&(u64::from(nanos) << 34 | seconds as u64).to_be_bytes());
            }
            _ => {
                self.out.extend_from_slice(&[0xc7, 12, 0xff]);
                self.out.extend_from_slice(&nanos.to_be_bytes());
                self.out.extend_from_slice(&seconds.to_be_bytes());
            }
        }
    }

    fn duration(&mut self, place: ValueContext<'_>, seconds: i64, nanos: i32) {
        self.before(place);
        let mut written = Vec::new();
        time::write_duration(seconds, nanos, &mut written);
        text(&String::from_utf8_lossy(&written), self.out);
    }

    fn field_mask(&mut self, place: ValueContext<'_>, paths: &str) {
        self.before(place);
        text(&crate::typed::camel_case(paths), self.out);
    }

    fn any_scalar(&mut self, place: AnyPosition<'_>, value: AnyScalar<'_>) {
        self.before_any(place);
        match value {
            AnyScalar::Null => self.out.push(0xc0),
            AnyScalar::Bool(value) => self.out.push(if value { 0xc3 } else { 0xc2 }),
            AnyScalar::Number(value) => {
                self.out.push(0xcb);
                self.out.extend_from_slice(&value.to_be_bytes());
            }
            AnyScalar::Int(value) => integer(value, self.out),
            AnyScalar::Uint(value) => unsigned(value, self.out),
            AnyScalar::Text(value) => text(value, self.out),
        }
    }

    fn any_begin(&mut self, place: AnyPosition<'_>, shape: AnyShape, _: bool) {
        self.before_any(place);
        self.open(shape == AnyShape::Struct);
    }

    fn any_end(&mut self, _: AnyPosition<'_>, _: AnyShape, _: bool) {
        self.close();
    }
}

fn integer(value: i64, out: &mut Vec<u8>) {
    match value {
        0.. => unsigned(value as u64, out),
        -32..0 => out.push(value as u8),
        -0x80..-32 => out.extend_from_slice(&[0xd0, value as u8]),
        -0x8000..-0x80 => with_head(0xd1, &(value as i16).to_be_bytes(), out),
        -0x8000_0000..-0x8000 => with_head(0xd2, &(value as i32).to_be_bytes(), out),
        _ => with_head(0xd3, &value.to_be_bytes(), out),
    }
}

fn unsigned(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x80 => out.push(value as u8),
        0x80..0x100 => out.extend_from_slice(&[0xcc, value as u8]),
        0x100..0x1_0000 => with_head(0xcd, &(value as u16).to_be_bytes(), out),
        0x1_0000..0x1_0000_0000 => with_head(0xce, &(value as u32).to_be_bytes(), out),
        _ => with_head(0xcf, &value.to_be_bytes(), out),
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    match text.len() {
        length @ 0..32 => out.push(0xa0 | length as u8),
        length @ 32..0x100 => out.extend_from_slice(&[0xd9, length as u8]),
        length @ 0x100..0x1_0000 => with_head(0xda, &(length as u16).to_be_bytes(), out),
        length => with_head(0xdb, &(length as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(text.as_bytes());
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    match bytes.len() {
        length @ 0..0x100 => out.extend_from_slice(&[0xc4, length as u8]),
        length @ 0x100..0x1_0000 => with_head(0xc5, &(length as u16).to_be_bytes(), out),
        length => with_head(0xc6, &(length as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(bytes);
}

fn with_head(head: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(head);
    out.extend_from_slice(bytes);
}
