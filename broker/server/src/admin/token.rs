//! The secret that requests carry.

use std::fmt;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use sha2::{Digest as _, Sha256};

/// Lengths of a token that cannot be guessed and fits a header.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=1_024;

/// The token, of which only the digest is kept.
pub(crate) struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token from a file.
    ///
    /// # Errors
    /// The file cannot be read, or what it holds is no token. Never says what it holds.
    pub(crate) fn read(path: &Path) -> Result<Token, String> {
        read_text(path).map(|text| Token(Sha256::digest(text).into()))
    }

    /// Whether `given` is the token. Takes the same time for all that are not.
    fn is(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        let different = self.0.iter().zip(given).fold(0, |different, (a, b)| black_box(different | (a ^ b)));
        different == 0
    }
}

/// The token that requests must carry now.
#[derive(Debug)]
pub(crate) struct CurrentToken(RwLock<Token>);

impl CurrentToken {
    pub(crate) fn new(token: Token) -> CurrentToken {
        CurrentToken(RwLock::new(token))
    }

    /// From now on requests must carry this one.
    pub(crate) fn set(&self, token: Token) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Whether `given` is it. Takes the same time for all that are not.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is(given)
    }
}

/// The text of a token's file, without the line end behind it.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(*TOKEN_BYTES.end() as u64 + 3).read_to_string(&mut text))
        .map_err(|error| format!("the token file {} cannot be read: {error}", path.display()))?;
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

/// Whether others on this machine may read the file.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let token = Token(Sha256::digest("0123456789abcdef").into());
        assert!(token.is(b"0123456789abcdef"));
        for other in [&b""[..], b"0123456789abcdeF", b"0123456789abcdef0", b"0123456789abcde", b"\xff"] {
            assert!(!token.is(other));
        }
    }
}
