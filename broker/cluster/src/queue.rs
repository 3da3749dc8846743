//! Methods of `VecDeque` that the oldest supported compiler lacks.

use std::collections::VecDeque;

/// Removes and returns the front if the predicate is true.
pub(crate) fn pop_front_if<T>(queue: &mut VecDeque<T>, is_wanted: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_wanted) { queue.pop_front() } else { None }
}
