//! Converts errors of the Rust client, with the texts of spec/errors.

use std::error::Error as _;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tautwire_client::Error;

/// `tautwire.MqttError`. Cached, because nothing can be imported during the shutdown of Python.
static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The class of the exceptions.
pub(crate) fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let found =
        CLASS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("tautwire.errors")?.getattr("MqttError")?.unbind()));
    found.map(|class| class.bind(py))
}

/// Creates a `tautwire.MqttError`. The Python class has the text of the code.
pub(crate) fn new(py: Python<'_>, code: &str, detail: Option<&str>, reason: Option<u8>) -> PyErr {
    let made = class(py).and_then(|class| class.call1((code, detail, reason)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception for an error of the client.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let reason = error.reason().map(|reason| reason.as_u8());
    let made = class(py).and_then(|class| class.call_method1("of_message", (error.code(), error.to_string(), reason)));
    let raised = match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    };
    // The exception that a function of the application raised.
    if let Some(cause) = error.source().and_then(|cause| cause.downcast_ref::<PyErr>()) {
        raised.set_cause(py, Some(cause.clone_ref(py)));
    }
    raised
}
