//! A streaming MessagePack reader.

use super::quick_check;
use crate::plan::{Name, Names, Pass};
use crate::source::{Sequence, Source, Text, Value};
use crate::violation::{Checked, Rule, Violation};

/// A MessagePack payload, and the read position.
pub(crate) struct MessagePackSource<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The extension type of a timestamp.
const TIMESTAMP: i8 = -1;
/// Maximum length of a string with its length in the first byte.
const SHORT_TEXT_MAX: usize = 31;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

impl<'a> MessagePackSource<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> MessagePackSource<'a> {
        MessagePackSource { bytes: payload, at: 0 }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Checked<[u8; N]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.cut_short()),
        }
    }

    /// Reads a length of `N` bytes.
    #[inline]
    fn length<const N: usize>(&mut self) -> Checked<usize> {
        let bytes = self.array::<N>()?;
        Ok(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Checked<&'a [u8]> {
        match self.at.checked_add(length).and_then(|end| self.bytes.get(self.at..end)) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.cut_short()),
        }
    }

    #[inline]
    fn text(&mut self, length: usize) -> Checked<Text<'a>> {
        let start = self.at;
        match core::str::from_utf8(self.take(length)?) {
            Ok(raw) => Ok(Text { raw, is_escaped: false }),
            Err(error) => Err(Violation::new(Rule::Utf8, start + error.valid_up_to(), "UTF-8", "invalid bytes")),
        }
    }

    /// A list or map of `count` items of at least `each` bytes; rejects more than the remaining bytes can hold.
    fn sequence(&mut self, count: usize, each: usize) -> Checked<Sequence> {
        let left = self.bytes.len() - self.at;
        match u32::try_from(count) {
            Ok(items) if count.saturating_mul(each) <= left => Ok(Sequence { left: items, is_first: true }),
            _ => Err(self.cut_short()),
        }
    }

    /// A list or map whose count is in its first byte, together with `mark`.
    #[inline]
    fn begin(&mut self, mark: u8, each: usize) -> Option<Sequence> {
        let first = *self.bytes.get(self.at)?;
        let count = first & 0x0f;
        let is_right = first & 0xf0 == mark && usize::from(count) * each < self.bytes.len() - self.at;
        self.at += usize::from(is_right);
        is_right.then_some(Sequence { left: u32::from(count), is_first: true })
    }

    fn extension(&mut self, length: usize) -> Checked<Value<'a>> {
        let start = self.at;
        let [kind] = self.array::<1>()?;
        let data = self.take(length)?;
        if kind as i8 != TIMESTAMP {
            return Ok(Value::Extension);
        }
        let (seconds, nanos) =
            match (data.first_chunk::<4>(), data.first_chunk::<8>(), data.first_chunk::<12>(), length) {
                (Some(seconds), .., 4) => (i64::from(u32::from_be_bytes(*seconds)), 0),
                (_, Some(both), _, 8) => {
                    let both = u64::from_be_bytes(*both);
                    ((both & 0x3_FFFF_FFFF) as i64, (both >> 34) as u32)
                }
                (.., Some([a, b, c, d, seconds @ ..]), 12) => {
                    (i64::from_be_bytes(*seconds), u32::from_be_bytes([*a, *b, *c, *d]))
                }
                _ => {
                    return Err(Violation::new(
                        Rule::Malformed,
                        start,
                        "a timestamp of 4, 8 or 12 bytes",
                        "another length",
                    ));
                }
            };
        if nanos >= NANOS_PER_SECOND {
            return Err(Violation::new(Rule::Range, start, "at most 999,999,999 nanoseconds", "more"));
        }
        Ok(Value::Timestamp(seconds, nanos))
    }

    #[cold]
    fn cut_short(&self) -> Box<Violation> {
        Violation::new(Rule::Malformed, self.at, "a value within the payload", "one that ends after it")
    }

    fn key_text(&mut self) -> Checked<Text<'a>> {
        let at = self.at;
        match self.value()? {
            Value::Text(text) => Ok(text),
            other => Err(Violation::new(Rule::Type, at, "a string as the key", other.describe())),
        }
    }
}

