//! The table `[broker]`.

use std::path::PathBuf;

use serde::Deserialize;

/// How to connect to the broker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Broker {
    pub(crate) url: String,
    /// The first part of the client identifier of each connector.
    pub(crate) client_id: String,
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// The environment variable with the password.
    #[serde(default)]
    pub(crate) password_env: Option<String>,
    /// Trusted authorities in PEM, instead of the system's.
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
    /// The client certificate and its key in PEM.
    #[serde(default)]
    pub(crate) certificate_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) key_file: Option<PathBuf>,
}
