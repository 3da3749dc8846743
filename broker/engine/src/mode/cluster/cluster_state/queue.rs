//! A verb that queues of the standard library get later than the oldest compiler that is supported.

use std::collections::VecDeque;

/// Takes the first off the queue if `is_meant`.
pub(super) fn pop_front_if<T>(queue: &mut VecDeque<T>, is_meant: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_meant) { queue.pop_front() } else { None }
}
