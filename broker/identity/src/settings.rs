//! Settings of an authentication chain.

use std::fmt;
use std::sync::Arc;

use crate::{Bans, VerifiedPasswords};

/// Settings of a whole chain.
#[derive(Clone)]
pub struct Settings {
    /// Whether a password or a token is accepted on a connection that others can read.
    pub allows_plain_passwords: bool,
    /// Random, created once per process: responses for unknown users must stay the same, or they could be recognised.
    pub key: [u8; 32],
    /// Bans, and the rules for automatic bans.
    pub bans: Arc<Bans>,
    /// Cache of verified passwords.
    pub verified: Arc<VerifiedPasswords>,
}

/// Omits the key, which is a secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("allows_plain_passwords", &self.allows_plain_passwords).finish_non_exhaustive()
    }
}
