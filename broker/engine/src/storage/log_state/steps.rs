//! Checks of the log state before messages, sessions and connections are accepted.

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
    /// The log state that prevents a message from being persisted for its receivers, if any.
    #[inline]
    pub(crate) fn disk_error_for(&self, outgoing: &OutgoingPublish<'_>, matches: &Matches) -> Option<LogState> {
        let state = self.log.state();
        (state != LogState::Open && is_written(outgoing, matches)).then_some(state)
    }

    /// Checks that the log accepts a QoS 0 message that is to be retained.
    #[inline]
    pub(crate) fn check_retained_at_most_once(&self, outgoing: &OutgoingPublish<'_>) -> Result<(), RouteError> {
        let state = self.log.state();
        if state != LogState::Open && !outgoing.message.topic.starts_with("$SYS/") {
            return Err(RouteError::DiskUnavailable(state));
        }
        Ok(())
    }

    /// The log state that prevents a persistent session from growing, if any.
    pub(crate) fn disk_error_for_session(&self, session: SessionIndex) -> Option<LogState> {
        let state = self.log.state();
        (state != LogState::Open && self.is_fully_persistent(session)).then_some(state)
    }
}

/// Whether a message is recorded in the log.
#[cold]
fn is_written(outgoing: &OutgoingPublish<'_>, matches: &Matches) -> bool {
    (outgoing.message.retain && !outgoing.message.topic.starts_with("$SYS/"))
        || (outgoing.message.qos != QoS::AtMostOnce && matches.has_persistent())
}

impl<M: Mode> Shard<M> {
    /// Why a client with a persistent session is refused because of the log, if it is.
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
            // A returning client receives its queued messages, which makes room. Others can try again later [MQTT 5.0 section 3.2.2.2]:
            // the limit is not the client's.
            LogState::Full if !goes_on && expiry_interval_s > 0 => Some((ConnectReason::ServerBusy, FULL)),
            _ => None,
        }
    }

    /// Checks the log. If it has failed, disconnects all clients that rely on it: those with a persistent session, and those that wait
    /// for an acknowledgement that can no longer be sent.
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
                // CONNACK has not been sent yet, so it carries the refusal [MQTT-3.2.2-7].
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
