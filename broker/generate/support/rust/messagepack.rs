//! MessagePack.

use super::mapping::{Number, Read, Sink, Source, parse_timestamp};
use super::payload::{DEPTH_MAX, PayloadError, Raw, Timestamp};

/// Writes MessagePack, each value in its shortest form.
#[derive(Default)]
pub(super) struct MessagePackSink {
    out: Vec<u8>,
    /// Start and length of the open maps and lists, the innermost last.
    open: Vec<(usize, usize)>,
}

impl MessagePackSink {
    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }

    fn begin(&mut self) {
        self.open.push((self.out.len(), 0));
        self.out.push(0);
    }

    /// The header of a map or list: its short form, or one with a length of two or four bytes.
    fn close(&mut self, short: u8, long: u8) {
        let Some((start, count)) = self.open.pop() else {
            return;
        };
        if count < 16 {
            self.out[start] = short | count as u8;
        } else if let Ok(count) = u16::try_from(count) {
            self.out[start] = long;
            self.out.splice(start + 1..start + 1, count.to_be_bytes());
        } else {
            self.out[start] = long + 1;
            let count = (count as u32).to_be_bytes();
            self.out.splice(start + 1..start + 1, count);
        }
    }

    fn headed(&mut self, head: u8, bytes: &[u8]) {
        self.out.push(head);
        self.out.extend_from_slice(bytes);
    }
}

impl Sink for MessagePackSink {
    fn open_map(&mut self) {
        self.begin();
    }

    fn key(&mut self, name: &str) {
        self.item();
        self.string(name);
    }

    fn close_map(&mut self) {
        self.close(0x80, 0xde);
    }

    fn open_list(&mut self) {
        self.begin();
    }

    fn item(&mut self) {
        if let Some((_, count)) = self.open.last_mut() {
            *count += 1;
        }
    }

    fn close_list(&mut self) {
        self.close(0x90, 0xdc);
    }

    fn null(&mut self) {
        self.out.push(0xc0);
    }

    fn bool(&mut self, value: bool) {
        self.out.push(if value { 0xc3 } else { 0xc2 });
    }

    fn int(&mut self, value: i64) {
        match value {
            0.. => self.uint(value as u64),
            -32..0 => self.out.push(value as u8),
            -0x80..-32 => self.headed(0xd0, &[value as u8]),
            -0x8000..-0x80 => self.headed(0xd1, &(value as i16).to_be_bytes()),
            -0x8000_0000..-0x8000 => self.headed(0xd2, &(value as i32).to_be_bytes()),
            _ => self.headed(0xd3, &value.to_be_bytes()),
        }
    }

    fn uint(&mut self, value: u64) {
        match value {
            0..0x80 => self.out.push(value as u8),
            0x80..0x100 => self.headed(0xcc, &[value as u8]),
            0x100..0x1_0000 => self.headed(0xcd, &(value as u16).to_be_bytes()),
            0x1_0000..0x1_0000_0000 => self.headed(0xce, &(value as u32).to_be_bytes()),
            _ => self.headed(0xcf, &value.to_be_bytes()),
        }
    }

    fn wide_int(&mut self, value: i64) {
        self.int(value);
    }

    fn wide_uint(&mut self, value: u64) {
        self.uint(value);
    }

    fn float(&mut self, value: f32) {
        self.double(f64::from(value));
    }

    /// A number without a fraction is written as an integer, which is shorter.
    fn double(&mut self, value: f64) {
        const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
        let is_minus_zero = value == 0.0 && value.is_sign_negative();
        if value.trunc() == value && value.abs() < EXACT_BELOW && !is_minus_zero {
            self.int(value as i64);
        } else {
            self.headed(0xcb, &value.to_be_bytes());
        }
    }

    fn string(&mut self, value: &str) {
        match value.len() {
            length @ 0..32 => self.out.push(0xa0 | length as u8),
            length @ 32..0x100 => self.headed(0xd9, &[length as u8]),
            length @ 0x100..0x1_0000 => self.headed(0xda, &(length as u16).to_be_bytes()),
            length => self.headed(0xdb, &(length as u32).to_be_bytes()),
        }
        self.out.extend_from_slice(value.as_bytes());
    }

