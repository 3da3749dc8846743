//! The end of connections and sessions.

use tautwire_protocol::{Disconnect, DisconnectReason, Packet, Properties, Property};
use tautwire_session::{Change, Outbound};

use crate::connection::authentication::identity_of;
use crate::connection::connect::keep_alive_limit_ms;
use crate::connection::connections::Action;
use crate::connection::connections::{Deadlines, Phase};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::session::sessions::OfflineState;
use crate::shard::Shard;
use crate::shard::ShardState;
use crate::text::rfc3339;

/// The shortest interval between two checks for a stale session.
const STALE_CHECK_MIN_S: u32 = 60;

impl<M: Mode> Shard<M> {
    /// Ends a connection. The client gets the reason if its version has DISCONNECT from the server [MQTT 5.0 section 4.13].
    pub(crate) fn disconnect(&mut self, index: ConnectionIndex, reason: DisconnectReason, why: &str) {
        self.disconnect_to(index, reason, why, "");
    }

    /// The same, with a Server Reference for the client [MQTT 5.0 section 3.14.2.2.5].
    pub(crate) fn disconnect_to(
        &mut self,
        index: ConnectionIndex,
        reason: DisconnectReason,
        why: &str,
        reference: &str,
    ) {
        let connection = &self.state.connections[index];
        if connection.is_open() && connection.is_v5() {
            let with_reason = connection.connect_parameters().problem_information;
            let reference = (!reference.is_empty()).then_some(Property::ServerReference(reference));
            let why = with_reason.then_some(Property::ReasonString(why));
            let mut properties: Vec<_> = reference.into_iter().chain(why).collect();
            // [MQTT-3.14.2-3]: the reason string is omitted if the packet would be too large.
            loop {
                let disconnect = Disconnect { reason, properties: Properties::from_list(&properties) };
                let is_written = self.state.write_packet(index, &Packet::Disconnect(disconnect));
                if is_written || properties.pop().is_none() {
                    break;
                }
            }
        }
        self.log_disconnect(index, reason.into(), why);
        self.detach(index);
        self.close(index);
    }

    pub(crate) fn protocol_error(&mut self, index: ConnectionIndex, why: &str) {
        self.state.counters().protocol_errors.add(1);
        self.disconnect(index, DisconnectReason::ProtocolError, why);
    }

    /// Closes the connection once its output is written.
    pub(crate) fn close(&mut self, index: ConnectionIndex) {
        self.state.connections[index].begin_closing();
        let id = self.state.id(index);
        self.state.connections.request_action(Action::Close(id));
    }

    /// DISCONNECT from the client.
    pub(crate) fn on_disconnect(&mut self, index: ConnectionIndex, session: SessionIndex, disconnect: &Disconnect<'_>) {
        if let Some(expiry_s) = disconnect.properties.session_expiry_interval() {
            let expiry_s = expiry_s.min(self.max_session_expiry_s(index));
            let current_s = self.state.sessions[session].expiry_interval_s();
            if current_s == 0 && expiry_s > 0 {
                // It cannot be changed from 0 [MQTT 5.0 section 3.14.2.2.2].
                self.protocol_error(index, "the session expiry interval cannot be changed from 0");
                return;
            }
            self.state.commit(session, Change::ExpiryInterval(expiry_s));
        }
        if disconnect.reason == DisconnectReason::NormalDisconnection {
            // [MQTT-3.14.4-3]
            self.state.commit(session, Change::Will(None));
        }
        self.log_disconnect(index, disconnect.reason.into(), "by the client");
        self.disconnect_session(index);
        self.state.connections[index].begin_closing();
        let id = self.state.id(index);
        self.state.connections.request_action(Action::Drop(id));
    }

    /// Detaches the session of a connection that was lost.
    pub(crate) fn detach(&mut self, index: ConnectionIndex) {
        self.state.record_connection_loss(index);
        self.disconnect_session(index);
    }

