//! Users and their password hashes.

mod account;
mod file;
pub(crate) mod hash;
mod line;

pub use account::Account;
pub use file::PasswordFile;
#[cfg(test)]
pub(crate) use hash::Argon2Cost;
pub use hash::PasswordCost;
pub(crate) use hash::PasswordHash;
pub(crate) use line::{Line, check_name};
