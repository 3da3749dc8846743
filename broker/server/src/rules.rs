//! The file with the access rules.

use std::path::Path;
use std::sync::Arc;

use tautwire_access::{Policy, limits};

use crate::files;

/// Reads and compiles the rules; without a file everything is allowed.
///
/// # Errors
/// Everything that is wrong with it, a line each.
pub(crate) fn load(path: Option<&Path>) -> Result<Arc<Policy>, Vec<String>> {
    let Some(path) = path else { return Ok(Arc::new(Policy::open())) };
    let name = path.display().to_string();
    let text = files::text(path, limits::FILE_BYTES_MAX);
    let text = text.map_err(|why| vec![format!("{name}: {why} [access_unreadable]")])?;
    let policy = Policy::parse(&name, &text);
    policy.map(Arc::new).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}
