//! Percent-decoding of paths and query strings, and their parameters.

use tautwire_engine::PAGE_MAX;

use super::response::{Response, Status};

/// Default page size.
const PAGE_DEFAULT: usize = 100;

/// Decodes percent-encoded text.
///
/// # Errors
/// The reason why the text is invalid.
pub(super) fn decoded(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a % must be followed by two hexadecimal digits; write %25 for a literal %");
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

/// A parsed query string, with unique keys.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// # Errors
    /// The response to an invalid query.
    pub(super) fn parse(query: &str) -> Result<Query, Response> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read =
                |text: &str| decoded(&text.replace('+', " ")).map_err(|why| bad_request(&format!("{pair:?}: {why}")));
            let (key, value) = (read(key)?, read(value)?);
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(bad_request(&format!("duplicate parameter {key}")));
            }
            pairs.push((key, value));
        }
        Ok(Query(pairs))
    }

    /// Takes out the value of `key`.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Takes out the value of `key` and parses it with `read`; `expected` describes valid values.
    ///
    /// # Errors
    /// The value is invalid.
    pub(super) fn take_as<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Response> {
        let Some(value) = self.take(key) else { return Ok(None) };
        read(&value).map(Some).ok_or_else(|| bad_request(&format!("{key} must be {expected}, not {value:?}")))
    }

    /// Takes `limit`, the size of a page.
    ///
    /// # Errors
    /// The value is not valid.
    pub(super) fn take_limit(&mut self) -> Result<usize, Response> {
        let read = |text: &str| text.parse::<usize>().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
        let limit = self.take_as("limit", &format!("a number from 1 to {PAGE_MAX}"), read)?;
        Ok(limit.unwrap_or(PAGE_DEFAULT))
    }

    /// Checks that no other parameters are left.
    ///
    /// # Errors
    /// An unknown parameter is left.
    pub(super) fn finish(self, known: &str) -> Result<(), Response> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(bad_request(&format!("unknown parameter {key:?}; known parameters: {known}"))),
        }
    }
}

/// The response to an invalid query.
pub(super) fn bad_request(message: &str) -> Response {
    Response::error(Status::BAD_REQUEST, "bad_query", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_known_and_occurs_once() {
        let mut query = Query::parse("a=1&b=x%26y+z&").expect("a valid query");
        assert_eq!(query.take_as("a", "a number", |text| text.parse::<u8>().ok()).expect("a number"), Some(1));
        assert_eq!(query.take("b").as_deref(), Some("x&y z"));
        assert_eq!(query.take("b"), None);
        assert!(query.finish("a and b").is_ok());
        for wrong in ["a=1&a=1", "a=%", "%ff=1"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
        let mut query = Query::parse("a=x&c").expect("a valid query");
        assert!(query.take_as("a", "a number", |text| text.parse::<u8>().ok()).is_err());
        assert!(query.finish("a").is_err());
    }
}
