//! Room for messages that a session holds: by its client's quotas, by those of its user, and by what the operator has chosen where there
//! is none.

mod steps;

/// The smallest message there is. Where not even that fits, a queue is full.
pub(crate) const SMALLEST_BYTES: usize = 1;