    fn data(&mut self, value: &[u8]) {
        match value.len() {
            length @ 0..0x100 => self.headed(0xc4, &[length as u8]),
            length @ 0x100..0x1_0000 => self.headed(0xc5, &(length as u16).to_be_bytes()),
            length => self.headed(0xc6, &(length as u32).to_be_bytes()),
        }
        self.out.extend_from_slice(value);
    }

    fn timestamp(&mut self, value: Timestamp) {
        let nanos = value.nanos.unsigned_abs();
        match u64::try_from(value.seconds) {
            Ok(seconds) if seconds >> 32 == 0 && nanos == 0 => {
                self.headed(0xd6, &[0xff]);
                self.out.extend_from_slice(&(seconds as u32).to_be_bytes());
            }
            Ok(seconds) if seconds >> 34 == 0 => {
                self.headed(0xd7, &[0xff]);
                let both = u64::from(nanos) << 34 | seconds;
                self.out.extend_from_slice(&both.to_be_bytes());
            }
            _ => {
                self.headed(0xc7, &[12, 0xff]);
                self.out.extend_from_slice(&nanos.to_be_bytes());
                self.out.extend_from_slice(&value.seconds.to_be_bytes());
            }
        }
    }

    fn raw(&mut self, value: &Raw) {
        if value.0.is_empty() {
            self.null();
        } else {
            self.out.extend_from_slice(&value.0);
        }
    }
}

/// Reads MessagePack.
pub(super) struct MessagePackSource<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Remaining items of the open maps and lists, the innermost last.
    left: Vec<usize>,
}

impl<'a> MessagePackSource<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Read<MessagePackSource<'a>> {
        Ok(MessagePackSource {
            bytes: payload,
            at: 0,
            left: Vec::new(),
        })
    }

    /// The first byte of the next value; an unused one at the end.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0xc1)
    }

    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        match rest.get(..count) {
            Some(taken) => {
                self.at += count;
                Ok(taken)
            }
            None => Err(self.wrong("a value within the payload")),
        }
    }

    /// The big-endian number of `size` bytes after the first byte of a value.
    fn big(&mut self, size: usize) -> Read<u64> {
        self.at += 1;
        let bytes = self.take(size)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn open(&mut self, short: u8, long: u8, each: usize, expected: &str) -> Read<()> {
        let first = self.peek();
        let count = if first & 0xf0 == short {
            self.at += 1;
            u64::from(first & 0x0f)
        } else if first == long {
            self.big(2)?
        } else if first == long + 1 {
            self.big(4)?
        } else {
            return Err(self.wrong(expected));
        };
        if count > ((self.bytes.len() - self.at) / each) as u64 {
            return Err(self.wrong("a value within the payload"));
        }
        self.left.push(count as usize);
        if self.left.len() > DEPTH_MAX {
            return Err(self.wrong(&format!("values nested at most {DEPTH_MAX} deep")));
        }
        Ok(())
    }

    fn moment(&self, seconds: i64, nanos: u64) -> Read<Timestamp> {
        if nanos >= 1_000_000_000 {
            return Err(self.wrong("at most 999,999,999 nanoseconds"));
        }
        let nanos = nanos as i32;
        Ok(Timestamp { seconds, nanos })
    }

    /// Skips a value.
    fn pass(&mut self) -> Read<()> {
        match self.peek() {
            0x80..=0x8f | 0xde | 0xdf => {
                self.open_map()?;
                while self.key()?.is_some() {
                    self.pass()?;
                }
            }
            0x90..=0x9f | 0xdc | 0xdd => {
                self.open_list()?;
                while self.item()? {
                    self.pass()?;
                }
            }
            0xc0 | 0xc2 | 0xc3 => self.at += 1,
            0xc4..=0xc6 => drop(self.data()?),
            first @ 0xc7..=0xc9 => {
                let length = self.big(1 << (first - 0xc7))?;
                self.take(1)?;
                self.take(length as usize)?;
            }
            first @ 0xd4..=0xd8 => {
                self.at += 1;
                self.take(1 + (1 << (first - 0xd4)))?;
            }
            _ => {
                if self.text()?.is_none() && self.number()?.is_none() {
                    return Err(self.wrong("a value"));
                }
            }
        }
        Ok(())
    }
}

