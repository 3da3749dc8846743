//! The Rust client for Python.
//!
//! Nothing here calls Python from a thread of its own, and no lock is held while Python code runs: what happens is noted in an
//! [`inbox::Inbox`], and Python fetches it, as much as there is at a time.
#![forbid(unsafe_code)]

mod client;
mod error;
mod fork;
mod inbox;
mod message;
mod operation;
mod options;
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
