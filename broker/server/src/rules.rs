//! The file with the access rules.

use std::path::Path;
use std::sync::Arc;

use tautwire_access::{Policy, limits};

use crate::config::Config;
use crate::config::listener::Listener;
use crate::files;

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
    let text = files::text(path, limits::FILE_BYTES_MAX);
    let text = text.map_err(|why| vec![format!("{name}: {why} [access_unreadable]")])?;
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
