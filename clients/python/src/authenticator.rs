//! Authenticators in Python.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use tautwire_client::{Authenticator, BoxError, Error};

/// A Python object with `begin`, `respond` and `finish`. It is called without a lock of the client, because it may block.
pub(crate) struct PythonAuthenticator {
    method: String,
    object: Py<PyAny>,
}

impl PythonAuthenticator {
    pub(crate) fn new(method: String, object: Py<PyAny>) -> PythonAuthenticator {
        PythonAuthenticator { method, object }
    }

    /// A Python exception becomes the cause of the error, and ends the connection.
    fn call(&self, name: &'static str, data: Option<Option<&[u8]>>) -> Result<Option<Vec<u8>>, Error> {
        let called = Python::try_attach(|py| -> PyResult<Option<Vec<u8>>> {
            let object = self.object.bind(py);
            let given = match data {
                Some(data) => object.call_method1(name, (data.map(|data| PyBytes::new(py, data)),))?,
                None => object.call_method0(name)?,
            };
            if given.is_none() {
                return Ok(None);
            }
            let bytes = given
                .extract::<PyBackedBytes>()
                .map_err(|_| PyTypeError::new_err(format!("{name} of an authenticator gives bytes or None")))?;
            Ok(Some(bytes.to_vec()))
        });
        match called {
            Some(Ok(data)) => Ok(data),
            Some(Err(error)) => Err(failed(error)),
            None => Err(Error::Authentication("Python is ending".into())),
        }
    }
}

/// An `MqttError` with the code `authentication_failed` is permanent; other exceptions may have any cause.
fn failed(error: PyErr) -> Error {
    let refusal = Python::try_attach(|py| {
        let raised = error.value(py);
        let code: String = raised.getattr("code").ok()?.extract().ok()?;
        let detail: Option<String> = raised.getattr("detail").ok()?.extract().ok()?;
        (code == "authentication_failed").then(|| detail.unwrap_or_default())
    });
    match refusal.flatten() {
        Some(detail) => Error::Authentication(detail.into()),
        None => Error::Callback { what: "authenticator", cause: BoxError::from(error).into() },
    }
}

impl Authenticator for PythonAuthenticator {
    fn method(&self) -> &str {
        &self.method
    }

    fn begin(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.call("begin", None)
    }

    fn respond(&mut self, data: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.call("respond", Some(data))
    }

    fn finish(&mut self, data: Option<&[u8]>) -> Result<(), Error> {
        self.call("finish", Some(data)).map(drop)
    }

    fn may_wait(&self) -> bool {
        true
    }
}
