//! What a fork leaves behind: the child has the objects of its parent, but none of the threads that drive them, and their
//! locks may be held by threads that are gone.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::error;

/// Forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Python calls it in a child process, before anything else runs there.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Something that belongs to the process that made it. In a child it cannot be had, and is not dropped either, since that might wait
/// for a lock for ever.
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
