//! JSON.

use std::fmt::Write as _;

use super::mapping::{Number, Read, Sink, Source, format_timestamp, parse_timestamp};
use super::payload::{DEPTH_MAX, PayloadError, Raw, Timestamp};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes JSON.
#[derive(Default)]
pub(super) struct JsonSink {
    out: String,
}

impl JsonSink {
    pub(super) fn finish(self) -> Vec<u8> {
        self.out.into_bytes()
    }

    /// Separates a value from the one before it; no value ends with `{`, `[` or `:`.
    fn comma(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with(['{', '[', ':']) {
            self.out.push(',');
        }
    }

    fn shown(&mut self, value: impl std::fmt::Display) {
        // Writing to memory does not fail.
        let _ = write!(self.out, "{value}");
    }

    /// Writes NaN and infinities by name; returns whether it did.
    fn named(&mut self, value: f64) -> bool {
        if value.is_nan() {
            self.string("NaN");
        } else if value.is_infinite() {
            self.string(if value > 0.0 { "Infinity" } else { "-Infinity" });
        }
        !value.is_finite()
    }
}

/// Whether a number is written without an exponent.
fn is_plain(magnitude: f64) -> bool {
    magnitude == 0.0 || (1e-6..1e21).contains(&magnitude)
}

impl Sink for JsonSink {
    fn open_map(&mut self) {
        self.out.push('{');
    }

    fn key(&mut self, name: &str) {
        self.comma();
        self.string(name);
        self.out.push(':');
    }

    fn close_map(&mut self) {
        self.out.push('}');
    }

    fn open_list(&mut self) {
        self.out.push('[');
    }

    fn item(&mut self) {
        self.comma();
    }

    fn close_list(&mut self) {
        self.out.push(']');
    }

    fn null(&mut self) {
        self.out.push_str("null");
    }

    fn bool(&mut self, value: bool) {
        self.shown(value);
    }

    fn int(&mut self, value: i64) {
        self.shown(value);
    }

    fn uint(&mut self, value: u64) {
        self.shown(value);
    }

    fn wide_int(&mut self, value: i64) {
        self.shown(format_args!("\"{value}\""));
    }

    fn wide_uint(&mut self, value: u64) {
        self.shown(format_args!("\"{value}\""));
    }

    fn float(&mut self, value: f32) {
        if self.named(f64::from(value)) {
            return;
        }
        if is_plain(f64::from(value.abs())) {
            self.shown(value);
        } else {
            self.shown(format_args!("{value:e}"));
        }
    }

    fn double(&mut self, value: f64) {
        if self.named(value) {
            return;
        }
        if is_plain(value.abs()) {
            self.shown(value);
        } else {
            self.shown(format_args!("{value:e}"));
        }
    }

    fn string(&mut self, value: &str) {
        self.out.push('"');
        for character in value.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                control @ '\0'..' ' => self.shown(format_args!("\\u{:04x}", u32::from(control))),
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    fn data(&mut self, value: &[u8]) {
        self.out.push('"');
        for group in value.chunks(3) {
            let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for place in 0..4 {
                let digit = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
                let is_there = place <= group.len();
                self.out
                    .push(if is_there { char::from(digit) } else { '=' });
            }
        }
        self.out.push('"');
    }

    fn timestamp(&mut self, value: Timestamp) {
        self.string(&format_timestamp(value));
    }

    fn raw(&mut self, value: &Raw) {
        match std::str::from_utf8(&value.0) {
            Ok(text) if !text.is_empty() => self.out.push_str(text),
            _ => self.null(),
        }
    }
}

/// Reads JSON.
pub(super) struct JsonSource<'a> {
    text: &'a str,
    at: usize,
    /// At the beginning of a map or list.
    is_first: bool,
    depth: usize,
}