impl<'a> Source<'a> for MessagePackSource<'a> {
    const IS_TEXT: bool = false;

    #[inline]
    fn offset(&self) -> usize {
        self.at
    }

    #[inline]
    fn value(&mut self) -> Checked<Value<'a>> {
        let [first] = self.array::<1>()?;
        Ok(match first {
            0x00..=0x7f => Value::Int(i64::from(first)),
            0x80..=0x8f => Value::Map(self.sequence(usize::from(first & 0x0f), 2)?),
            0x90..=0x9f => Value::List(self.sequence(usize::from(first & 0x0f), 1)?),
            0xa0..=0xbf => Value::Text(self.text(usize::from(first & 0x1f))?),
            0xc0 => Value::Null,
            0xc1 => {
                return Err(Violation::new(Rule::Malformed, self.at - 1, "a value", "0xc1, which is never used"));
            }
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4 => {
                let length = self.length::<1>()?;
                Value::Bytes(self.take(length)?)
            }
            0xc5 => {
                let length = self.length::<2>()?;
                Value::Bytes(self.take(length)?)
            }
            0xc6 => {
                let length = self.length::<4>()?;
                Value::Bytes(self.take(length)?)
            }
            0xc7 => {
                let length = self.length::<1>()?;
                self.extension(length)?
            }
            0xc8 => {
                let length = self.length::<2>()?;
                self.extension(length)?
            }
            0xc9 => {
                let length = self.length::<4>()?;
                self.extension(length)?
            }
            0xca => Value::Float(f64::from(f32::from_be_bytes(self.array()?))),
            0xcb => Value::Float(f64::from_be_bytes(self.array()?)),
            0xcc => Value::Int(i64::from(u8::from_be_bytes(self.array()?))),
            0xcd => Value::Int(i64::from(u16::from_be_bytes(self.array()?))),
            0xce => Value::Int(i64::from(u32::from_be_bytes(self.array()?))),
            0xcf => {
                let value = u64::from_be_bytes(self.array()?);
                i64::try_from(value).map_or(Value::Uint(value), Value::Int)
            }
            0xd0 => Value::Int(i64::from(i8::from_be_bytes(self.array()?))),
            0xd1 => Value::Int(i64::from(i16::from_be_bytes(self.array()?))),
            0xd2 => Value::Int(i64::from(i32::from_be_bytes(self.array()?))),
            0xd3 => Value::Int(i64::from_be_bytes(self.array()?)),
            0xd4..=0xd8 => self.extension(1 << (first - 0xd4))?,
            0xd9 => {
                let length = self.length::<1>()?;
                Value::Text(self.text(length)?)
            }
            0xda => {
                let length = self.length::<2>()?;
                Value::Text(self.text(length)?)
            }
            0xdb => {
                let length = self.length::<4>()?;
                Value::Text(self.text(length)?)
            }
            0xdc => {
                let count = self.length::<2>()?;
                Value::List(self.sequence(count, 1)?)
            }
            0xdd => {
                let count = self.length::<4>()?;
                Value::List(self.sequence(count, 1)?)
            }
            0xde => {
                let count = self.length::<2>()?;
                Value::Map(self.sequence(count, 2)?)
            }
            0xdf => {
                let count = self.length::<4>()?;
                Value::Map(self.sequence(count, 2)?)
            }
            0xe0..=0xff => Value::Int(i64::from(first as i8)),
        })
    }

    #[inline]
    fn item(&mut self, sequence: &mut Sequence) -> Checked<bool> {
        Ok(has_more(sequence))
    }

    #[inline]
    fn key(&mut self, sequence: &mut Sequence) -> Checked<Option<Text<'a>>> {
        if has_more(sequence) { self.key_text().map(Some) } else { Ok(None) }
    }

    #[inline]
    fn key_is(&mut self, sequence: &mut Sequence, name: &Name) -> bool {
        let Some(left) = sequence.left.checked_sub(1) else { return false };
        let Some((first, rest)) = self.bytes.get(self.at..).and_then(<[u8]>::split_first) else { return false };
        if usize::from(*first) != 0xa0 | name.len() || name.len() > SHORT_TEXT_MAX || !name.begins(rest) {
            return false;
        }
        sequence.left = left;
        self.at += 1 + name.len();
        true
    }

    #[inline]
    fn pass(&mut self, pass: Pass) -> bool {
        let Some(rest) = self.bytes.get(self.at..) else { return false };
        let Some(first) = rest.first() else { return false };
        let size = usize::from(quick_check::SIZES[pass as usize][usize::from(*first)]);
        let Some(value) = rest.get(..size) else { return false };
        if pass == Pass::Text && !value.get(1..).unwrap_or_default().is_ascii() {
            return false;
        }
        self.at += size;
        size > 0
    }

    #[inline]
    fn pass_name(&mut self, names: &Names) -> bool {
        let Some((first, rest)) = self.bytes.get(self.at..).and_then(<[u8]>::split_first) else { return false };
        let text = rest.get(..usize::from(first & 0x1f)).filter(|_| first & 0xe0 == 0xa0);
        let Some(text) = text.filter(|text| names.find(text).is_some()) else { return false };
        self.at += 1 + text.len();
        true
    }

    #[inline]
    fn begin_map(&mut self) -> Option<Sequence> {
        self.begin(0x80, 2)
    }

    #[inline]
    fn begin_list(&mut self) -> Option<Sequence> {
        self.begin(0x90, 1)
    }

    fn end(&mut self) -> Checked {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(Violation::new(Rule::Trailing, self.at, "the end of the payload", "more bytes"))
    }
}

#[inline]
fn has_more(sequence: &mut Sequence) -> bool {
    match sequence.left.checked_sub(1) {
        Some(left) => {
            sequence.left = left;
            true
        }
        None => false,
    }
}
