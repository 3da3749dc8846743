//! What `VecDeque` lacks in the oldest compiler that we support.

use std::collections::VecDeque;

/// Takes the front off if it is wanted.
pub(crate) fn pop_front_if<T>(queue: &mut VecDeque<T>, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_wanted) { queue.pop_front() } else { None }
}
