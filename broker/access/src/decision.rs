//! Decisions about requests.

use crate::tree::{Coverage, FirstMatch};

/// The decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AccessDecision {
    /// The request is allowed.
    Allowed,
    /// The request is denied: Not authorized, 0x87 in MQTT 5.0. In 3.1.1 SUBACK has 0x80, CONNACK 5, and a PUBLISH is acknowledged and
    /// dropped.
    Denied(Denial),
}

/// Why a request is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// A rule denies it.
    ByRule,
    /// No rule allows it.
    NoRule,
    /// So many deny rules overlap with the filter of a subscription that the check takes more than [`crate::limits::SUBSCRIBE_STEPS_MAX`]
    /// steps.
    TooComplex,
}

impl AccessDecision {
    /// The decision of the first rule that matches.
    #[inline]
    pub(crate) fn of(first: FirstMatch) -> Self {
        if first.allows { Self::Allowed } else { Self::Denied(denial(first)) }
    }

    /// Whether the request is allowed.
    #[inline]
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed)
    }
}

impl Denial {
    /// A stable name, for counters and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByRule => "denied_by_rule",
            Self::NoRule => "denied_by_default",
            Self::TooComplex => "denied_too_complex",
        }
    }
}

fn denial(first: FirstMatch) -> Denial {
    if first == FirstMatch::NONE { Denial::NoRule } else { Denial::ByRule }
}

impl Coverage {
    pub(crate) fn decision(&self) -> AccessDecision {
        match self {
            Coverage::AllAllowed => AccessDecision::Allowed,
            Coverage::FirstDenied { first, .. } => AccessDecision::Denied(denial(*first)),
            Coverage::TooComplex => AccessDecision::Denied(Denial::TooComplex),
        }
    }
}
