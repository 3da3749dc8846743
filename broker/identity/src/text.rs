//! Names and texts from clients.

use std::sync::Arc;

/// A valid name of a user or a client.
pub(crate) fn checked_name(name: &str, bytes_max: usize) -> Option<Arc<str>> {
    let is_usable = !name.is_empty() && name.len() <= bytes_max && !name.chars().any(char::is_control);
    is_usable.then(|| name.into())
}

/// Text from a client, for the log: truncated, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 64;
    let mut shown: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
