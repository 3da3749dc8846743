//! The file with the access rules.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use tautwire_access::{Policy, limits};

/// Reads and compiles the rules; without a file everything is allowed.
///
/// # Errors
/// Everything that is wrong with it, a line each.
pub(crate) fn load(path: Option<&Path>) -> Result<Arc<Policy>, Vec<String>> {
    let Some(path) = path else { return Ok(Arc::new(Policy::open())) };
    let name = path.display().to_string();
    let text = read(path).map_err(|why| vec![format!("{name}: {why} [access_unreadable]")])?;
    let policy = Policy::parse(&name, &text);
    policy.map(Arc::new).map_err(|errors| errors.iter().map(ToString::to_string).collect())
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
