//! A connected client, and the result of rechecking it.

use core::net::IpAddr;
use std::sync::Arc;

use tautwire_access::Identity;

/// Checks whether a connected client is still accepted.
pub type ClientCheck = Arc<dyn Fn(&ClientInfo<'_>) -> RecheckOutcome + Send + Sync>;

/// A connected client.
#[derive(Debug, Clone, Copy)]
pub struct ClientInfo<'v> {
    /// `None` for a client that connected before authentication was required.
    pub identity: Option<&'v Identity>,
    /// The Client Identifier.
    pub client_id: &'v str,
    /// The listener; empty if it is unknown.
    pub listener: &'v str,
    /// The client's address, if it is stored.
    pub address: Option<IpAddr>,
}

/// The result of rechecking a connected client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecheckOutcome {
    /// The client stays connected.
    Accepted,
    /// The address is needed for the decision, but is not stored. The reactor is asked for it.
    DependsOnAddress,
    /// The credentials or the user are no longer valid.
    Unknown,
    /// The client is banned.
    Banned,
}
