//! Secret bytes.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A password, a token, or the like. It is not shown, and its memory is zeroized on drop.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of the bytes. The caller is responsible for other copies.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(Zeroizing::new(bytes.into()))
    }

    /// The bytes themselves: to compute with, never to show.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Compares in constant time, for secrets of equal length.
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

/// Shows only the length.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// Compares in a time that depends only on the lengths.
pub(crate) fn are_same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}
