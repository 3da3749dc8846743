//! Gets credentials from Python for each attempt to connect.

use std::future::{Ready, ready};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tautwire_client::{BoxError, Credentials};

/// Calls Python on the thread of the client, without its locks. An exception becomes the cause of `callback_failed`.
pub(crate) fn asking(ask: Py<PyAny>) -> impl FnMut() -> Ready<Result<Credentials, BoxError>> + Send + 'static {
    move || {
        let asked = Python::try_attach(|py| asked(ask.bind(py)));
        ready(match asked {
            Some(given) => given.map_err(Into::into),
            None => Err("Python is ending".into()),
        })
    }
}

/// Python returns a user name and a password, each of which may be `None`.
fn asked(ask: &Bound<'_, PyAny>) -> PyResult<Credentials> {
    let (user_name, password): (Option<String>, Option<PyBackedBytes>) = ask.call0()?.extract()?;
    Ok(match (user_name, password) {
        (Some(user_name), Some(password)) => Credentials::user_name(user_name).password(password.to_vec()),
        (Some(user_name), None) => Credentials::user_name(user_name),
        (None, Some(token)) => Credentials::token(token.to_vec()),
        (None, None) => Credentials::default(),
    })
}
