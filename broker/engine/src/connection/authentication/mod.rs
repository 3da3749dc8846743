//! Who a client is: the question goes out, and CONNECT waits where it is until there is an answer.
//!
//! CONNECT stays at the front of the input meanwhile, so it can be brought again on whichever shard the client belongs to. What a
//! client answers by AUTH before CONNACK lies behind CONNECT and is heard ahead of it.

mod steps;

use std::sync::Arc;

use tautwire_access::Identity;

use crate::connection::connections::AuthState;

/// Who the client of a connection is.
pub(crate) fn identity_of(auth_state: Option<&AuthState>) -> Option<&Arc<Identity>> {
    auth_state.and_then(AuthState::identity)
}
