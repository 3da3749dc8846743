//! What [`super`] does with several parts of a shard.

use tautwire_protocol::{Connect, ConnectReason, DisconnectReason, QoS};
use tautwire_session::LogState;

use super::{FAILED, FULL};
use crate::connection::connect_refusal::RefusedClient;
use crate::connection::connections::Phase;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::routing::publish_packets::OutgoingPublish;
use crate::routing::route::{Matches, RouteError};
use crate::shard::Shard;
use crate::shard::ShardState;

impl<M: Mode> ShardState<M> {
    /// Why a message cannot be kept for those who want it, if so.
    #[inline]
    pub(crate) fn disk_error_for(&self, outgoing: &OutgoingPublish<'_>, matches: &Matches) -> Option<LogState> {
        let state = self.log.state();
        (state != LogState::Open && is_written(outgoing, matches)).then_some(state)
    }

    /// Whether the log takes a message of QoS 0 that is to be retained.
    #[inline]
    pub(crate) fn check_retained_at_most_once(&self, outgoing: &OutgoingPublish<'_>) -> Result<(), RouteError> {
        let state = self.log.state();
        if state != LogState::Open && !outgoing.message.topic.starts_with("$SYS/") {
            return Err(RouteError::DiskUnavailable(state));
        }
        Ok(())
    }

    /// Why the session, which is written down, may not grow, if so.
    pub(crate) fn disk_error_for_session(&self, session: SessionIndex) -> Option<LogState> {
        let state = self.log.state();
        (state != LogState::Open && self.is_fully_persistent(session)).then_some(state)
    }
}

/// Whether a message leaves something in the log.
#[cold]
fn is_written(outgoing: &OutgoingPublish<'_>, matches: &Matches) -> bool {
    (outgoing.message.retain && !outgoing.message.topic.starts_with("$SYS/"))
        || (outgoing.message.qos != QoS::AtMostOnce && matches.has_persistent())
}

impl<M: Mode> Shard<M> {
    /// Why a client is not let in whose session would be written down, and what to say of it.
    pub(crate) fn refuse_for_log(
        &self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        session_name: &str,
    ) -> Option<(ConnectReason, &'static str)> {
        let state = self.state.log.state();
        if state == LogState::Open {
            return None;
        }
        let expiry_interval_s = self.expiry_interval_s(index, connect);
        let existing = self.state.sessions.find(session_name).filter(|_| !connect.clean_start);
        let goes_on = existing.is_some_and(|session| self.state.is_fully_persistent(session));
        match state {
            LogState::Failed if goes_on || expiry_interval_s > 0 => Some((ConnectReason::ServerUnavailable, FAILED)),
            // One that comes back takes what waits for it, which makes room. Others may try again later [MQTT 5.0 section 3.2.2.2]: it is
            // not the client that has more than it may.
            LogState::Full if !goes_on && expiry_interval_s > 0 => Some((ConnectReason::ServerBusy, FULL)),
            _ => None,
        }
    }

    /// Looks how the log is. When it has failed, ends the connections of all who rely on it: those whose session is written down, and those
    /// who wait for an acknowledgement that will never be true.
    #[inline]
    pub(crate) fn check_log(&mut self) {
        if self.state.log.check_failure() {
            self.disconnect_persistent_clients();
        }
    }

    #[cold]
    fn disconnect_persistent_clients(&mut self) {
        for index in self.state.connections.indices() {
            let connection = &self.state.connections[index];
            if connection.phase() != Phase::Open {
                continue;
            }
            if connection.is_output_blocked() {
                // CONNACK has not left yet: it says this instead [MQTT-3.2.2-7].
                let version = connection.version();
                self.state.counters().resources_refused_disk.add(1);
                self.detach(index);
                self.refuse_connect(index, RefusedClient::unread(version), ConnectReason::ServerUnavailable, FAILED);
                continue;
            }
            let is_written = connection.session().is_some_and(|session| self.state.is_fully_persistent(session));
            if is_written || connection.has_delayed_acks() {
                self.state.counters().resources_refused_disk.add(1);
                self.disconnect(index, DisconnectReason::QuotaExceeded, FAILED);
            }
        }
    }
}
