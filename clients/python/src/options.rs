//! Converts Python options to options of the Rust client.

use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use tautwire_client::{
    Error, FileStore, Limits, Options, Overflow, Property, ProtocolVersion, QoS, Reconnect, RetainHandling, Scram,
    Subscribe, SubscriptionId, Tls, Will,
};

use crate::authenticator::PythonAuthenticator;
use crate::credentials;
use crate::publication::Extra;

/// The options of a connection: a dictionary with all of these keys. Python has validated the ranges.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    address: String,
    version: u8,
    client_id: Option<String>,
    clean_start: bool,
    session_expiry_s: u32,
    keep_alive_s: u16,
    user_name: Option<String>,
    password: Option<PyBackedBytes>,
    scram: Option<String>,
    will: Option<WillSettings>,
    tls: Option<TlsSettings>,
    receive_maximum: u16,
    maximum_packet_bytes: Option<u32>,
    topic_alias_maximum: u16,
    topic_aliases: u16,
    user_properties: Vec<(String, String)>,
    connect_timeout_s: f64,
    reconnect_s: Option<(f64, f64)>,
    queue_messages: usize,
    queue_bytes: usize,
    in_flight: u16,
    store: Option<PathBuf>,
    websocket_headers: Vec<(String, String)>,
    /// Called for each attempt.
    credentials: Option<Py<PyAny>>,
    /// The method name and the object.
    authenticator: Option<(String, Py<PyAny>)>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct WillSettings {
    topic: String,
    payload: PyBackedBytes,
    qos: u8,
    retain: bool,
    delay_s: Option<u32>,
    extra: Option<Extra>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TlsSettings {
    ca_file: Option<String>,
    crl_file: Option<String>,
    identity_files: Option<(String, String)>,
    server_name: Option<String>,
    alpn: Vec<String>,
    accepts_any_certificate: bool,
}

impl Settings {
    /// # Errors
    /// Invalid options.
    pub(crate) fn options(&self) -> Result<Options, Error> {
        let version = if self.version == 4 { ProtocolVersion::V3_1_1 } else { ProtocolVersion::V5 };
        let mut options = Options::new(&self.address)?
            .version(version)
            .clean_start(self.clean_start)
            .keep_alive(Duration::from_secs(u64::from(self.keep_alive_s)))
            .topic_alias_maximum(self.topic_alias_maximum)
            .topic_aliases(self.topic_aliases)
            .connect_timeout(seconds(self.connect_timeout_s))
            .reconnect(self.reconnect_s.map(|(min, max)| Reconnect { min: seconds(min), max: seconds(max) }))
            .limits(self.limits());
        if version.is_v5() {
            options = options.session_expiry(Duration::from_secs(u64::from(self.session_expiry_s)));
        }
        if let Some(client_id) = &self.client_id {
            options = options.client_id(client_id.as_str());
        }
        if let Some(maximum) = NonZeroU16::new(self.receive_maximum) {
            options = options.receive_maximum(maximum);
        }
        if let Some(bytes) = self.maximum_packet_bytes.and_then(NonZeroU32::new) {
            options = options.maximum_packet_size(bytes);
        }
        for (name, value) in &self.user_properties {
            options = options.connect_property(Property::UserProperty(name, value))?;
        }
        for (name, value) in &self.websocket_headers {
            options = options.websocket_header(name, value)?;
        }
        if let Some(will) = &self.will {
            options = options.will(will.will()?);
        }
        if let Some(tls) = &self.tls {
            options = options.tls(tls.tls()?);
        }
        options = self.with_credentials(options)?;
        // Last, because it resumes the session regardless of other options.
        match &self.store {
            Some(path) => Ok(options.store(FileStore::open(path)?)),
            None => Ok(options),
        }
    }

    /// A password for SCRAM is never sent.
    fn with_credentials(&self, mut options: Options) -> Result<Options, Error> {
        if let Some(method) = &self.scram {
            let (user, password) =
                (self.user_name.as_deref().unwrap_or_default(), self.password.as_deref().unwrap_or_default());
            let scram = if method == "sha512" { Scram::sha512(user, password) } else { Scram::sha256(user, password) };
            return Ok(options.authenticator(scram?));
        }
        if let Some((method, object)) = &self.authenticator {
            let object = Python::attach(|py| object.clone_ref(py));
            options = options.authenticator(PythonAuthenticator::new(method.clone(), object));
        }
        if let Some(ask) = &self.credentials {
            let ask = Python::attach(|py| ask.clone_ref(py));
            return Ok(options.credentials(credentials::asking(ask)));
        }
        if let Some(user_name) = &self.user_name {
            options = options.user_name(user_name.as_str());
        }
        if let Some(password) = &self.password {
            options = options.password(password.to_vec());
        }
        Ok(options)
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.queue_messages = self.queue_messages;
        limits.queue_bytes = self.queue_bytes;
        limits.in_flight = self.in_flight;
        limits
    }
}

impl WillSettings {
    fn will(&self) -> Result<Will, Error> {
        let qos =
            QoS::from_u8(self.qos).ok_or_else(|| Error::Options("the QoS of the will must be 0, 1 or 2".into()))?;
        let mut will = Will::new(&self.topic, self.payload.to_vec())?.qos(qos).retain(self.retain);
        if let Some(delay_s) = self.delay_s {
            will = will.property(Property::WillDelayInterval(delay_s))?;
        }
        if let Some(extra) = &self.extra {
            for property in extra.properties()? {
                will = will.property(property)?;
            }
            if let Some(expiry_s) = extra.expiry_s() {
                will = will.property(Property::MessageExpiryInterval(expiry_s))?;
            }
        }
        Ok(will)
    }
}

impl TlsSettings {
    fn tls(&self) -> Result<Tls, Error> {
        let mut tls = Tls::default().alpn(self.alpn.iter().map(String::as_str));
        if let Some(path) = &self.ca_file {
            tls = tls.trust_file(path)?;
        }
        if let Some(path) = &self.crl_file {
            tls = tls.revoked_file(path)?;
        }
        if let Some((chain, key)) = &self.identity_files {
            tls = tls.identity_files(chain, key)?;
        }
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name.as_str());
        }
        if self.accepts_any_certificate {
            tls = tls.dangerously_accept_any_certificate();
        }
        Ok(tls)
    }
}

