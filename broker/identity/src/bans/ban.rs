//! A ban, and what it applies to.

use std::fmt;

use super::network::Network;
use crate::Now;
use crate::limits::{BAN_REASON_BYTES_MAX, BANS_MAX};

/// What a ban applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BanTarget {
    /// A Client Identifier.
    ClientId(Box<str>),
    /// A user: clients that claim to be the user, and those authenticated as it.
    User(Box<str>),
    /// All addresses of a network.
    Network(Network),
}

/// A ban.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// What it applies to.
    pub who: BanTarget,
    /// When it ends, in seconds since 1970; `None`: when it is removed.
    pub until_unix_s: Option<u64>,
    /// The reason, for operators; clients do not see it.
    pub reason: Box<str>,
}

/// Why a ban is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BanError {
    /// There are [`BANS_MAX`] bans already.
    Full,
    /// The reason is longer than [`BAN_REASON_BYTES_MAX`].
    Reason,
}

impl BanTarget {
    /// The prefix length of a network.
    pub(super) fn prefix(&self) -> Option<u8> {
        match self {
            BanTarget::Network(network) => Some(network.prefix()),
            _ => None,
        }
    }
}

/// Whether a ban with this end still applies.
pub(super) fn is_active(until_unix_s: Option<u64>, now: Now) -> bool {
    until_unix_s.is_none_or(|until_s| now.unix_s < until_s)
}

impl fmt::Display for BanTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BanTarget::ClientId(id) => write!(f, "client identifier {}", id.escape_debug()),
            BanTarget::User(user) => write!(f, "user {}", user.escape_debug()),
            BanTarget::Network(network) => write!(f, "address {network}"),
        }
    }
}

impl fmt::Display for BanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BanError::Full => write!(f, "there are {BANS_MAX} bans, which is the maximum [ban_limit]"),
            BanError::Reason => write!(f, "the reason is longer than {BAN_REASON_BYTES_MAX} bytes [ban_reason]"),
        }
    }
}

impl std::error::Error for BanError {}
