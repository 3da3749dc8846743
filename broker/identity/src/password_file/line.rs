//! A line of a password file.

use std::fmt;

use super::{Account, PasswordHash};
use crate::error::ErrorCode;
use crate::limits::{LINE_BYTES_MAX, USER_NAME_BYTES_MAX};
use crate::scram::{ScramHash, ScramKeys};

/// What a line says.
pub(crate) enum Line<'t> {
    /// Nothing, or a comment.
    Blank,
    User {
        name: &'t str,
        account: Account,
    },
}

impl<'t> Line<'t> {
    /// Reads a line: `name:hash` and, behind further colons, keys of SCRAM.
    ///
    /// # Errors
    /// What is wrong with it. Nothing behind the name is said: it may be a password.
    pub(crate) fn parse(text: &'t str) -> Result<Line<'t>, (ErrorCode, String)> {
        let Some((name, rest)) = Self::split(text)? else { return Ok(Line::Blank) };
        let mut fields = rest.split(':');
        let password = PasswordHash::parse(fields.next().unwrap_or_default())?;
        let mut account = Account { password, scram_sha_256: None, scram_sha_512: None };
        for field in fields {
            let (hash, keys) = ScramKeys::parse(field)?;
            let place = match hash {
                ScramHash::Sha256 => &mut account.scram_sha_256,
                ScramHash::Sha512 => &mut account.scram_sha_512,
            };
            if place.replace(keys).is_some() {
                return Err((ErrorCode::Duplicate, format!("keys of {} stand twice", hash.method())));
            }
        }
        Ok(Line::User { name, account })
    }

    /// The name and what is behind it; nothing for a blank line or a comment.
    pub(crate) fn split(text: &'t str) -> Result<Option<(&'t str, &'t str)>, (ErrorCode, String)> {
        if text.len() > LINE_BYTES_MAX {
            return Err((ErrorCode::Limit, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        if text.trim().is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let (name, rest) = text
            .split_once(':')
            .ok_or_else(|| (ErrorCode::NoHash, "the line has no colon; a line is name:hash".to_owned()))?;
        check_name(name).map_err(|message| (ErrorCode::UserName, message))?;
        Ok(Some((name, rest.trim_end_matches([' ', '\t', '\r']))))
    }
}

/// Whether a user in a file can have this name.
///
/// # Errors
/// Why not.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let why = if name.is_empty() {
        "a user name is not empty"
    } else if name.len() > USER_NAME_BYTES_MAX {
        "a user name has 1,024 bytes at most"
    } else if name.contains(':') || name.chars().any(char::is_control) {
        "a user name has no colons and no control characters"
    } else if name.starts_with('#') || name.trim() != name {
        "a user name does not begin with # and has no spaces around it"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

/// As a file has it, without the name.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.password)?;
        for hash in [ScramHash::Sha256, ScramHash::Sha512] {
            if let Some(keys) = self.scram(hash) {
                write!(f, ":{}", keys.in_file(hash))?;
            }
        }
        Ok(())
    }
}
