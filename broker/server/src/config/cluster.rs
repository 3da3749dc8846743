//! What the keys of the cluster take.

use super::settings::ClusterConfig;
use super::value::Choice;

impl ClusterConfig {
    /// The NATS servers, as they are written: one text may name several.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.0.iter().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether the broker is to be one of several.
    pub(crate) fn has_servers(&self) -> bool {
        self.servers().next().is_some()
    }
}

/// How it is known that NATS servers write to disk before they confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterSync {
    /// Their monitoring addresses say it.
    Monitored,
    /// The operator says it.
    Promised,
    /// They do not.
    Weaker,
}

impl Choice for ClusterSync {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("monitored", Self::Monitored), ("promised", Self::Promised), ("weaker", Self::Weaker)];
}
