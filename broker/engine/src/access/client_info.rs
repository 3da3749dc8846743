//! Somebody who has been let in, and what becomes of it.

use core::net::IpAddr;
use std::sync::Arc;

use tautwire_access::Identity;

/// Says whether somebody who has been let in is still to be.
pub type ClientCheck = Arc<dyn Fn(&ClientInfo<'_>) -> RecheckOutcome + Send + Sync>;

/// Somebody who has been let in.
#[derive(Debug, Clone, Copy)]
pub struct ClientInfo<'v> {
    /// Nothing is known of those who came before anybody was asked.
    pub identity: Option<&'v Identity>,
    /// The Client Identifier.
    pub client_id: &'v str,
    /// The listener by which it has come; empty where that is not known.
    pub listener: &'v str,
    /// Its address, where that has not been forgotten.
    pub address: Option<IpAddr>,
}

/// What becomes of somebody who has been let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecheckOutcome {
    /// It stays.
    Accepted,
    /// It depends on the address, which has been forgotten. The surroundings are asked for it.
    DependsOnAddress,
    /// It is not known any more.
    Unknown,
    /// It has been banned.
    Banned,
}
