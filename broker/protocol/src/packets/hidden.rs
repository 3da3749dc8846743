//! Debug output without secrets.

use core::fmt;

/// A placeholder for payloads and passwords in debug output, which may end up in a log.
pub(super) struct Hidden(pub(super) usize);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}
