//! `VecDeque::pop_front_if`, for compilers whose standard library does not have it.

use std::collections::VecDeque;

/// Removes the first element if `predicate` holds for it.
pub(super) fn pop_front_if<T>(queue: &mut VecDeque<T>, predicate: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(predicate) { queue.pop_front() } else { None }
}
