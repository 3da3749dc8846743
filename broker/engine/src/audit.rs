//! What the audit log is told: records of the `log` facade with the target `audit`, which have names and values and no text. Whoever
//! carries the log of the process decides what becomes of them.

use tautwire_protocol::ReasonCode;
use tautwire_session::Journal;

use crate::admission::identity_of;
use crate::handshake::Caller;
use crate::hub::Hub;
use crate::place::{ConnectionIndex, SessionIndex};
use crate::text::beginning;

/// Records are let through at every level of the log.
const TARGET: &str = "audit";

/// What of the User Name of a refused client is told. Some clients send a token there: its beginning gives nothing away.
const USER_NAME_TOLD_BYTES: usize = 128;

impl<J: Journal> Hub<J> {
    /// A client has been let in.
    pub(crate) fn audit_connect(&self, index: ConnectionIndex, session: SessionIndex) {
        if log::max_level() == log::LevelFilter::Off {
            return;
        }
        let peer = self.connections[index].origin().and_then(|origin| origin.peer());
        let address = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let (user, listener) = self.who(index);
        let client_id = self.sessions[session].client_id();
        log::error!(
            target: TARGET, event = "connect", client_id = client_id, user = user, listener = listener, address = &*address; ""
        );
    }

    /// A client that had been let in is gone, or is sent away.
    pub(crate) fn audit_disconnect(&self, index: ConnectionIndex, reason: ReasonCode, why: &str) {
        let Some(session) = self.connections[index].session() else { return };
        let (user, _) = self.who(index);
        let client_id = self.sessions[session].client_id();
        log::error!(
            target: TARGET, event = "disconnect", client_id = client_id, user = user, code = reason.as_u8(), why = why; ""
        );
    }

    /// A CONNECT has been answered with an error. Nobody has shown to be who it names.
    pub(crate) fn audit_refused(&self, index: ConnectionIndex, caller: &Caller<'_>, reason: ReasonCode, why: &str) {
        if log::max_level() == log::LevelFilter::Off {
            return;
        }
        let user = beginning(caller.user_name, USER_NAME_TOLD_BYTES);
        let origin = self.connections[index].origin().cloned();
        let address = origin.as_ref().and_then(|origin| origin.peer()).map(|peer| peer.to_string()).unwrap_or_default();
        let listener = origin.as_ref().map_or("", |origin| origin.listener());
        log::error!(
            target: TARGET,
            event = "refused", client_id = caller.client_id, user = user, listener = listener,
            address = &*address, code = reason.as_u8(), why = why;
            ""
        );
    }

    /// A client is refused from now on, for a time, because its connections break off too often.
    #[cold]
    pub(crate) fn audit_held_back(&self, index: ConnectionIndex, client_id: &str) {
        let (user, listener) = self.who(index);
        log::error!(target: TARGET, event = "held_back", client_id = client_id, user = user, listener = listener; "");
    }

    /// The access rules do not allow what a client wants.
    #[cold]
    pub(crate) fn audit_denied(&self, index: ConnectionIndex, what: &str, topic: &str) {
        let client_id = self.connections[index].session().map_or("", |session| self.sessions[session].client_id());
        self.audit_denied_to(index, client_id, what, topic);
    }

    /// The same of a client that has no session yet.
    #[cold]
    pub(crate) fn audit_denied_to(&self, index: ConnectionIndex, client_id: &str, what: &str, topic: &str) {
        let (user, listener) = self.who(index);
        log::error!(
            target: TARGET,
            event = "denied", what = what, topic = topic, client_id = client_id, user = user, listener = listener;
            ""
        );
    }

    /// The user, and the listener, as far as they have been asked about.
    fn who(&self, index: ConnectionIndex) -> (&str, &str) {
        let identity = identity_of(self.connections[index].standing());
        identity.map_or(("", ""), |identity| (identity.user.as_deref().unwrap_or_default(), &*identity.listener))
    }
}
