//! What the crate cannot do itself.

/// The world outside, as a thread that runs [`crate::Work`] has it.
pub trait Outside {}

/// Nothing can be reached.
impl Outside for () {}
