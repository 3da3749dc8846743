use std::fmt;

use crate::Error;

/// The limit for additional header fields. Servers refuse more than a few KiB.
const HEADERS_MAX_BYTES: usize = 8 << 10;

/// Additional header fields of the WebSocket handshake.
#[derive(Clone, Default)]
pub(crate) struct Headers(String);

impl Headers {
    pub(super) fn push(&mut self, name: &str, value: &str) -> Result<(), Error> {
        // Errors show neither the value nor its invalid part: it is often a secret.
        let wrong = |what: &str| Err(Error::Options(format!("the header \"{}\" {what}", name.escape_debug())));
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_ours = |ours: &&str| name.eq_ignore_ascii_case(ours);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            return wrong("is not a valid header name");
        }
        if ["host", "upgrade", "connection", "content-length", "transfer-encoding"].iter().any(is_ours)
            || lower.starts_with("sec-websocket-")
        {
            return wrong("is set by the client");
        }
        if !value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            return wrong("has a value that is not visible ASCII");
        }
        if self.0.len() + name.len() + value.len() > HEADERS_MAX_BYTES {
            return wrong("exceeds the total limit of 8 KiB");
        }
        self.0.push_str(&format!("{name}: {value}\r\n"));
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As lines of the HTTP request.
    #[cfg(any(feature = "websocket", test))]
    pub(crate) fn lines(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Headers {
    /// Omits the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lines().filter_map(|line| line.split(':').next())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_change_the_request_are_refused_without_secrets() {
        for (name, value) in [
            ("", "secret"),
            ("a b", "secret"),
            ("a\r\nb", "secret"),
            ("Host", "secret"),
            ("sec-websocket-key", "secret"),
            ("a", "secret\r\nHost: b"),
            ("a", "sécret"),
            ("a", &"secret".repeat(2000)),
        ] {
            let error = Headers::default().push(name, value).expect_err("the field changes the request");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let mut headers = Headers::default();
        headers.push("Authorization", "Bearer secret").expect("a header");
        headers.push("X-Trace", "1").expect("a header");
        assert_eq!(headers.lines(), "Authorization: Bearer secret\r\nX-Trace: 1\r\n");
        assert_eq!(format!("{headers:?}"), "[\"Authorization\", \"X-Trace\"]");
    }
}
