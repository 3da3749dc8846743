//! Room for messages in a session: the quotas of its client and user, and the slow consumer policy if there is no room.

mod steps;

/// The size of the smallest message. If it does not fit, the queue is full.
pub(crate) const SMALLEST_BYTES: usize = 1;
