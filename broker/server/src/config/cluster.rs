//! Types of the cluster keys.

use super::value::Choice;

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
