//! What the keys of the cluster take.

use super::value::Choice;

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
