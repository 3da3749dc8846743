//! Paths and queries as addresses spell them: percent-encoded where they must be.

use super::response::{Response, Status};

/// The text that is meant.
///
/// # Errors
/// What is wrong with it.
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
            return Err("a % is not followed by two hexadecimal digits; write %25 for one that is meant");
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

/// What a query says, each thing once.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// # Errors
    /// The answer to a query that cannot be read.
    pub(super) fn parse(query: &str) -> Result<Query, Response> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read =
                |text: &str| decoded(&text.replace('+', " ")).map_err(|why| bad_request(&format!("{pair:?}: {why}")));
            let (key, value) = (read(key)?, read(value)?);
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(bad_request(&format!("{key} stands there twice")));
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

    /// The same, read by `read`; `expected` says what it must be.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn take_as<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Response> {
        let Some(value) = self.take(key) else { return Ok(None) };
        read(&value).map(Some).ok_or_else(|| bad_request(&format!("{key} is {expected}, not {value:?}")))
    }

    /// All that may be said has been taken.
    ///
    /// # Errors
    /// Something else is there.
    pub(super) fn finish(self, known: &str) -> Result<(), Response> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(bad_request(&format!("there is no {key:?}; there are {known}"))),
        }
    }
}

/// The answer to a query that is not understood.
pub(super) fn bad_request(message: &str) -> Response {
    Response::error(Status::BAD_REQUEST, "bad_query", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_said_once_and_known() {
        let mut query = Query::parse("a=1&b=x%26y+z&").expect("it can be read");
        assert_eq!(query.take_as("a", "a number", |text| text.parse::<u8>().ok()).expect("a number"), Some(1));
        assert_eq!(query.take("b").as_deref(), Some("x&y z"));
        assert_eq!(query.take("b"), None);
        assert!(query.finish("a and b").is_ok());
        for wrong in ["a=1&a=1", "a=%", "%ff=1"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
        let mut query = Query::parse("a=x&c").expect("it can be read");
        assert!(query.take_as("a", "a number", |text| text.parse::<u8>().ok()).is_err());
        assert!(query.finish("a").is_err());
    }
}
