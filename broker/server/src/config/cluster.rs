//! Types of the cluster keys.

use super::settings::ClusterConfig;
use super::value::Choice;

impl ClusterConfig {
    /// The NATS servers as written: one string may name several.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.0.iter().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether the broker is part of a cluster.
    pub(crate) fn has_servers(&self) -> bool {
        self.servers().next().is_some()
    }
}

/// How the broker knows that NATS servers sync to disk before they confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterSync {
    /// Their monitoring addresses report it.
    Verify,
    /// The operator guarantees it.
    Trust,
    /// They do not, and the operator accepts the risk.
    Relaxed,
}

impl Choice for ClusterSync {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("verify", Self::Verify), ("trust", Self::Trust), ("relaxed", Self::Relaxed)];
}
