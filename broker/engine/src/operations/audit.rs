//! Events for the audit log and the log: records of the `log` facade with the target `audit`, which have names and values and no text.
//! The logger of the process decides which lines it makes of them.

use tautwire_protocol::ReasonCode;

use crate::connection::authentication::identity_of;
use crate::connection::connect_refusal::RefusedClient;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::shard::ShardState;
use crate::text::beginning;

/// Records are let through at every level of the log.
const TARGET: &str = "audit";

/// What of the User Name of a refused client is told. Some clients send a token there: its beginning gives nothing away.
const USER_NAME_LOGGED_BYTES: usize = 128;

impl<M: Mode> ShardState<M> {
    /// A client has been let in.
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

    /// A client that had been let in is gone, or is sent away.
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

    /// A CONNECT has been answered with an error. Nobody has shown to be who it names.
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
        let user = beginning(caller.user_name, USER_NAME_LOGGED_BYTES);
        let AuditedClient { listener, address, .. } = self.audited_client(index);
        log::error!(
            target: TARGET,
            event = "refused", client_id = caller.client_id, user = user, listener = listener,
            address = &*address, reason_code = reason.as_u8(), reason = why;
            ""
        );
    }

    /// A connected client has failed to re-authenticate.
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

    /// A client is refused from now on, for a time, because its connections break off too often.
    #[cold]
    pub(crate) fn audit_flapping_blocked(&self, index: ConnectionIndex, client_id: &str) {
        let AuditedClient { user, listener, address } = self.audited_client(index);
        log::error!(
            target: TARGET,
            event = "flapping_blocked", client_id = client_id, user = user, listener = listener, address = &*address;
            ""
        );
    }

    /// The access rules do not allow what a client wants.
    #[cold]
    pub(crate) fn audit_denied(&self, index: ConnectionIndex, what: &str, topic: &str) {
        self.audit_denied_client(index, self.client_id_of(index), what, topic);
    }

    /// The same of a client that has no session yet.
    #[cold]
    pub(crate) fn audit_denied_client(&self, index: ConnectionIndex, client_id: &str, what: &str, topic: &str) {
        let AuditedClient { user, listener, address } = self.audited_client(index);
        log::error!(
            target: TARGET,
            event = "denied", action = what, topic = topic, client_id = client_id, user = user, listener = listener,
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

/// Where a connection comes from, and whose it is as far as that has been asked.
struct AuditedClient<'h> {
    user: &'h str,
    listener: &'h str,
    address: String,
}
