//! Events for the audit log and the log: records of the `log` facade with the target `audit`, which have names and values and no text. The
//! logger of the process formats them.

use tautwire_protocol::ReasonCode;

use crate::connection::authentication::identity_of;
use crate::connection::connect_refusal::RefusedClient;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::ShardState;
use crate::text::truncated;

/// The target of audit records, which pass every log level.
const TARGET: &str = "audit";

/// The logged length of a refused client's User Name. Some clients send a token there; its beginning reveals no secret.
const USER_NAME_LOGGED_BYTES: usize = 128;

impl<M: Mode> ShardState<M> {
    /// Records an accepted client.
    pub(crate) fn audit_connect(&self, index: ConnectionIndex, session: SessionIndex) {
        if log::max_level() == log::LevelFilter::Off {
            return;
        }
        let AuditedClient { user, listener, address } = self.audited_client(index);
        let client_id = self.sessions[session].client_id();
        log::error!(
            target: TARGET, event = "connect", client_id = client_id, user = user, listener = listener, address = &*address; ""
        );
    }

    /// Records the end of an accepted client's connection.
    pub(crate) fn audit_disconnect(&self, index: ConnectionIndex, reason: ReasonCode, why: &str) {
        let Some(session) = self.connections[index].session() else { return };
        if log::max_level() == log::LevelFilter::Off {
            return;
        }
        let AuditedClient { user, listener, address } = self.audited_client(index);
        let client_id = self.sessions[session].client_id();
        log::error!(
            target: TARGET,
            event = "disconnect", client_id = client_id, user = user, reason_code = reason.as_u8(), reason = why,
            listener = listener, address = &*address;
            ""
        );
    }

    /// Records a refused CONNECT. Its names were not authenticated.
    pub(crate) fn audit_connect_refused(
        &self,
        index: ConnectionIndex,
        caller: &RefusedClient<'_>,
        reason: ReasonCode,
        why: &str,
    ) {
        if log::max_level() == log::LevelFilter::Off {
            return;
        }
        let user = truncated(caller.user_name, USER_NAME_LOGGED_BYTES);
        let AuditedClient { listener, address, .. } = self.audited_client(index);
        log::error!(
            target: TARGET,
            event = "refused", client_id = caller.client_id, user = user, listener = listener,
            address = &*address, reason_code = reason.as_u8(), reason = why;
            ""
        );
    }

    /// Records a connected client that has failed to re-authenticate.
    #[cold]
    pub(crate) fn audit_reauthentication(&self, index: ConnectionIndex, reason: ReasonCode, why: &str) {
        let AuditedClient { user, listener, address } = self.audited_client(index);
        let client_id = self.client_id_of(index);
        log::error!(
            target: TARGET,
            event = "reauthentication_refused", client_id = client_id, user = user, listener = listener,
            address = &*address, reason_code = reason.as_u8(), reason = why;
            ""
        );
    }

    /// Records a client that is blocked for a time, because it reconnects too often.
    #[cold]
    pub(crate) fn audit_flapping_blocked(&self, index: ConnectionIndex, client_id: &str) {
        let AuditedClient { user, listener, address } = self.audited_client(index);
        log::error!(
            target: TARGET,
            event = "flapping_blocked", client_id = client_id, user = user, listener = listener, address = &*address;
            ""
        );
    }

    /// Records an action of a client that the access rules deny.
    #[cold]
    pub(crate) fn audit_denied(&self, index: ConnectionIndex, action: &str, topic: &str) {
        self.audit_denied_client(index, self.client_id_of(index), action, topic);
    }

    /// The same for a client without a session.
    #[cold]
    pub(crate) fn audit_denied_client(&self, index: ConnectionIndex, client_id: &str, action: &str, topic: &str) {
        let AuditedClient { user, listener, address } = self.audited_client(index);
        log::error!(
            target: TARGET,
            event = "denied", action = action, topic = topic, client_id = client_id, user = user, listener = listener,
            address = &*address, reason_code = ReasonCode::NotAuthorized.as_u8();
            ""
        );
    }

    fn client_id_of(&self, index: ConnectionIndex) -> &str {
        self.connections[index].session().map_or("", |session| self.sessions[session].client_id())
    }

    fn audited_client(&self, index: ConnectionIndex) -> AuditedClient<'_> {
        let connection = &self.connections[index];
        let identity = identity_of(connection.auth_state());
        AuditedClient {
            user: identity.and_then(|identity| identity.user.as_deref()).unwrap_or_default(),
            listener: connection.origin().map_or("", |origin| origin.listener()),
            address: connection.peer().map(|peer| peer.to_string()).unwrap_or_default(),
        }
    }
}

/// The origin of a connection, and its user if authenticated.
struct AuditedClient<'h> {
    user: &'h str,
    listener: &'h str,
    address: String,
}
