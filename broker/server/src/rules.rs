//! The file with the access rules.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use tautwire_access::{Policy, limits};

use crate::config::Config;
use crate::config::listener::Listener;

/// Reads and compiles a file of rules.
///
/// # Errors
/// Everything that is wrong with it, a line each.
pub(crate) fn load(path: &Path) -> Result<Arc<Policy>, Vec<String>> {
    read_policy(Some(path)).map(Arc::new)
}

/// Without a file everything is allowed.
fn read_policy(path: Option<&Path>) -> Result<Policy, Vec<String>> {
    let Some(path) = path else { return Ok(Policy::open()) };
    let name = path.display().to_string();
    let text = read(path).map_err(|why| vec![format!("{name}: {why} [access_unreadable]")])?;
    Policy::parse(&name, &text).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The rules that a configuration names, those of listeners too.
///
/// # Errors
/// Everything that is wrong with them, likewise.
pub(crate) fn load_all(config: &Config) -> Result<Arc<Policy>, Vec<String>> {
    let mut errors = Vec::new();
    let mut read = |path: Option<&Path>| {
        read_policy(path).unwrap_or_else(|wrong| {
            errors.extend(wrong);
            Policy::open()
        })
    };
    let common = read(config.acl.file.get());
    let of_listener = |listener: Listener| Some((listener.name.into(), read(listener.acl?.get())));
    let listeners = config.listeners().into_iter().filter_map(of_listener).collect();
    if errors.is_empty() { Ok(Arc::new(common.with_listeners(listeners))) } else { Err(errors) }
}

/// One byte more than may be there, so that the policy refuses it and says why.
fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    file.take(limits::FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}
