//! Authentication: the request goes to a backend, and CONNECT waits until there is a decision.
//!
//! Meanwhile CONNECT stays at the front of the input, so that it can be processed again on whichever shard owns the session. An AUTH that
//! the client sends before CONNACK follows CONNECT in the input and is read ahead of it.

mod steps;

use std::sync::Arc;

use tautwire_access::Identity;

use crate::connection::connections::AuthState;

/// The identity of a connection's client, if it has authenticated.
pub(crate) fn identity_of(auth_state: Option<&AuthState>) -> Option<&Arc<Identity>> {
    auth_state.and_then(AuthState::identity)
}
