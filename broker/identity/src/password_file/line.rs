//! A line of a password file.

use super::account::Account;
use super::hash::PasswordHash;
use crate::error::ErrorCode;
use crate::limits::{LINE_BYTES_MAX, USER_NAME_BYTES_MAX};
use crate::scram::{ScramHash, ScramKeys};

/// A parsed line.
pub(crate) enum Line<'t> {
    /// An empty line or a comment.
    Blank,
    User {
        name: &'t str,
        account: Account,
    },
}

impl<'t> Line<'t> {
    /// Parses a line: `name:hash` and, after further colons, SCRAM keys.
    ///
    /// # Errors
    /// A message that contains nothing after the name: it may be a password.
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
                return Err((ErrorCode::Duplicate, format!("duplicate keys of {}", hash.method())));
            }
        }
        Ok(Line::User { name, account })
    }

    /// The name and the text after it; `None` for a blank line or a comment.
    pub(crate) fn split(text: &'t str) -> Result<Option<(&'t str, &'t str)>, (ErrorCode, String)> {
        if text.len() > LINE_BYTES_MAX {
            return Err((ErrorCode::Limit, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        if text.trim().is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let (name, rest) = text
            .split_once(':')
            .ok_or_else(|| (ErrorCode::NoHash, "the line has no colon; write name:hash".to_owned()))?;
        check_name(name).map_err(|message| (ErrorCode::UserName, message))?;
        Ok(Some((name, rest.trim_end_matches([' ', '\t', '\r']))))
    }
}

/// Checks whether a name is valid for a user in a file.
///
/// # Errors
/// Why it is not.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let why = if name.is_empty() {
        "a user name must not be empty"
    } else if name.len() > USER_NAME_BYTES_MAX {
        "a user name must have at most 1,024 bytes"
    } else if name.contains(':') || name.chars().any(char::is_control) {
        "a user name must not contain colons or control characters"
    } else if name.starts_with('#') || name.trim() != name {
        "a user name must not begin with # or have spaces around it"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}