    /// Detaches a connection's session, which stays offline, or ends if it is not persistent.
    pub(crate) fn disconnect_session(&mut self, index: ConnectionIndex) {
        if M::is_output_blocked(&self.state, index) {
            // What CONNACK promises is not true yet.
            self.state.discard_output(index);
        }
        if M::is_write_suspended(&self.state, index) {
            // Nothing is sent to a client that another node may serve.
            self.state.discard_output(index);
        }
        self.state.stop_rate_limit(index);
        let (session, replays) = self.state.connections[index].unbind_session();
        let Some(session) = session else { return };
        if self.state.sessions[session].will().is_some()
            && let Some(identity) = identity_of(self.state.connections[index].auth_state()).cloned()
        {
            self.state.sessions.entry(session).set_identity(identity);
        }
        let is_persistent = self.state.sessions[session].expiry_interval_s() > 0;
        if is_persistent
            && !self.state.config.settings().slow_consumer.users.is_empty()
            && let Some(user) = self.state.user_of(session).cloned()
        {
            self.state.sessions.entry(session).set_user_name(user);
        }
        for replay in replays {
            self.state.move_replay_to_queue(is_persistent.then_some(session), replay);
        }
        self.state.counters().sessions_connected.subtract(1);
        self.state.sessions.entry(session).unbind();
        self.state.clear_stuck(session);
        if M::release_session(self, session) {
            return;
        }
        if self.state.sessions[session].expiry_interval_s() == 0 {
            self.end_session(session);
            return;
        }
        M::record_disconnected(&mut self.state, session);
        self.state.queue_all_for_spill(session);
        let now_ms = self.state.clock.now_ms();
        let mut offline = self.offline_since(session, now_ms);
        // A new connection of the client cancels a delayed will [MQTT-3.1.3-9].
        if offline.will_at_ms.take_if(|at_ms| *at_ms <= now_ms).is_some() {
            self.publish_will(session);
        }
        self.set_offline_deadlines(session, offline);
    }

    /// The deadlines of a session whose client has been offline since `disconnected_at_ms`.
    pub(crate) fn offline_since(&self, session: SessionIndex, disconnected_at_ms: u64) -> OfflineState {
        let state = &self.state.sessions[session];
        let expiry_s = state.expiry_interval_s();
        let after_s = |seconds: u32| disconnected_at_ms + u64::from(seconds) * 1000;
        OfflineState {
            // The will's delay ends when the session does, at the latest [MQTT-3.1.2-8].
            will_at_ms: state.will().map(|will| after_s(will.delay_s.min(expiry_s))),
            expires_at_ms: (expiry_s != u32::MAX).then(|| after_s(expiry_s)),
            disconnected_s: to_unix_seconds(disconnected_at_ms).max(1),
            stale_check_s: match self.state.config.settings().stale_session_s {
                0 => 0,
                after_s => to_unix_seconds(disconnected_at_ms).saturating_add(after_s),
            },
            is_stale: false,
        }
    }

    pub(crate) fn set_offline_deadlines(&mut self, session: SessionIndex, offline: OfflineState) {
        self.state.sessions.entry(session).set_offline_deadlines(offline);
        if let Some(next_ms) = offline.next_ms() {
            self.state.arm_session(session, next_ms);
        }
    }

