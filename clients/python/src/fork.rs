//! Handles forks: the child process has the objects of its parent, but not the threads that drive them, and their
//! locks may be held by threads that do not exist.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::error;

/// The number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Python calls it first in a child process.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A value that belongs to the process that created it. A child process cannot access it, and does not drop it, because that might wait
/// forever for a lock.
pub(crate) struct Owned<T> {
    forks: u64,
    value: Option<T>,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Owned<T> {
        Owned { forks: FORKS.load(Ordering::Relaxed), value: Some(value) }
    }

    fn is_home(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `forked`.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.is_home() => Ok(value),
            _ => Err(error::new(py, "forked", None, None)),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.is_home() {
            std::mem::forget(self.value.take());
        }
    }
}
