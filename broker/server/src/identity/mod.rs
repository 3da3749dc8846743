//! Who clients are: files with users, passwords that people type, and threads that find out what takes long.

mod authenticator;
mod ban_enforcer;
pub(crate) mod ban_file;
mod chains;
mod http_client;
mod prompt_password;
mod users;
mod workers;

pub(crate) use authenticator::{ChainAuthenticator, LoadedAuth};
pub(crate) use ban_enforcer::BanEnforcer;
pub(crate) use chains::{AuthChains, parse_users, password_file};
pub(crate) use http_client::{UreqClient, read_authorities};
pub(crate) use prompt_password::{from_file, prompt_password};
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
