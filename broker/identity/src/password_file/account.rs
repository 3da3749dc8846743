//! The entry of a user.

use std::fmt;

use super::hash::PasswordHash;
use crate::scram::{ScramHash, ScramKeys};

/// The entry of a user. It does not contain the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    pub(crate) password: PasswordHash,
    pub(crate) scram_sha_256: Option<ScramKeys>,
    pub(crate) scram_sha_512: Option<ScramKeys>,
}

impl Account {
    /// The kind of the password hash.
    #[must_use]
    pub fn hash_name(&self) -> &'static str {
        self.password.kind()
    }

    /// Whether the user can log in by SCRAM with this hash.
    #[must_use]
    pub fn has_scram(&self, hash: ScramHash) -> bool {
        self.scram(hash).is_some()
    }

    pub(crate) fn scram(&self, hash: ScramHash) -> Option<&ScramKeys> {
        match hash {
            ScramHash::Sha256 => self.scram_sha_256.as_ref(),
            ScramHash::Sha512 => self.scram_sha_512.as_ref(),
        }
    }
}

/// Omits the hashes, which are secrets.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("hash", &self.hash_name()).finish_non_exhaustive()
    }
}

/// In the form of the file, without the name.
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
