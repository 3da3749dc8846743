//! Bytes that nobody may see.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A password, a token, or the like. It is not shown, and its memory is overwritten when it is dropped.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over. Copies that the caller keeps are the caller's.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(Zeroizing::new(bytes.into()))
    }

    /// The bytes themselves: to compute with, never to show.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether these are the same bytes. For secrets of one length it takes the same time for all of them.
    #[must_use]
    pub fn is(&self, other: &[u8]) -> bool {
        are_same(&self.0, other)
    }
}

/// In constant time, like [`Secret::is`].
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.is(other.expose())
    }
}

impl Eq for Secret {}

/// Only how long it is.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// Compares in a time that depends on the lengths alone.
pub(crate) fn are_same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}
