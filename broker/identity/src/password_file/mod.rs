//! Users and their password hashes.

mod file;
pub(crate) mod hash;
mod line;

use ring::digest::{Context, SHA256};

pub use file::PasswordFile;
#[cfg(test)]
pub(crate) use hash::Argon2Cost;
pub use hash::PasswordCost;
pub(crate) use hash::PasswordHash;
pub(crate) use line::{Line, check_name};

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
impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("hash", &self.hash_name()).finish_non_exhaustive()
    }
}

/// A pseudorandom number that depends on the key and a name, the same each time.
pub(crate) fn keyed_number(key: &[u8; 32], purpose: &str, name: &str) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in [&key[..], purpose.as_bytes(), &[0], name.as_bytes()] {
        context.update(part);
    }
    let mut number = [0; 32];
    number.copy_from_slice(context.finish().as_ref());
    number
}
