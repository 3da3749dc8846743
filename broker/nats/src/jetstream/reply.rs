//! Parses answers of the servers.

use std::fmt;

use base64ct::{Base64, Encoding};
use tautwire_json::{Value, parse};

use super::time::parse_time;

/// An error of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The error code; 0 if the servers gave none.
    pub code: u64,
    /// The description.
    pub description: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (JetStream error code {})", self.description, self.code)
    }
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) sequence: u64,
    pub(crate) subject: String,
    /// The time of its server's clock: milliseconds since 1970.
    pub(crate) stored_at_ms: u64,
    /// It marks a key that was removed or has expired.
    pub(crate) is_removal: bool,
    pub(crate) payload: Vec<u8>,
}

/// Parses the answer to any request.
pub(crate) fn parse_api(payload: &[u8]) -> Result<Value, ApiError> {
    let not_understood = |what: &str| ApiError { code: 0, description: format!("invalid answer: {what}") };
    let text = str::from_utf8(payload).map_err(|_| not_understood("not UTF-8"))?;
    let value = parse(text).map_err(|error| not_understood(error.message))?;
    match value.get("error") {
        None => Ok(value),
        Some(error) => Err(ApiError {
            code: number(error, "err_code").unwrap_or(0),
            description: error.text("description").to_owned(),
        }),
    }
}

/// Parses the answer to a write: the sequence of the message.
pub(crate) fn parse_written(payload: &[u8]) -> Result<u64, ApiError> {
    let value = parse_api(payload)?;
    number(&value, "seq").filter(|sequence| *sequence > 0).ok_or_else(|| missing("a sequence"))
}

/// Parses the answer to a read from the leader.
pub(crate) fn parse_stored(payload: &[u8]) -> Result<StoredMessage, ApiError> {
    let value = parse_api(payload)?;
    let message = value.get("message").ok_or_else(|| missing("a message"))?;
    let bytes = |name: &str| Base64::decode_vec(message.text(name)).map_err(|_| missing("Base64"));
    Ok(StoredMessage {
        sequence: number(message, "seq").ok_or_else(|| missing("a sequence"))?,
        subject: message.text("subject").to_owned(),
        stored_at_ms: parse_time(message.text("time")).ok_or_else(|| missing("a time"))?,
        is_removal: has_removal(&bytes("hdrs")?),
        payload: bytes("data")?,
    })
}

/// Returns a non-negative number of an object.
pub(crate) fn number(value: &Value, name: &str) -> Option<u64> {
    match value.get(name) {
        Some(Value::Number(number)) => number.parse().ok(),
        _ => None,
    }
}

fn missing(what: &str) -> ApiError {
    ApiError { code: 0, description: format!("the answer lacks {what}") }
}

/// Whether the stored headers of a message mark its key as removed.
fn has_removal(headers: &[u8]) -> bool {
    headers.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok()).any(|line| {
        let (name, value) = line.split_once(':').unwrap_or_default();
        is_removal(name.trim(), value.trim())
    })
}

/// Whether a header marks a key as removed: by a client, by its time to live, or by a limit of the stream.
pub(super) fn is_removal(name: &str, value: &str) -> bool {
    match name {
        "KV-Operation" => matches!(value, "DEL" | "PURGE"),
        "Nats-Marker-Reason" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_parsed() {
        assert_eq!(parse_written(br#"{"stream":"TW_LOG_00","seq":7}"#), Ok(7));
        let refused =
            br#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"X","seq":0}"#;
        assert_eq!(parse_written(refused).expect_err("refused").code, 10_071);
        let answer = |message: &str| {
            parse_stored(
                format!(r#"{{"message":{{"subject":"a","time":"1970-01-01T00:00:01Z",{message}}}}}"#).as_bytes(),
            )
        };
        let stored = |sequence, is_removal, payload: &[u8]| {
            Ok(StoredMessage {
                sequence,
                subject: "a".to_owned(),
                stored_at_ms: 1000,
                is_removal,
                payload: payload.to_vec(),
            })
        };
        assert_eq!(answer(r#""seq":3,"data":"aGk=""#), stored(3, false, b"hi"));
        // `NATS/1.0`, `KV-Operation: DEL`
        assert_eq!(answer(r#""seq":4,"hdrs":"TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==""#), stored(4, true, b""));
    }

    #[test]
    fn invalid_replies_are_refused() {
        for bytes in [&b""[..], b"\xff", b"{}", br#"{"seq":0}"#, br#"{"seq":-1}"#, br#"{"seq":"1"}"#, b"+ACK"] {
            assert_eq!(parse_written(bytes).expect_err("no answer").code, 0);
        }
        for text in [r#"{"message":{}}"#, r#"{"message":{"seq":1,"data":"%"}}"#, r#"{"message":3}"#] {
            assert_eq!(parse_stored(text.as_bytes()).expect_err("no answer").code, 0, "{text}");
        }
    }
}
