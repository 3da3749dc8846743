//! A streaming JSON reader.

use super::{quick_check, string};
use crate::plan::{Name, Names, Pass};
use crate::source::{Sequence, Source, Text, Value};
use crate::violation::{Checked, Rule, Violation};

/// JSON text, and the read position.
pub(crate) struct JsonSource<'a> {
    text: &'a str,
    at: usize,
}

const OPEN: Sequence = Sequence { left: 0, is_first: true };

impl<'a> JsonSource<'a> {
    /// # Errors
    /// The payload is not UTF-8.
    pub(crate) fn new(payload: &'a [u8]) -> Checked<JsonSource<'a>> {
        match core::str::from_utf8(payload) {
            Ok(text) => Ok(JsonSource { text, at: 0 }),
            Err(error) => Err(Violation::new(Rule::Utf8, error.valid_up_to(), "UTF-8", "invalid bytes")),
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn past_space(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }

    #[cold]
    fn unexpected(&self, expected: &'static str) -> Box<Violation> {
        let found = if self.at < self.text.len() { "another character" } else { "the end of the payload" };
        Violation::new(Rule::Malformed, self.at, expected, found)
    }

    /// Advances [`Source::offset`] to the next token.
    pub(crate) fn skip_space(&mut self) {
        self.past_space();
    }

    fn string(&mut self) -> Checked<Text<'a>> {
        let start = self.at + 1;
        let (end, is_escaped) = string::scan(self.text.as_bytes(), start)?;
        self.at = end + 1;
        Ok(Text { raw: &self.text[start..end], is_escaped })
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Checked<Value<'a>> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.unexpected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Checked<Value<'a>> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let negative = bytes[start] == b'-';
        self.at += usize::from(negative);
        let digits_at = self.at;
        let mut magnitude = 0u64;
        let mut fits = true;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            match magnitude.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0'))) {
                Some(next) => magnitude = next,
                None => fits = false,
            }
            self.at += 1;
        }
        let digits = self.at - digits_at;
        if digits == 0 || (digits > 1 && bytes[digits_at] == b'0') {
            self.at = digits_at;
            return Err(self.unexpected("digits without leading zeros"));
        }
        let mut is_whole = true;
        if self.peek() == Some(b'.') {
            is_whole = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_whole = false;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let decimal = Value::Decimal(&self.text[start..self.at]);
        if !is_whole || !fits || (negative && magnitude == 0) {
            return Ok(decimal);
        }
        Ok(match (negative, i64::try_from(magnitude)) {
            (false, Ok(value)) => Value::Int(value),
            (false, Err(_)) => Value::Uint(magnitude),
            (true, _) => 0i64.checked_sub_unsigned(magnitude).map_or(decimal, Value::Int),
        })
    }

    fn digits(&mut self) -> Checked {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    #[inline]
    fn begin(&mut self, bracket: u8) -> Option<Sequence> {
        let at = past_one_space(self.text.as_bytes(), self.at);
        let is_right = self.text.as_bytes().get(at) == Some(&bracket);
        if is_right {
            self.at = at + 1;
        }
        is_right.then_some(OPEN)
    }

    /// Whether there is another item; reads the comma before it.
    #[inline]
    fn has_more(&mut self, sequence: &mut Sequence, close: u8, expected: &'static str) -> Checked<bool> {
        let next = self.past_space();
        if next == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        if sequence.is_first {
            sequence.is_first = false;
            return Ok(true);
        }
        if next != Some(b',') {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        Ok(true)
    }
}

impl<'a> Source<'a> for JsonSource<'a> {
    const IS_TEXT: bool = true;

    #[inline]
    fn offset(&self) -> usize {
        self.at
    }

    #[inline]
    fn value(&mut self) -> Checked<Value<'a>> {
        match self.past_space() {
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{') => {
                self.at += 1;
                Ok(Value::Map(OPEN))
            }
            Some(b'[') => {
                self.at += 1;
                Ok(Value::List(OPEN))
            }
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.unexpected("a value")),
        }
    }

    #[inline]
    fn item(&mut self, sequence: &mut Sequence) -> Checked<bool> {
        self.has_more(sequence, b']', "a comma or the end of the list")
    }

    #[inline]
    fn key(&mut self, sequence: &mut Sequence) -> Checked<Option<Text<'a>>> {
        if !self.has_more(sequence, b'}', "a comma or the end of the object")? {
            return Ok(None);
        }
        if self.past_space() != Some(b'"') {
            return Err(self.unexpected("a name between quotation marks"));
        }
        let key = self.string()?;
        if self.past_space() != Some(b':') {
            return Err(self.unexpected("a colon"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    #[inline]
    fn key_is(&mut self, sequence: &mut Sequence, name: &Name) -> bool {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        if !sequence.is_first {
            if bytes.get(at) != Some(&b',') {
                return false;
            }
            at += 1;
        }
        at = past_one_space(bytes, at);
        let Some([b'"', after @ ..]) = bytes.get(at..) else { return false };
        if !name.begins(after) || after.get(name.len()..).is_none_or(|rest| !rest.starts_with(b"\":")) {
            return false;
        }
        self.at = at + name.len() + 3;
        sequence.is_first = false;
        true
    }

    #[inline]
    fn pass(&mut self, pass: Pass) -> bool {
        let bytes = self.text.as_bytes();
        let at = past_one_space(bytes, self.at);
        let end = match pass {
            Pass::Signed32 => quick_check::integer(bytes, at, 9, true),
            Pass::Unsigned32 => quick_check::integer(bytes, at, 9, false),
            Pass::Signed64 => quick_check::integer(bytes, at, 18, true),
            Pass::Unsigned64 => quick_check::integer(bytes, at, 18, false),
            Pass::Bool => quick_check::boolean(bytes, at),
            Pass::Float | Pass::Double => quick_check::decimal(bytes, at),
            Pass::Text => quick_check::text(bytes, at),
            Pass::Bytes | Pass::Name | Pass::Never => None,
        };
        if let Some(end) = end {
            self.at = end;
        }
        end.is_some()
    }

    #[inline]
    fn pass_name(&mut self, names: &Names) -> bool {
        let bytes = self.text.as_bytes();
        let at = past_one_space(bytes, self.at);
        let Some(end) = quick_check::text(bytes, at).filter(|end| names.find(&bytes[at + 1..end - 1]).is_some()) else {
            return false;
        };
        self.at = end;
        true
    }

    #[inline]
    fn begin_map(&mut self) -> Option<Sequence> {
        self.begin(b'{')
    }

    #[inline]
    fn begin_list(&mut self) -> Option<Sequence> {
        self.begin(b'[')
    }

    fn end(&mut self) -> Checked {
        match self.past_space() {
            None => Ok(()),
            Some(_) => Err(Violation::new(Rule::Trailing, self.at, "the end of the payload", "more bytes")),
        }
    }
}

/// Skips one space, which most writers put after a colon or a comma.
#[inline]
fn past_one_space(bytes: &[u8], at: usize) -> usize {
    at + usize::from(bytes.get(at) == Some(&b' '))
}
