//! The futures of operations, and the conversion of their results for Python.

use std::pin::Pin;
use std::task::{Context, Poll};

use pyo3::prelude::*;
use tautwire_client::{Error, Publishing};

use crate::error;

/// The result of an operation.
pub(crate) enum Value {
    Nothing,
    /// Reason codes.
    Reason(u8),
    Reasons(Vec<u8>),
    /// Anything else; see [`Value::object`].
    Object(MakeObject),
}

type MakeObject = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// A pending operation.
pub(crate) enum Pending {
    /// The most frequent operation, therefore not boxed.
    Publishing(Publishing),
    Other(Work),
}

/// The value, or the exception.
pub(crate) type Outcome = (Py<PyAny>, Option<Py<PyAny>>);

impl Future for Pending {
    type Output = Result<Value, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Pending::Publishing(publishing) => {
                Pin::new(publishing).poll(cx).map_ok(|published| Value::Reason(published.reason.as_u8()))
            }
            Pending::Other(work) => work.as_mut().poll(cx),
        }
    }
}

/// Converts the result of an operation for Python.
pub(crate) fn outcome(py: Python<'_>, result: Result<Value, Error>) -> PyResult<Outcome> {
    match result {
        Ok(value) => Ok((value.into_python(py)?, None)),
        Err(error) => Ok((py.None(), Some(error::raise(py, &error).into_value(py).into_any()))),
    }
}

impl Value {
    /// A result that `make` creates later: a thread that waits polls the operation without access to Python.
    pub(crate) fn object(make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static) -> Value {
        Value::Object(Box::new(make))
    }

    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Value::Nothing => Ok(py.None()),
            Value::Reason(reason) => to_python(py, reason),
            // As a list of integers, not as bytes.
            Value::Reasons(reasons) => to_python(py, reasons.into_iter().map(u32::from).collect::<Vec<u32>>()),
            Value::Object(make) => make(py),
        }
    }
}

pub(crate) fn to_python<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>>
where
    PyErr: From<T::Error>,
{
    use pyo3::BoundObject as _;
    Ok(value.into_pyobject(py)?.into_any().unbind())
}
