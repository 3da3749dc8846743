//! JSON values (RFC 8259) and their parser.

use crate::string::push_string;

/// Deepest nesting accepted.
pub const DEPTH_MAX: usize = 128;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string, without its escapes.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// In the order of the text. A name may occur twice.
    Object(Vec<(String, Value)>),
}

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// In bytes, from 0.
    pub offset: usize,
    /// What is wrong.
    pub message: &'static str,
}

impl Value {
    /// The value of member `name` of an object; the first one if the name occurs twice.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The string under `name`; empty if there is none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_text).unwrap_or_default()
    }

    /// The items of the list under `name`; empty if there is none.
    #[must_use]
    pub fn list(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// Whether an object in it has a duplicate name. Parsers disagree about the meaning of such a text.
    #[must_use]
    pub fn has_duplicates(&self) -> bool {
        match self {
            Value::List(items) => items.iter().any(Value::has_duplicates),
            Value::Object(members) => {
                let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
                names.sort_unstable();
                names.windows(2).any(|pair| pair.first() == pair.last())
                    || members.iter().any(|(_, value)| value.has_duplicates())
            }
            _ => false,
        }
    }

    /// Appends the value as JSON on one line.
    pub fn push_json(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => out.push_str(number),
            Value::Text(text) => push_string(out, text),
            Value::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    item.push_json(out);
                }
                out.push(']');
            }
            Value::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    push_string(out, name);
                    out.push(':');
                    value.push_json(out);
                }
                out.push('}');
            }
        }
    }

    /// The kind of the value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Parses exactly one value.
///
/// # Errors
/// The text is not JSON, or nested deeper than [`DEPTH_MAX`].
pub fn parse(text: &str) -> Result<Value, SyntaxError> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at < text.len() { Err(reader.wrong("there is more text after the value")) } else { Ok(value) }
}

/// Each method consumes its part from `at` on.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("values are nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => {
                let mut members: Vec<(String, Value)> = Vec::new();
                self.list(b'}', |reader| {
                    let name = reader.string()?;
                    reader.skip_space();
                    reader.byte(b':', "a colon is missing")?;
                    reader.skip_space();
                    members.push((name, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Value::Object(members))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.list(b']', |reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Value::List(items))
            }
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    /// The opening bracket, items between commas, and the closing bracket.
    fn list(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), SyntaxError>,
    ) -> Result<(), SyntaxError> {
        self.at += 1;
        self.skip_space();
        if self.take(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            self.skip_space();
            if self.take(close) {
                return Ok(());
            }
            self.byte(b',', "a comma or the end of the list or object is missing")?;
            self.skip_space();
        }
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        self.byte(b'"', "a string is missing")?;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            let Some(plain) = plain else {
                self.at = self.text.len();
                return Err(self.wrong("a string is not terminated"));
            };
            string.push_str(&rest[..plain]);
            self.at += plain;
            if self.take(b'"') {
                return Ok(string);
            }
            if !self.take(b'\\') {
                return Err(self.wrong("a string contains a control character"));
            }
            string.push(self.escaped()?);
        }
    }

    /// Decodes the escape after a backslash.
    fn escaped(&mut self) -> Result<char, SyntaxError> {
        let letter = self.peek();
        self.at += usize::from(letter.is_some());
        Ok(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.unit()?;
                let pair_follows = (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u");
                let code = if pair_follows {
                    self.at += 2;
                    let second = self.unit()?;
                    let low = second.wrapping_sub(0xdc00);
                    if low < 0x400 { 0x10000 + ((first - 0xd800) << 10) + low } else { first }
                } else {
                    first
                };
                char::from_u32(code).ok_or_else(|| self.wrong("unpaired surrogate escape"))?
            }
            _ => return Err(self.wrong("unknown escape")),
        })
    }

    fn unit(&mut self) -> Result<u32, SyntaxError> {
        let digits = self.text.get(self.at..self.at + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += if unit.is_some() { 4 } else { 0 };
        unit.ok_or_else(|| self.wrong("four hexadecimal digits are missing"))
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits("a value is missing")?;
        }
        if self.take(b'.') {
            self.digits("digits are missing")?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits("digits are missing")?;
        }
        Ok(Value::Number(self.text[start..self.at].to_owned()))
    }

    fn digits(&mut self, message: &'static str) -> Result<(), SyntaxError> {
        let count = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err(self.wrong(message));
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, SyntaxError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.wrong("a value is missing"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn byte(&mut self, byte: u8, message: &'static str) -> Result<(), SyntaxError> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(message)) }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        let rest = self.text[self.at..].bytes();
        self.at += rest.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn wrong(&self, message: &'static str) -> SyntaxError {
        SyntaxError { offset: self.at, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_escapes() {
        let value = parse(r#" {"a": ["x\n\u00e9\ud83d\ude00\/", -1.5e3, true, null], "b": {}} "#).expect("JSON");
        let items =
            [Value::Text("x\né😀/".to_owned()), Value::Number("-1.5e3".to_owned()), Value::Bool(true), Value::Null];
        assert_eq!(value.list("a"), items);
        assert_eq!(value.get("b"), Some(&Value::Object(Vec::new())));
    }

    #[test]
    fn duplicate_names_are_detected() {
        for (text, has) in [
            ("{\"a\":{\"b\":1,\"c\":2},\"b\":1}", false),
            ("[{\"a\":1,\"b\":2,\"a\":1}]", true),
            ("{\"a\":{\"b\":1,\"b\":2}}", true),
        ] {
            assert_eq!(parse(text).expect("JSON").has_duplicates(), has, "{text}");
        }
    }

    #[test]
    fn errors_are_reported_with_their_position() {
        for (text, offset, message) in [
            ("", 0, "a value is missing"),
            ("{\"a\" 1}", 5, "a colon is missing"),
            ("[1 2]", 3, "a comma or the end of the list or object is missing"),
            ("\"\\ud800\"", 7, "unpaired surrogate escape"),
            ("\"\\ud800\\u0041\"", 13, "unpaired surrogate escape"),
            ("\"abc", 4, "a string is not terminated"),
            ("1 2", 2, "there is more text after the value"),
        ] {
            assert_eq!(parse(text), Err(SyntaxError { offset, message }), "{text}");
        }
    }
}
