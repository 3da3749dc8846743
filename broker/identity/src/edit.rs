//! Editing of password files. All other lines, including comments, are preserved.

use std::fmt;

use crate::Secret;
use crate::limits::{PASSWORD_BYTES_MAX, USERS_MAX};
use crate::password_file::{Account, Line, PasswordCost, PasswordHash, check_name};
use crate::scram::{ScramHash, ScramKeys};

/// How to derive the entry of a user from its password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derived {
    /// Whether to store SCRAM keys in addition to the hash of the password. Somebody who has the file can guess passwords faster with them
    /// than with the hash.
    pub scram: bool,
    /// The cost of the password hash.
    pub cost: PasswordCost,
}

/// Why a file is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The user exists already.
    Exists(String),
    /// There is no such user.
    Unknown(String),
    /// The user name is not valid: why.
    Name(String),
    /// The password is not valid: why.
    Password(&'static str),
    /// The file has the maximum number of users.
    Full,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Exists(name) => {
                write!(
                    f,
                    "the user {name} already exists; to change the password, use tautwire user passwd [user_exists]"
                )
            }
            EditError::Unknown(name) => write!(f, "there is no user {name} [user_unknown]"),
            EditError::Name(why) => write!(f, "{why} [user_name]"),
            EditError::Password(why) => write!(f, "{why} [user_password]"),
            EditError::Full => write!(f, "the file has {USERS_MAX} users, which is the maximum [user_limit]"),
        }
    }
}

impl std::error::Error for EditError {}

/// Derives the entry of a user from a password. Takes long.
///
/// # Errors
/// The password is empty, or longer than MQTT allows.
pub fn account(password: &Secret, derived: Derived, random: &mut dyn FnMut(&mut [u8])) -> Result<Account, EditError> {
    let password = password.expose();
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(EditError::Password("a password must have 1 to 65,535 bytes"));
    }
    let hash = PasswordHash::new(password, derived.cost.0, random)
        .ok_or(EditError::Password("the password cannot be hashed"))?;
    let mut keys = |hash| derived.scram.then(|| ScramKeys::new(hash, password, random));
    Ok(Account { password: hash, scram_sha_256: keys(ScramHash::Sha256), scram_sha_512: keys(ScramHash::Sha512) })
}

/// Checks whether a user can be added to a file.
///
/// # Errors
/// The user exists, the name is not valid, or there are too many users.
pub fn can_add(text: &str, name: &str) -> Result<(), EditError> {
    check_name(name).map_err(EditError::Name)?;
    if lines_of(text, name).next().is_some() {
        return Err(EditError::Exists(name.to_owned()));
    }
    if text.split('\n').filter(|line| name_of(line).is_some()).count() >= USERS_MAX {
        return Err(EditError::Full);
    }
    Ok(())
}

/// Appends a user to the text of a file.
///
/// # Errors
/// Those of [`can_add`].
pub fn add(text: &str, name: &str, account: &Account) -> Result<String, EditError> {
    can_add(text, name)?;
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{text}{end}{name}:{account}\n"))
}

/// Replaces the entry of a user in the text of a file.
///
/// # Errors
/// There is no such user.
pub fn change(text: &str, name: &str, account: &Account) -> Result<String, EditError> {
    let changed = format!("{name}:{account}\n");
    replace(text, name, &changed)
}

/// Removes a user from the text of a file.
///
/// # Errors
/// There is no such user.
pub fn remove(text: &str, name: &str) -> Result<String, EditError> {
    replace(text, name, "")
}

/// Replaces a user's first line, and removes further ones.
fn replace(text: &str, name: &str, with: &str) -> Result<String, EditError> {
    let mut with = Some(with).filter(|_| lines_of(text, name).next().is_some());
    if with.is_none() {
        return Err(EditError::Unknown(name.to_owned()));
    }
    let lines = text.split_inclusive('\n');
    Ok(lines.map(|line| if name_of(line) == Some(name) { with.take().unwrap_or_default() } else { line }).collect())
}

fn lines_of<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = &'t str> {
    text.split('\n').filter(move |line| name_of(line) == Some(name))
}

fn name_of(line: &str) -> Option<&str> {
    Line::split(line).ok().flatten().map(|(name, _)| name)
}
