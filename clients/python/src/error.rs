//! Errors of the Rust client, in the words of spec/errors.

use std::error::Error as _;

use pyo3::prelude::*;
use tautwire_client::Error;

/// An exception `tautwire.MqttError`. The text that belongs to the code is with its class, in Python.
pub(crate) fn new(py: Python<'_>, code: &str, detail: Option<&str>, reason: Option<u8>) -> PyErr {
    let made = py
        .import("tautwire.errors")
        .and_then(|module| module.getattr("MqttError"))
        .and_then(|class| class.call1((code, detail, reason)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception for an error of the client.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let reason = error.reason().map(|reason| reason.as_u8());
    let made = py
        .import("tautwire.errors")
        .and_then(|module| module.getattr("MqttError"))
        .and_then(|class| class.call_method1("of_message", (error.code(), error.to_string(), reason)));
    let raised = match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    };
    // What a function of the application raised.
    if let Some(cause) = error.source().and_then(|cause| cause.downcast_ref::<PyErr>()) {
        raised.set_cause(py, Some(cause.clone_ref(py)));
    }
    raised
}
