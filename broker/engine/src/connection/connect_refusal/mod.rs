//! Refused CONNECTs: the answer to the client, as far as its version allows [MQTT 5.0 section 3.2].

mod steps;

use std::borrow::Cow;

use tautwire_protocol::{Connect, ConnectReason, ProtocolVersion};

/// The reason code and reason string with which a CONNECT is refused.
pub(crate) struct ConnectRefusal(pub(crate) ConnectReason, pub(crate) Cow<'static, str>);

impl ConnectRefusal {
    pub(crate) fn too_many_sessions() -> ConnectRefusal {
        ConnectRefusal(ConnectReason::QuotaExceeded, "the limit on sessions is reached".into())
    }
}

/// What a refused CONNECT says of its client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedClient<'a> {
    version: ProtocolVersion,
    /// Empty if there is none, or if it was not decoded.
    pub client_id: &'a str,
    /// Empty likewise.
    pub user_name: &'a str,
}

impl<'a> RefusedClient<'a> {
    pub(crate) fn of(connect: &Connect<'a>) -> RefusedClient<'a> {
        let user_name = connect.user_name.unwrap_or_default();
        RefusedClient { version: connect.version, client_id: connect.client_id, user_name }
    }

    /// For a CONNECT that is not decoded.
    pub(crate) fn unread(version: ProtocolVersion) -> RefusedClient<'static> {
        RefusedClient { version, client_id: "", user_name: "" }
    }
}