impl<'a> JsonSource<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Read<JsonSource<'a>> {
        let text = std::str::from_utf8(payload)
            .map_err(|error| PayloadError::new("UTF-8", error.valid_up_to()))?;
        Ok(JsonSource {
            text,
            at: 0,
            is_first: false,
            depth: 0,
        })
    }

    /// The next byte after spaces; 0 at the end.
    fn next(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        let spaces = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            .count();
        self.at += spaces;
        rest.get(spaces).copied().unwrap_or(0)
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.next() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    fn word(&mut self, word: &str) -> bool {
        self.next();
        let is_next = self.text[self.at..].starts_with(word);
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn open(&mut self, byte: u8, expected: &str) -> Read<()> {
        if !self.take(byte) {
            return Err(self.wrong(expected));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(&format!("values nested at most {DEPTH_MAX} deep")));
        }
        self.is_first = true;
        Ok(())
    }

    /// Whether another key or item follows.
    fn goes_on(&mut self, end: u8) -> Read<bool> {
        let is_first = std::mem::take(&mut self.is_first);
        if self.take(end) {
            self.depth -= 1;
            return Ok(false);
        }
        if is_first || self.take(b',') {
            return Ok(true);
        }
        Err(self.wrong("a comma or the end of the list or object"))
    }

    /// Reads the rest of a string after its first quote.
    fn quoted(&mut self) -> Read<String> {
        let mut text = String::new();
        let mut start = self.at;
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    text.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    text.push_str(&self.text[start..self.at]);
                    self.at += 1;
                    text.push(self.escaped()?);
                    start = self.at;
                }
                Some(byte) if *byte >= b' ' => self.at += 1,
                _ => return Err(self.wrong("a string without control characters, and its end")),
            }
        }
    }

    fn escaped(&mut self) -> Read<char> {
        let byte = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        Ok(match byte {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.hexadecimal()?;
                let is_half = (0xd800..0xdc00).contains(&first);
                let code = if is_half && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let second = self.hexadecimal()?;
                    0x1_0000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff)
                } else {
                    first
                };
                char::from_u32(code).ok_or_else(|| self.wrong("a character"))?
            }
            _ => {
                self.at -= 1;
                return Err(self.wrong("an escape"));
            }
        })
    }

    fn hexadecimal(&mut self) -> Read<u32> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or("");
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u32::from_str_radix(digits, 16) {
            Ok(value) if is_number => {
                self.at += 4;
                Ok(value)
            }
            _ => Err(self.wrong("four hexadecimal digits")),
        }
    }

    /// Skips a value.
    fn pass(&mut self) -> Read<()> {
        match self.next() {
            b'{' => {
                self.open_map()?;
                while self.key()?.is_some() {
                    self.pass()?;
                }
            }
            b'[' => {
                self.open_list()?;
                while self.item()? {
                    self.pass()?;
                }
            }
            b'"' => drop(self.text()?),
            b't' | b'f' => drop(self.bool()?),
            b'n' if self.null() => {}
            _ if self.number()?.is_some() => {}
            _ => return Err(self.wrong("a value")),
        }
        Ok(())
    }
}

/// Parses a number by the grammar of JSON, which is narrower than that of the standard library.
fn parse_number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros_before = whole.len() > 1 && whole.starts_with('0');
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if has_zeros_before || ![whole, fraction, exponent].into_iter().all(is_number) {
        return None;
    }
    let number = text.parse().map(Number::Whole).ok();
    number.or_else(|| text.parse().map(Number::Fraction).ok())
}

impl Source for JsonSource<'_> {
    fn offset(&self) -> usize {
        self.at
    }

    fn open_map(&mut self) -> Read<()> {
        self.open(b'{', "an object")
    }

    fn key(&mut self) -> Read<Option<String>> {
        if !self.goes_on(b'}')? {
            return Ok(None);
        }
        match self.text()? {
            Some(name) if self.take(b':') => Ok(Some(name)),
            _ => Err(self.wrong("a name and a colon")),
        }
    }

    fn open_list(&mut self) -> Read<()> {
        self.open(b'[', "a list")
    }

    fn item(&mut self) -> Read<bool> {
        self.goes_on(b']')
    }

    fn null(&mut self) -> bool {
        self.word("null")
    }

    fn bool(&mut self) -> Read<bool> {
        if self.word("true") {
            return Ok(true);
        }
        if self.word("false") {
            return Ok(false);
        }
        Err(self.wrong("a boolean"))
    }

    fn number(&mut self) -> Read<Option<Number>> {
        if let Some(text) = self.text()? {
            return Ok(match text.as_str() {
                "NaN" => Some(Number::Fraction(f64::NAN)),
                "Infinity" => Some(Number::Fraction(f64::INFINITY)),
                "-Infinity" => Some(Number::Fraction(f64::NEG_INFINITY)),
                text => parse_number(text),
            });
        }
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = rest.bytes().take_while(is_part).count();
        self.at += length;
        Ok(parse_number(&rest[..length]))
    }

    fn text(&mut self) -> Read<Option<String>> {
        if self.take(b'"') {
            self.quoted().map(Some)
        } else {
            Ok(None)
        }
    }

    fn data(&mut self) -> Read<Vec<u8>> {
        let text = self.string()?;
        let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
        let (mut bits, mut count) = (0u32, 0);
        for digit in text.trim_end_matches('=').bytes() {
            let digit = match digit {
                b'-' => b'+',
                b'_' => b'/',
                other => other,
            };
            let value = ALPHABET.iter().position(|known| *known == digit);
            let value = value.ok_or_else(|| self.wrong("bytes in base64"))?;
            bits = bits << 6 | value as u32;
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        Ok(bytes)
    }

    fn timestamp(&mut self) -> Read<Timestamp> {
        let text = self.string()?;
        parse_timestamp(&text).ok_or_else(|| self.wrong("an RFC 3339 timestamp"))
    }

    fn raw(&mut self) -> Read<Raw> {
        self.next();
        let start = self.at;
        self.pass()?;
        Ok(Raw(self.text.as_bytes()[start..self.at].to_vec()))
    }

    fn end(&mut self) -> Read<()> {
        self.next();
        if self.at == self.text.len() {
            return Ok(());
        }
        Err(self.wrong("the end of the payload"))
    }
}
