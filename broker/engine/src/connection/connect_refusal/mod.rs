//! A CONNECT that is refused: what its client is told, as far as its version has words for it [MQTT 5.0 section 3.2].

mod steps;

use tautwire_protocol::{Connect, ProtocolVersion};

/// Who a refused CONNECT is from, by its own words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedClient<'a> {
    version: ProtocolVersion,
    /// Empty where it says none, or has not been read that far.
    pub client_id: &'a str,
    /// The same.
    pub user_name: &'a str,
}

impl<'a> RefusedClient<'a> {
    pub(crate) fn of(connect: &Connect<'a>) -> RefusedClient<'a> {
        let user_name = connect.user_name.unwrap_or_default();
        RefusedClient { version: connect.version, client_id: connect.client_id, user_name }
    }

    /// Of a CONNECT of which no more is at hand.
    pub(crate) fn unread(version: ProtocolVersion) -> RefusedClient<'static> {
        RefusedClient { version, client_id: "", user_name: "" }
    }
}