impl Source for MessagePackSource<'_> {
    fn offset(&self) -> usize {
        self.at
    }

    fn open_map(&mut self) -> Read<()> {
        self.open(0x80, 0xde, 2, "a map")
    }

    fn key(&mut self) -> Read<Option<String>> {
        if !self.item()? {
            return Ok(None);
        }
        match self.text()? {
            Some(name) => Ok(Some(name)),
            None => Err(self.wrong("a string as the key")),
        }
    }

    fn open_list(&mut self) -> Read<()> {
        self.open(0x90, 0xdc, 1, "a list")
    }

    fn item(&mut self) -> Read<bool> {
        match self.left.pop() {
            Some(left @ 1..) => {
                self.left.push(left - 1);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn null(&mut self) -> bool {
        let is_next = self.peek() == 0xc0;
        self.at += usize::from(is_next);
        is_next
    }

    fn bool(&mut self) -> Read<bool> {
        let first = self.peek();
        if !matches!(first, 0xc2 | 0xc3) {
            return Err(self.wrong("a boolean"));
        }
        self.at += 1;
        Ok(first == 0xc3)
    }

    fn number(&mut self) -> Read<Option<Number>> {
        let first = self.peek();
        Ok(Some(match first {
            0..=0x7f | 0xe0..=0xff => {
                self.at += 1;
                Number::Whole(i128::from(first as i8))
            }
            0xca => Number::Fraction(f64::from(f32::from_bits(self.big(4)? as u32))),
            0xcb => Number::Fraction(f64::from_bits(self.big(8)?)),
            0xcc..=0xcf => Number::Whole(i128::from(self.big(1 << (first - 0xcc))?)),
            0xd0..=0xd3 => {
                let size = 1 << (first - 0xd0);
                let unused = 64 - 8 * size as u32;
                let value = (self.big(size)? << unused) as i64 >> unused;
                Number::Whole(i128::from(value))
            }
            _ => return Ok(None),
        }))
    }

    fn text(&mut self) -> Read<Option<String>> {
        let first = self.peek();
        let length = match first {
            0xa0..=0xbf => {
                self.at += 1;
                usize::from(first & 0x1f)
            }
            0xd9..=0xdb => self.big(1 << (first - 0xd9))? as usize,
            _ => return Ok(None),
        };
        let start = self.at;
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(PayloadError::new("UTF-8", start)),
        }
    }

    fn data(&mut self) -> Read<Vec<u8>> {
        let first = self.peek();
        if !matches!(first, 0xc4..=0xc6) {
            return Err(self.wrong("bytes"));
        }
        let length = self.big(1 << (first - 0xc4))?;
        self.take(length as usize).map(<[u8]>::to_vec)
    }

    fn timestamp(&mut self) -> Read<Timestamp> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(&[0xd6, 0xff]) {
            self.at += 1;
            let seconds = self.big(4)? as i64;
            return Ok(Timestamp { seconds, nanos: 0 });
        }
        if rest.starts_with(&[0xd7, 0xff]) {
            self.at += 1;
            let both = self.big(8)?;
            return self.moment((both & 0x3_ffff_ffff) as i64, both >> 34);
        }
        if rest.starts_with(&[0xc7, 12, 0xff]) {
            self.at += 2;
            let nanos = self.big(4)?;
            self.at -= 1;
            let seconds = self.big(8)? as i64;
            return self.moment(seconds, nanos);
        }
        let text = self.text()?;
        let time = text.and_then(|text| parse_timestamp(&text));
        time.ok_or_else(|| self.wrong("a timestamp"))
    }

    fn raw(&mut self) -> Read<Raw> {
        let start = self.at;
        self.pass()?;
        Ok(Raw(self.bytes[start..self.at].to_vec()))
    }

    fn end(&mut self) -> Read<()> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(self.wrong("the end of the payload"))
    }
}
