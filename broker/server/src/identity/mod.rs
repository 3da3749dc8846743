//! Who clients are: files with users, passwords that people type, and threads that find out what takes long.

mod ask;
pub(crate) mod ban_file;
mod chains;
mod enforcement;
mod outside;
mod porter;
mod users;
mod workers;

pub(crate) use ask::{ask, from_file};
pub(crate) use chains::{Chains, parse_users, password_file};
pub(crate) use enforcement::Enforcement;
pub(crate) use outside::{Http, read_authorities};
pub(crate) use porter::{Porter, Reading};
pub(crate) use users::{edit, read};
pub(crate) use workers::WorkerCounters;

use ring::rand::{SecureRandom as _, SystemRandom};

/// Fills bytes so that nobody can guess them.
///
/// # Errors
/// The system gives no random bytes; then nothing secret can be made.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), String> {
    SystemRandom::new().fill(bytes).map_err(|_| "the system gives no random bytes".to_owned())
}
