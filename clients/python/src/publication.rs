//! Converts messages to publish from Python.

use std::borrow::Cow;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView, PyString};
use tautwire_client::{Error, Property, Publication, QoS, TopicName};

use crate::error;

/// The optional properties of a message, from a dictionary with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Extra {
    expiry_s: Option<u32>,
    content_type: Option<String>,
    is_text: bool,
    response_topic: Option<String>,
    correlation_data: Option<PyBackedBytes>,
    user_properties: Vec<(String, String)>,
}

impl Extra {
    /// The properties of a PUBLISH, without its expiry.
    pub(crate) fn properties(&self) -> Result<Vec<Property<'_>>, Error> {
        let mut properties = Vec::new();
        if self.is_text {
            properties.push(Property::PayloadFormatIndicator(tautwire_client::PayloadFormat::Utf8));
        }
        properties.extend(self.content_type.as_deref().map(Property::ContentType));
        if let Some(topic) = &self.response_topic {
            properties.push(Property::ResponseTopic(TopicName::new(topic)?));
        }
        properties.extend(self.correlation_data.as_deref().map(Property::CorrelationData));
        properties.extend(self.user_properties.iter().map(|(name, value)| Property::UserProperty(name, value)));
        Ok(properties)
    }

    pub(crate) fn expiry_s(&self) -> Option<u32> {
        self.expiry_s
    }
}

/// Creates a message that borrows everything.
pub(crate) fn publication<'a>(
    topic: &'a str,
    payload: &'a [u8],
    (qos, retain): (QoS, bool),
    extra: Option<&'a Extra>,
) -> Result<Publication<'a>, Error> {
    let mut publication = Publication::new(topic, payload).qos(qos).retain(retain);
    if let Some(extra) = extra {
        for property in extra.properties()? {
            publication = publication.property(property);
        }
        if let Some(expiry_s) = extra.expiry_s {
            publication = publication.expiry(Duration::from_secs(u64::from(expiry_s)));
        }
    }
    Ok(publication)
}

/// Passes the bytes of a payload to a function: borrowed from `bytes` and `str`, copied from other types.
pub(crate) fn with_payload<R>(payload: &Bound<'_, PyAny>, action: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = payload.cast::<PyBytes>() {
        return Ok(action(bytes.as_bytes()));
    }
    if let Ok(string) = payload.cast::<PyString>() {
        return Ok(action(text("the payload", string)?.as_bytes()));
    }
    if payload.cast::<PyMemoryView>().is_ok() {
        let copy = payload.call_method0("tobytes")?;
        return Ok(action(copy.cast::<PyBytes>()?.as_bytes()));
    }
    match payload.extract::<PyBackedBytes>() {
        Ok(bytes) => Ok(action(&bytes)),
        Err(_) => {
            let kind = payload.get_type().name()?;
            let detail = format!("a payload must be bytes or str, unless the topic has a codec; this is {kind}");
            Err(error::new(payload.py(), "invalid_argument", Some(&detail), None))
        }
    }
}

/// Returns the UTF-8 of a string.
///
/// # Errors
/// `invalid_argument`.
pub(crate) fn text<'a>(name: &str, string: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    string.to_cow().map_err(|cause| {
        let detail = format!("{name} contains a lone surrogate, which UTF-8 cannot encode");
        let raised = error::new(string.py(), "invalid_argument", Some(&detail), None);
        raised.set_cause(string.py(), Some(cause));
        raised
    })
}

/// # Errors
/// `invalid_argument`.
pub(crate) fn qos(given: &Bound<'_, PyAny>) -> PyResult<QoS> {
    let found = given.extract::<u8>().ok().and_then(QoS::from_u8);
    found.ok_or_else(|| error::new(given.py(), "invalid_argument", Some("the QoS must be 0, 1 or 2"), None))
}
