//! A password file, changed. All other lines stay as they are, comments, too.

use std::fmt;

use crate::Secret;
use crate::limits::{PASSWORD_BYTES_MAX, USERS_MAX};
use crate::password_file::{Account, Line, PasswordCost, PasswordHash, check_name};
use crate::scram::{ScramHash, ScramKeys};

/// What a file is to have about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derived {
    /// Whether there are keys of SCRAM beside the hash of the password. They can be guessed at faster than the hash can, by somebody
    /// who has the file.
    pub scram: bool,
    /// What the hash of the password costs.
    pub cost: PasswordCost,
}

/// Why a file is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The user is there already.
    Exists(String),
    /// There is no such user.
    Unknown(String),
    /// No user can have this name: why.
    Name(String),
    /// No user can have this password: why.
    Password(&'static str),
    /// The file has as many users as it may have.
    Full,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Exists(name) => {
                write!(
                    f,
                    "there is a user {name} already; to change the password, use tautwire user passwd [user_exists]"
                )
            }
            EditError::Unknown(name) => write!(f, "there is no user {name} [user_unknown]"),
            EditError::Name(why) => write!(f, "{why} [user_name]"),
            EditError::Password(why) => write!(f, "{why} [user_password]"),
            EditError::Full => write!(f, "the file has {USERS_MAX} users, and may not have more [user_limit]"),
        }
    }
}

impl std::error::Error for EditError {}

/// What a file keeps of a password. Takes long.
///
/// # Errors
/// The password is empty, or longer than one of MQTT can be.
pub fn account(password: &Secret, derived: Derived, random: &mut dyn FnMut(&mut [u8])) -> Result<Account, EditError> {
    let password = password.expose();
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(EditError::Password("a password has 1 to 65,535 bytes"));
    }
    let hash = PasswordHash::new(password, derived.cost.0, random)
        .ok_or(EditError::Password("the password cannot be hashed"))?;
    let mut keys = |hash| derived.scram.then(|| ScramKeys::new(hash, password, random));
    Ok(Account { password: hash, scram_sha_256: keys(ScramHash::Sha256), scram_sha_512: keys(ScramHash::Sha512) })
}

/// Whether a user can be added to a file.
///
/// # Errors
/// The user is there, or cannot have this name, or there are too many.
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

/// The text of a file with one more user, at its end.
///
/// # Errors
/// Those of [`can_add`].
pub fn add(text: &str, name: &str, account: &Account) -> Result<String, EditError> {
    can_add(text, name)?;
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{text}{end}{name}:{account}\n"))
}

/// The text of a file in which a user has another password.
///
/// # Errors
/// There is no such user.
pub fn change(text: &str, name: &str, account: &Account) -> Result<String, EditError> {
    let changed = format!("{name}:{account}\n");
    replace(text, name, &changed)
}

/// The text of a file without a user.
///
/// # Errors
/// There is no such user.
pub fn remove(text: &str, name: &str) -> Result<String, EditError> {
    replace(text, name, "")
}

/// Puts something in the place of a user's first line, and takes out further ones.
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
