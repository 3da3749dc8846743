//! A received message, for Python.

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;

/// A received message. Its fields are converted to Python objects on access.
#[pyclass(frozen, module = "tautwire._native")]
pub(crate) struct Message(pub(crate) tautwire_client::Message);

#[pymethods]
impl Message {
    #[getter]
    fn topic(&self) -> &str {
        self.0.topic()
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.payload())
    }

    /// The payload as UTF-8 text.
    #[getter]
    fn text(&self, py: Python<'_>) -> PyResult<&str> {
        std::str::from_utf8(self.0.payload()).map_err(|cause| {
            let raised = error::new(py, "payload_invalid", Some("the payload is not UTF-8"), None);
            let cause = PyUnicodeDecodeError::new_utf8(py, self.0.payload(), cause);
            raised.set_cause(py, cause.ok().map(|cause| PyErr::from_value(cause.into_any())));
            raised
        })
    }

    #[getter]
    fn qos(&self) -> u8 {
        self.0.qos().as_u8()
    }

    #[getter]
    fn retain(&self) -> bool {
        self.0.retain()
    }

    #[getter]
    fn duplicate(&self) -> bool {
        self.0.dup()
    }

    #[getter]
    fn content_type(&self) -> Option<&str> {
        self.0.properties().content_type()
    }

    #[getter]
    fn is_text(&self) -> bool {
        self.0.properties().payload_format_indicator() == Some(tautwire_client::PayloadFormat::Utf8)
    }

    #[getter]
    fn response_topic(&self) -> Option<&str> {
        self.0.properties().response_topic().map(|topic| topic.as_str())
    }

    #[getter]
    fn correlation_data<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.properties().correlation_data().map(|data| PyBytes::new(py, data))
    }

    #[getter]
    fn expiry(&self) -> Option<u32> {
        self.0.properties().message_expiry_interval()
    }

    #[getter]
    fn user_properties(&self) -> Vec<(&str, &str)> {
        self.0.properties().user_properties().collect()
    }

    #[getter]
    fn subscription_identifiers(&self) -> Vec<u32> {
        self.0.properties().subscription_identifiers().map(|identifier| identifier.get()).collect()
    }

    /// Contains the size of the payload, never the payload.
    fn __repr__(&self) -> String {
        let Message(message) = self;
        let (topic, bytes) = (message.topic(), message.payload().len());
        format!("<Message topic={topic:?} qos={} retain={} bytes={bytes}>", self.qos(), self.retain())
    }
}
