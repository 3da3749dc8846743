//! Client authentication: password files, password prompts, and worker threads for slow checks.

mod authenticator;
mod ban_enforcer;
pub(crate) mod ban_file;
mod chains;
mod http_client;
mod prompt_password;
mod users;
mod workers;

pub(crate) use authenticator::{ChainAuthenticator, LoadedAuth, WorkerPool};
pub(crate) use ban_enforcer::BanEnforcer;
pub(crate) use chains::AuthChains;
pub(crate) use http_client::{UreqClient, read_authorities};
pub(crate) use prompt_password::{from_file, prompt_password};
pub(crate) use users::{edit, parse_users, password_file, read};
pub(crate) use workers::WorkerCounters;

use ring::rand::{SecureRandom as _, SystemRandom};

/// Fills a buffer with cryptographically secure random bytes.
///
/// # Errors
/// The system provides no random bytes.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), String> {
    SystemRandom::new().fill(bytes).map_err(|_| "the system provides no random bytes".to_owned())
}
