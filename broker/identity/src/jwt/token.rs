//! A parsed token that has not been verified.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use tautwire_json::Value;

use super::Algorithm;
use crate::limits::{TOKEN_BYTES_MAX, TOKEN_HEADER_BYTES_MAX};
use crate::text::shown;

/// A token of three parts.
pub(super) struct Token<'t> {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    /// Untrusted until the signature has been verified.
    pub(super) claims: Value,
    /// The bytes that the signature covers.
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
}

/// Whether a password looks like a token: three parts, the first of which begins like a JSON object.
pub(crate) fn looks_like_a_token(password: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    password.starts_with(b"ey")
        && password.len() <= TOKEN_BYTES_MAX
        && password.iter().filter(|byte| **byte == b'.').count() == 2
        && password.iter().all(is_text)
}

impl<'t> Token<'t> {
    /// Parses a token, or returns why it is invalid.
    pub(super) fn parse(bytes: &'t [u8]) -> Result<Token<'t>, String> {
        if bytes.len() > TOKEN_BYTES_MAX {
            return Err(format!("it is longer than {TOKEN_BYTES_MAX} bytes"));
        }
        let text = str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let (signed, signature) = text.rsplit_once('.').ok_or("it does not have three parts")?;
        let (header, claims) =
            signed.split_once('.').filter(|(_, claims)| !claims.contains('.')).ok_or("it does not have three parts")?;
        if header.len() > TOKEN_HEADER_BYTES_MAX {
            return Err(format!("its header is longer than {TOKEN_HEADER_BYTES_MAX} bytes"));
        }
        let header = object(header).map_err(|why| format!("its header {why}"))?;
        let claims = object(claims).map_err(|why| format!("its payload {why}"))?;
        let name = header.get("alg").and_then(Value::as_text).ok_or("its header names no algorithm")?;
        let algorithm =
            Algorithm::named(name).ok_or_else(|| format!("its algorithm {} is unknown, or none", shown(name)))?;
        // RFC 7515, section 4.1.11: a token with an unknown critical extension must be rejected.
        if header.get("crit").is_some() {
            return Err("its header has critical extensions (crit), and none is supported".to_owned());
        }
        let kid = match header.get("kid") {
            None => None,
            Some(kid) => Some(kid.as_text().ok_or("its kid is not a string")?.to_owned()),
        };
        let signature = Base64UrlUnpadded::decode_vec(signature).map_err(|_| "its signature is not Base64url")?;
        Ok(Token { algorithm, kid, claims, signed: signed.as_bytes(), signature })
    }
}

fn object(part: &str) -> Result<Value, &'static str> {
    let bytes = Base64UrlUnpadded::decode_vec(part).map_err(|_| "is not Base64url")?;
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    let value = tautwire_json::parse(&text).map_err(|_| "is not JSON")?;
    if !matches!(value, Value::Object(_)) {
        return Err("is not an object");
    }
    // RFC 7515, section 4: rejected, because parsers would disagree about the token.
    if value.has_duplicates() { Err("has a duplicate name") } else { Ok(value) }
}
