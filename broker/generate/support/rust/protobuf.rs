//! The binary form of Protocol Buffers.

use super::payload::{DEPTH_MAX, Duration, PayloadError, Timestamp};

type Read<T> = Result<T, PayloadError>;

/// Writes values one after another.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn tag(&mut self, tag: u32) {
        self.uint32(tag);
    }

    pub(super) fn uint64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn uint32(&mut self, value: u32) {
        self.uint64(u64::from(value));
    }

    pub(super) fn int64(&mut self, value: i64) {
        self.uint64(value as u64);
    }

    pub(super) fn int32(&mut self, value: i32) {
        self.int64(i64::from(value));
    }

    pub(super) fn sint64(&mut self, value: i64) {
        self.uint64((value << 1 ^ value >> 63) as u64);
    }

    pub(super) fn sint32(&mut self, value: i32) {
        self.uint32((value << 1 ^ value >> 31) as u32);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub(super) fn fixed32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn fixed64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn sfixed32(&mut self, value: i32) {
        self.fixed32(value as u32);
    }

    pub(super) fn sfixed64(&mut self, value: i64) {
        self.fixed64(value as u64);
    }

    pub(super) fn float(&mut self, value: f32) {
        self.fixed32(value.to_bits());
    }

    pub(super) fn double(&mut self, value: f64) {
        self.fixed64(value.to_bits());
    }

    pub(super) fn string(&mut self, value: &str) {
        self.data(value.as_bytes());
    }

    pub(super) fn data(&mut self, value: &[u8]) {
        self.uint64(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn timestamp(&mut self, value: Timestamp) {
        self.seconds_and_nanos(value.seconds, value.nanos);
    }

    pub(super) fn duration(&mut self, value: Duration) {
        self.seconds_and_nanos(value.seconds, value.nanos);
    }

    fn seconds_and_nanos(&mut self, seconds: i64, nanos: i32) {
        let start = self.open();
        if seconds != 0 {
            self.tag(8);
            self.int64(seconds);
        }
        if nanos != 0 {
            self.tag(16);
            self.int32(nanos);
        }
        self.close(start);
    }

    /// Begins a length-delimited value.
    pub(super) fn open(&mut self) -> usize {
        self.bytes.push(0);
        self.bytes.len()
    }

    /// Writes the length of the bytes since `open`.
    pub(super) fn close(&mut self, start: usize) {
        let length = self.bytes.len() - start;
        if length < 0x80 {
            self.bytes[start - 1] = length as u8;
            return;
        }
        let mut head = Writer::default();
        head.uint64(length as u64);
        self.bytes.splice(start - 1..start, head.bytes);
    }
}

/// Reads values one after another.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Reader<'a> {
        Reader {
            bytes: payload,
            at: 0,
            end: payload.len(),
            depth: 0,
        }
    }

    /// Number and wire type of the next value; `None` at the end.
    pub(super) fn tag(&mut self) -> Read<Option<u32>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        match u32::try_from(self.uint64()?) {
            Ok(tag) if tag >= 8 => Ok(Some(tag)),
            _ => Err(PayloadError::new("a tag with a field number", start)),
        }
    }

    /// Skips the value of an unknown field. A field of `numbers` has a wrong wire type.
    pub(super) fn unknown(&mut self, tag: u32, numbers: &[u32]) -> Read<()> {
        let number = tag >> 3;
        if numbers.contains(&number) {
            let expected = format!("another wire type of field {number}");
            return Err(PayloadError::new(expected, self.at));
        }
        match tag & 7 {
            0 => self.uint64().map(drop),
            1 => self.take(8).map(drop),
            2 => self.view().map(drop),
            5 => self.take(4).map(drop),
            _ => Err(PayloadError::new("a wire type other than a group", self.at)),
        }
    }

    /// The error for a missing required field.
    pub(super) fn missing(&self, name: &str) -> PayloadError {
        let expected = format!("a value of the required field {name}");
        PayloadError::new(expected, self.at)
    }

    pub(super) fn uint64(&mut self) -> Read<u64> {
        let mut value = 0;
        for (place, byte) in self.bytes[self.at..self.end].iter().take(10).enumerate() {
            if place == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.at += place + 1;
                return Ok(value);
            }
        }
        Err(PayloadError::new(
            "a number of at most 64 bits within the payload",
            self.at,
        ))
    }

    pub(super) fn uint32(&mut self) -> Read<u32> {
        self.uint64().map(|value| value as u32)
    }

    pub(super) fn int64(&mut self) -> Read<i64> {
        self.uint64().map(|value| value as i64)
    }

    pub(super) fn int32(&mut self) -> Read<i32> {
        self.uint64().map(|value| value as i32)
    }

    pub(super) fn sint64(&mut self) -> Read<i64> {
        self.uint64()
            .map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn sint32(&mut self) -> Read<i32> {
        self.uint32()
            .map(|value| (value >> 1) as i32 ^ -((value & 1) as i32))
    }

    pub(super) fn bool(&mut self) -> Read<bool> {
        self.uint64().map(|value| value != 0)
    }

    pub(super) fn fixed32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn fixed64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn sfixed32(&mut self) -> Read<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn sfixed64(&mut self) -> Read<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn float(&mut self) -> Read<f32> {
        self.array().map(f32::from_le_bytes)
    }

    pub(super) fn double(&mut self) -> Read<f64> {
        self.array().map(f64::from_le_bytes)
    }

    pub(super) fn string(&mut self) -> Read<String> {
        let start = self.at;
        match std::str::from_utf8(self.view()?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(PayloadError::new("UTF-8", start)),
        }
    }

    pub(super) fn data(&mut self) -> Read<Vec<u8>> {
        self.view().map(<[u8]>::to_vec)
    }

    pub(super) fn timestamp(&mut self) -> Read<Timestamp> {
        let (seconds, nanos) = self.seconds_and_nanos()?;
        Ok(Timestamp { seconds, nanos })
    }

    pub(super) fn duration(&mut self) -> Read<Duration> {
        let (seconds, nanos) = self.seconds_and_nanos()?;
        Ok(Duration { seconds, nanos })
    }

    fn seconds_and_nanos(&mut self) -> Read<(i64, i32)> {
        let mut time = (0, 0);
        let outer = self.enter()?;
        while let Some(tag) = self.tag()? {
            match tag {
                8 => time.0 = self.int64()?,
                16 => time.1 = self.int32()?,
                _ => self.unknown(tag, &[1, 2])?,
            }
        }
        self.leave(outer);
        Ok(time)
    }

    /// Whether a packed list has more items.
    pub(super) fn has_more(&self) -> bool {
        self.at < self.end
    }

    /// Enters a length-delimited value. Pass the result to `leave`.
    pub(super) fn enter(&mut self) -> Read<usize> {
        let (start, outer) = (self.at, self.end);
        let length = self.view()?.len();
        self.depth += 1;
        if self.depth >= DEPTH_MAX {
            let expected = format!("messages nested at most {DEPTH_MAX} deep");
            return Err(PayloadError::new(expected, start));
        }
        self.end = self.at;
        self.at -= length;
        Ok(outer)
    }

    pub(super) fn leave(&mut self, outer: usize) {
        self.depth -= 1;
        self.at = self.end;
        self.end = outer;
    }

    fn view(&mut self) -> Read<&'a [u8]> {
        let length = self.uint64()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        if count > self.end - self.at {
            let expected = "a value within the payload";
            return Err(PayloadError::new(expected, self.at));
        }
        self.at += count;
        Ok(&self.bytes[self.at - count..self.at])
    }
}
