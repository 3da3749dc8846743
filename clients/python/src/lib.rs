//! The Rust client for Python.
//!
//! Results are collected in an [`inbox::Inbox`], and Python fetches them in batches. No lock is held while Python code runs,
//! and threads of this module run Python code only for the [`credentials`] of an attempt to connect, and for an [`authenticator`].
#![forbid(unsafe_code)]

mod authenticator;
mod client;
mod credentials;
mod error;
mod fork;
mod inbox;
mod message;
mod operation;
mod options;
mod pending;
mod publication;
mod subscription;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<client::Client>()?;
    module.add_class::<client::Watch>()?;
    module.add_class::<inbox::Inbox>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<subscription::Subscription>()?;
    module.add_function(wrap_pyfunction!(fork::after_fork_in_child, module)?)
}