/// The options of a subscription.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SubscribeSettings {
    filters: Vec<String>,
    qos: u8,
    no_local: bool,
    retain_as_published: bool,
    retain_handling: u8,
    identifier: Option<u32>,
    capacity: usize,
    overflow: String,
    user_properties: Vec<(String, String)>,
}

impl SubscribeSettings {
    /// Python always acknowledges manually: several messages are fetched at a time, and each is acknowledged when it has
    /// been processed.
    ///
    /// # Errors
    /// Invalid options.
    pub(crate) fn subscribe(&self) -> Result<Subscribe, Error> {
        let qos = QoS::from_u8(self.qos).ok_or_else(|| Error::Options("the QoS must be 0, 1 or 2".into()))?;
        let mut filters = self.filters.iter().map(String::as_str);
        let first = filters.next().ok_or_else(|| Error::Options("a subscription needs a filter".into()))?;
        let mut subscribe = filters.fold(Subscribe::to(first), |subscribe, filter| subscribe.and(filter));
        subscribe = subscribe.qos(qos).manual_acknowledgement().capacity(self.capacity).overflow(self.overflow());
        subscribe = subscribe.retain_handling(RetainHandling::from_u8(self.retain_handling).unwrap_or_default());
        if self.no_local {
            subscribe = subscribe.no_local();
        }
        if self.retain_as_published {
            subscribe = subscribe.retain_as_published();
        }
        if let Some(identifier) = self.identifier.and_then(SubscriptionId::new) {
            subscribe = subscribe.identifier(identifier);
        }
        for (name, value) in &self.user_properties {
            subscribe = subscribe.property(Property::UserProperty(name, value))?;
        }
        Ok(subscribe)
    }

    fn overflow(&self) -> Overflow {
        match self.overflow.as_str() {
            "drop_newest" => Overflow::DropNewest,
            "drop_oldest" => Overflow::DropOldest,
            _ => Overflow::Wait,
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
