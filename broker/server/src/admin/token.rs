//! Access tokens.

use std::fmt::{self, Write as _};
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// Valid lengths of a token: long enough not to be guessed, short enough for a header.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=1_024;

/// A token, of which only the digest is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token([u8; SHA256_OUTPUT_LEN]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token from a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain a valid token. The message never includes the content.
    pub(crate) fn read(path: &Path) -> Result<Token, String> {
        read_text(path).map(|text| Token::of_text(&text))
    }

    /// The token with this text.
    pub(crate) fn of_text(text: &str) -> Token {
        Token::of_bytes(text.as_bytes())
    }

    /// The token with these bytes.
    pub(super) fn of_bytes(bytes: &[u8]) -> Token {
        let mut token = Token([0; SHA256_OUTPUT_LEN]);
        token.0.copy_from_slice(digest(&SHA256, bytes).as_ref());
        token
    }

    /// The token whose SHA-256 has these hexadecimal digits.
    pub(crate) fn of_digest(digits: &str) -> Option<Token> {
        let values: Option<Vec<u8>> = digits.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
        let values = values.filter(|values| values.len() == 64)?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(values.chunks_exact(2)) {
            *byte = pair[0] * 16 + pair[1];
        }
        Some(Token(digest))
    }

    /// Its SHA-256, in hexadecimal digits.
    pub(crate) fn to_digest(&self) -> String {
        hexadecimal(&self.0)
    }

    /// Whether `given` is the token. The comparison takes constant time.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let given = Token::of_bytes(given);
        let different = self.0.iter().zip(given.0).fold(0, |different, (a, b)| black_box(different | (a ^ b)));
        different == 0
    }
}

/// Generates an unguessable token: 32 random bytes in hexadecimal digits.
///
/// # Errors
/// The system provides no random bytes.
pub(crate) fn generate_token() -> Result<String, String> {
    let mut bytes = [0; 32];
    crate::identity::random(&mut bytes)?;
    Ok(hexadecimal(&bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The text of a token file without the trailing line end.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(*TOKEN_BYTES.end() as u64 + 3).read_to_string(&mut text))
        .map_err(|error| format!("cannot read the token file {}: {error}", path.display()))?;
    let token = text.trim_end_matches(['\r', '\n']);
    if !TOKEN_BYTES.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the token file {} must hold one line of {} to {} visible characters without spaces; make one with: \
             head -c 32 /dev/urandom | base64 > {0}",
            path.display(),
            TOKEN_BYTES.start(),
            TOKEN_BYTES.end()
        ));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_token_is_accepted() {
        let token = Token::of_text("0123456789abcdef");
        assert_eq!(Token::of_digest(&token.to_digest()), Some(token.clone()));
        assert_eq!(Token::of_digest(&token.to_digest()[1..]), None);
        assert!(token.is(b"0123456789abcdef"));
        for other in [&b""[..], b"0123456789abcdeF", b"0123456789abcdef0", b"0123456789abcde", b"\xff"] {
            assert!(!token.is(other));
        }
    }
}
