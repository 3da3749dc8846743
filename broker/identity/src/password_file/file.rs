//! A parsed password file.

use std::num::NonZeroU32;

use super::account::Account;
use super::hash::PasswordHash;
use super::line::Line;
use crate::error::{ErrorCode, FileError};
use crate::keyed_number::keyed_number;
use crate::limits::{ERRORS_MAX, PASSWORD_FILE_BYTES_MAX, USERS_MAX};
use crate::scram::{ScramHash, ScramKeys};

/// The users of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PasswordFile {
    /// Sorted by name.
    users: Box<[(Box<str>, Account)]>,
    /// The SCRAM iterations of its users, for each hash.
    scram_iterations: [Box<[NonZeroU32]>; 2],
}

impl PasswordFile {
    /// Parses the text of a file, which is called `file` in messages. Mosquitto's password files are supported, too.
    ///
    /// # Errors
    /// All errors of the file, at most [`ERRORS_MAX`]. A file with one invalid line is rejected as a whole.
    pub fn parse(file: &str, text: &str) -> Result<PasswordFile, Vec<FileError>> {
        let error = |code, line, message| FileError { code, file: file.to_owned(), line, message };
        if text.len() > PASSWORD_FILE_BYTES_MAX {
            let message = format!("the file has more than {PASSWORD_FILE_BYTES_MAX} bytes");
            return Err(vec![error(ErrorCode::Limit, None, message)]);
        }
        let (mut users, mut errors) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.split('\n')) {
            match Line::parse(line) {
                Ok(Line::Blank) => {}
                Ok(Line::User { name, account }) => users.push((Box::<str>::from(name), number, account)),
                Err((code, message)) => errors.push(error(code, Some(number), message)),
            }
            if users.len() > USERS_MAX {
                errors.push(error(ErrorCode::Limit, Some(number), format!("there are more than {USERS_MAX} users")));
            }
            if errors.len() >= ERRORS_MAX || users.len() > USERS_MAX {
                return Err(errors);
            }
        }
        users.sort_by(|(a, first, _), (b, second, _)| a.cmp(b).then(first.cmp(second)));
        for pair in users.windows(2) {
            let [(name, first, _), (other, second, _)] = pair else { continue };
            if name == other && errors.len() < ERRORS_MAX {
                let message = format!("the user is already in line {first}; remove one of the lines");
                errors.push(error(ErrorCode::Duplicate, Some(*second), message));
            }
        }
        errors.sort_by_key(|error| error.line);
        if errors.is_empty() {
            let users: Box<[_]> = users.into_iter().map(|(name, _, account)| (name, account)).collect();
            let scram_iterations = ScramHash::ALL.map(|hash| scram_iterations(&users, hash));
            Ok(PasswordFile { users, scram_iterations })
        } else {
            Err(errors)
        }
    }

    /// The entry of a user.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Account> {
        let index = self.users.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.users.get(index).map(|(_, account)| account)
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = (&str, &Account)> {
        self.users.iter().map(|(name, account)| (&**name, account))
    }

    /// A hash to verify for an unknown name, so that it takes as long as for a known one: it has the cost of some user of the file, the
    /// same for a name each time.
    pub(crate) fn decoy(&self, key: &[u8; 32], name: &str) -> PasswordHash {
        let some = pick(key, name, self.users.len()).and_then(|index| self.users.get(index));
        some.map_or_else(PasswordHash::default_decoy, |(_, account)| account.password.decoy())
    }

    /// Keys that match no password, for an exchange that cannot be distinguished from that of a user of the file.
    pub(crate) fn scram_decoy(&self, key: &[u8; 32], hash: ScramHash, name: &str) -> ScramKeys {
        let iterations = &self.scram_iterations[hash as usize];
        let some = pick(key, name, iterations.len()).and_then(|index| iterations.get(index));
        ScramKeys::decoy(hash, some.copied(), key, name)
    }
}

/// A number below `count`, always the same for a name.
fn pick(key: &[u8; 32], name: &str, count: usize) -> Option<usize> {
    let [a, b, c, d, ..] = keyed_number(key, "decoy", name);
    (u32::from_le_bytes([a, b, c, d]) as usize).checked_rem(count)
}

/// The iterations of a sample of users.
fn scram_iterations(users: &[(Box<str>, Account)], hash: ScramHash) -> Box<[NonZeroU32]> {
    const USERS_LOOKED_AT: usize = 1_024;
    let with_keys = users.iter().filter_map(|(_, account)| account.scram(hash));
    with_keys.map(|keys| keys.iterations).take(USERS_LOOKED_AT).collect()
}

/// Shows only the number of users.
impl std::fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasswordFile").field("users", &self.users.len()).finish()
    }
}