    /// Handles a connection's timer.
    pub(crate) fn connection_timer(&mut self, index: ConnectionIndex) {
        let settings = self.state.config.settings();
        let now_ms = self.state.clock.now_ms();
        let auth_progress = self.state.config.access().auth_progress();
        let connection = &mut self.state.connections[index];
        if !connection.disarm(now_ms) || matches!(connection.phase(), Phase::Vacant | Phase::Closing) {
            return;
        }
        let incomplete_limit_ms = u64::from(settings.incomplete_packet_timeout_s) * 1000;
        let stall_limit_ms = u64::from(settings.write_stall_timeout_s) * 1000;
        let connect_limit_ms = u64::from(settings.connect_timeout_s) * 1000;
        let awaiting_connect = connection.phase() == Phase::AwaitingConnect;
        let keep_alive_s = connection.connect_parameters().keep_alive_s;
        let Deadlines { last_received_ms, incomplete_since_ms, stalled_since_ms } = connection.deadlines();
        // PINGREQ is still read while a message waits for memory.
        let is_reading = !connection.is_reading_paused() || connection.is_paused_only_for_memory();
        let keep_alive = (keep_alive_s > 0 && is_reading).then(|| last_received_ms + keep_alive_limit_ms(keep_alive_s));
        // A client in an authentication queue that makes progress is not late.
        let progress_ms =
            connection.auth_state_mut().map_or(0, |auth_state| auth_state.progress_ms(auth_progress, now_ms));
        let connect = awaiting_connect.then(|| last_received_ms.max(progress_ms) + connect_limit_ms);
        let incomplete = incomplete_since_ms.map(|since| since.get() + incomplete_limit_ms);
        let stalled = stalled_since_ms.filter(|_| stall_limit_ms > 0).map(|since| since.get() + stall_limit_ms);
        let identity = self.identity_expires_at_ms(index).filter(|_| !awaiting_connect);
        let is_due = |deadline: Option<u64>| deadline.is_some_and(|at_ms| at_ms <= now_ms);

        let counters = self.state.counters();
        if is_due(connect) {
            counters.connect_timeouts.add(1);
            self.time_out_connect(index);
        } else if is_due(identity) {
            counters.credentials_expired_disconnects.add(1);
            self.disconnect(index, DisconnectReason::NotAuthorized, "the client's credentials have expired");
        } else if is_due(incomplete) {
            counters.incomplete_packet_timeouts.add(1);
            self.disconnect(index, DisconnectReason::KeepAliveTimeout, "a packet was not complete in time");
        } else if is_due(keep_alive) {
            // [MQTT-3.1.2-22]
            counters.keep_alive_timeouts.add(1);
            self.disconnect(
                index,
                DisconnectReason::KeepAliveTimeout,
                "no packet arrived within one and a half times Keep Alive",
            );
        } else if is_due(stalled) {
            counters.write_stall_timeouts.add(1);
            self.disconnect(index, DisconnectReason::UnspecifiedError, "the client did not read its output in time");
        } else if let Some(next_ms) = [connect, incomplete, keep_alive, stalled, identity].into_iter().flatten().min() {
            self.state.arm_connection(index, next_ms);
        } else if keep_alive_s > 0 {
            // Keep alive is suspended while reading is paused: check again later.
            self.state.arm_connection(index, now_ms + keep_alive_limit_ms(1));
        }
    }

    /// Handles a session's timer.
    pub(crate) fn session_timer(&mut self, session: SessionIndex) {
        if self.state.sessions.entry(session).disarm(self.state.clock.now_ms()) {
            self.run_offline_deadlines(session);
        }
    }

    /// Handles the deadlines of a session whose client is offline.
    pub(crate) fn run_offline_deadlines(&mut self, session: SessionIndex) {
        let now_ms = self.state.clock.now_ms();
        let mut offline = self.state.sessions.offline(session);
        if offline.will_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            offline.will_at_ms = None;
            self.publish_will(session);
        }
        if offline.stale_check_s > 0 && offline.stale_check_s <= to_unix_seconds(now_ms) {
            self.state.check_stale(session, &mut offline);
        }
        if offline.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            // [MQTT-4.1.0-2]
            self.state.counters().sessions_expired.add(1);
            self.end_session(session);
        } else {
            self.set_offline_deadlines(session, offline);
        }
    }
}

impl<M: Mode> ShardState<M> {
    /// Marks a session as stale if messages wait for a client that has been offline for long.
    #[cold]
    fn check_stale(&self, session: SessionIndex, offline: &mut OfflineState) {
        let now_s = to_unix_seconds(self.clock.now_ms());
        let queued = self.sessions[session].outbound().map_or(0, Outbound::messages);
        if queued == 0 {
            let after_s = self.config.settings().stale_session_s;
            offline.stale_check_s = now_s.saturating_add((after_s / 8).max(STALE_CHECK_MIN_S));
            return;
        }
        (offline.stale_check_s, offline.is_stale) = (0, true);
        self.counters().sessions_stale.add(1);
        let client_id = self.sessions[session].client_id();
        let since = rfc3339(u64::from(offline.disconnected_s) * 1_000);
        let messages = if queued == 1 { "message waits" } else { "messages wait" };
        log::warn!(
            client_id = client_id, queued = queued, since = &*since;
            "{queued} {messages} for client {client_id:?}, which has been offline since {since}; if it does not come back, end its session"
        );
    }

    /// Clears the stale mark: the client is back, or the session ends.
    pub(crate) fn clear_stale(&self, session: SessionIndex) {
        if self.sessions.offline(session).is_stale {
            self.counters().sessions_stale.subtract(1);
        }
    }
}

/// Seconds since the Unix epoch; correct until 2106.
fn to_unix_seconds(at_ms: u64) -> u32 {
    u32::try_from(at_ms / 1_000).unwrap_or(u32::MAX)
}
