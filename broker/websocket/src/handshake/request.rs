//! Strict parsing of an HTTP request head (RFC 9112).

use super::HandshakeRefusal;

/// A request line and its headers.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Request<'a> {
    /// Parses lines, each with its line end.
    ///
    /// # Errors
    /// If this is not an HTTP/1.1 request without content.
    pub(super) fn parse(head: &'a [u8]) -> Result<Request<'a>, HandshakeRefusal> {
        // Text outside ASCII can only be in names and values that are not read here.
        let head = std::str::from_utf8(head).map_err(|_| HandshakeRefusal::Malformed("the request is not UTF-8"))?;
        let mut lines = head.split_terminator("\r\n");
        let line = lines.next().unwrap_or_default();
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(HandshakeRefusal::Malformed("the request line is not HTTP"));
        };
        if !is_token(method) || target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HandshakeRefusal::Malformed("the request line is not HTTP"));
        }
        match version {
            "HTTP/1.1" => {}
            _ if version.starts_with("HTTP/") => return Err(HandshakeRefusal::HttpVersion),
            _ => return Err(HandshakeRefusal::Malformed("the request line is not HTTP")),
        }
        let fields = lines.map(field).collect::<Option<Vec<_>>>();
        let fields = fields.ok_or(HandshakeRefusal::Malformed("a header is not a name, a colon and a value"))?;
        let request = Request { method, target, fields };
        let has_content = request.values("content-length").any(|length| length != "0");
        if has_content || request.values("transfer-encoding").next().is_some() {
            return Err(HandshakeRefusal::Malformed("the request has content"));
        }
        Ok(request)
    }

    /// All values of a header; `name` is in lower case.
    fn values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// The value of a header that must not be repeated.
    ///
    /// # Errors
    /// If it is repeated.
    pub(super) fn single(&self, name: &str) -> Result<Option<&'a str>, HandshakeRefusal> {
        let mut values = self.values(name);
        let value = values.next();
        if values.next().is_some() {
            return Err(HandshakeRefusal::Malformed("a header is repeated that may occur only once"));
        }
        Ok(value)
    }

    /// All items of a list header, which may be spread over several headers of the same name.
    pub(super) fn items(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.values(name).flat_map(|value| value.split(',')).map(trim).filter(|item| !item.is_empty())
    }

    /// Whether a list header contains an item, case-insensitively.
    pub(super) fn has_token(&self, name: &str, token: &str) -> bool {
        self.items(name).any(|item| item.eq_ignore_ascii_case(token))
    }
}

/// Parses `name: value`; rejects line folding, as section 5.2 allows.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let value = trim(value);
    let is_value = value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control());
    (is_token(name) && is_value).then_some((name, value))
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}
