//! How connections and sessions end, and what becomes of wills.

use tautwire_message::Format;
use tautwire_protocol::{Disconnect, DisconnectReason, Packet, Properties, Property, TopicFilter};
use tautwire_session::{Change, Journal, Will};

use crate::connection::{NonZeroMs, Phase};
use crate::frames::Outgoing;
use crate::handshake::keep_alive_limit_ms;
use crate::hub::Action;
use crate::route::Origin;
use crate::shard::Shard;

impl<J: Journal> Shard<J> {
    /// Ends a connection for a reason that the client is told, if its version has a way [MQTT 5.0 section 4.13].
    pub(crate) fn disconnect(&mut self, index: u32, reason: DisconnectReason, why: &str) {
        let connection = &self.hub.connections[index as usize];
        if connection.phase == Phase::Open && connection.is_v5() {
            let explained = connection.problem_information;
            let properties = [Property::ReasonString(why)];
            let properties = if explained { Properties::from_list(&properties) } else { Properties::EMPTY };
            let said = self.hub.write_packet(index, &Packet::Disconnect(Disconnect { reason, properties }));
            if !said {
                // [MQTT-3.14.2-3]
                self.hub.write_packet(index, &Packet::Disconnect(Disconnect::new(reason)));
            }
        }
        self.log_end(index, reason.into(), why);
        self.detach(index);
        self.close(index);
    }

    pub(crate) fn protocol_error(&mut self, index: u32, why: &str) {
        self.hub.counters().protocol_errors.add(1);
        self.disconnect(index, DisconnectReason::ProtocolError, why);
    }

    /// Has the connection closed once its output is written.
    pub(crate) fn close(&mut self, index: u32) {
        self.hub.connections[index as usize].phase = Phase::Closing;
        let id = self.hub.id(index);
        self.hub.actions.push_back(Action::Close(id));
    }

    /// DISCONNECT from the client.
    pub(crate) fn on_disconnect(&mut self, index: u32, session: u32, disconnect: &Disconnect<'_>) {
        if let Some(expiry_s) = disconnect.properties.session_expiry_interval() {
            let expiry_s = expiry_s.min(self.hub.settings.max_session_expiry_s);
            let current_s = self.hub.sessions[session as usize].session.expiry_interval_s();
            if current_s == 0 && expiry_s > 0 {
                // It cannot be raised from 0 [MQTT 5.0 section 3.14.2.2.2].
                self.protocol_error(index, "a session that ends with its connection cannot be given an expiry");
                return;
            }
            self.hub.commit(session, Change::ExpiryInterval(expiry_s));
        }
        if disconnect.reason == DisconnectReason::NormalDisconnection {
            // [MQTT-3.14.4-3]
            self.hub.commit(session, Change::Will(None));
        }
        self.log_end(index, disconnect.reason.into(), "by the client");
        self.detach(index);
        self.hub.connections[index as usize].phase = Phase::Closing;
        let id = self.hub.id(index);
        self.hub.actions.push_back(Action::Drop(id));
    }

    /// Parts a connection from its session, which then waits, or ends if it ends with its connection.
    pub(crate) fn detach(&mut self, index: u32) {
        let connection = &mut self.hub.connections[index as usize];
        let replays = connection.extras.take().map(|extras| extras.replays).unwrap_or_default();
        let Some(session) = connection.session.take() else { return };
        let lasts = self.hub.sessions[session as usize].session.expiry_interval_s() > 0;
        for replay in replays {
            self.hub.settle_replay(lasts.then_some(session), replay);
        }
        self.hub.counters().sessions_connected.subtract(1);
        self.hub.set_online(session, false);
        let now_ms = self.hub.now_ms;
        let slot = &mut self.hub.sessions[session as usize];
        slot.connection = None;
        slot.session.shrink();
        let expiry_s = slot.session.expiry_interval_s();
        if expiry_s == 0 {
            self.end_session(session);
            return;
        }
        if let Some(will) = slot.session.will() {
            // The will's delay ends with the session at the latest [MQTT-3.1.2-8].
            let delay_s = will.delay_s.min(expiry_s);
            if delay_s == 0 {
                self.publish_will(session);
            } else {
                // A connection that takes over sets it aside again at once [MQTT-3.1.3-9].
                let at_ms = now_ms + u64::from(delay_s) * 1000;
                self.hub.sessions[session as usize].will_at_ms = NonZeroMs::new(at_ms);
                self.hub.arm_session(session, at_ms);
            }
        }
        if expiry_s != u32::MAX {
            let at_ms = now_ms + u64::from(expiry_s) * 1000;
            self.hub.sessions[session as usize].expires_at_ms = NonZeroMs::new(at_ms);
            self.hub.arm_session(session, at_ms);
        }
    }

    /// Ends a session: its will is published, its subscriptions go, and what it was owed as a member of a shared
    /// subscription goes to others.
    pub(crate) fn end_session(&mut self, session: u32) {
        self.publish_will(session);
        let filters: Vec<(Box<str>, Option<Format>)> = self.hub.sessions[session as usize]
            .session
            .subscriptions()
            .iter()
            .map(|(filter, record)| (filter.into(), record.format))
            .collect();
        for (filter, format) in &filters {
            if let Ok(filter) = TopicFilter::new(filter) {
                self.leave(session, filter, *format);
            }
        }
        let session = self.hub.close_session(session);
        let Some(outbound) = session.into_outbound() else { return };
        for (delivery, started) in outbound.into_unfinished() {
            self.hub.uncount_stored(&delivery);
            // [MQTT-4.8.2-5]: a QoS 2 message that has been started is for nobody else.
            let may_move = !started || delivery.qos == tautwire_protocol::QoS::AtLeastOnce;
            if delivery.share.is_some() && may_move {
                self.hand_on(delivery);
            }
        }
    }

    /// Publishes the will of a session that has one, and forgets it [MQTT-3.1.2-10].
    fn publish_will(&mut self, session: u32) {
        let Some(will) = self.hub.sessions[session as usize].session.will().cloned() else { return };
        self.hub.sessions[session as usize].will_at_ms = None;
        self.hub.commit(session, Change::Will(None));
        let Will { message, message_expiry_s, .. } = will;
        let mut parts = message.as_ref();
        parts.expires_at_ms = message_expiry_s.map(|seconds| self.hub.now_ms + u64::from(seconds) * 1000);
        // No Local speaks of connections; a will has none any more, but its client's own subscriptions count as local.
        if self.publish(&mut Outgoing::new(parts), Origin::Session(session)).is_err() {
            self.hub.counters().publishes_refused.add(1);
        }
    }

    /// A connection's deadline may have come.
    pub(crate) fn connection_timer(&mut self, index: u32) {
        let settings = &self.hub.settings;
        let now_ms = self.hub.now_ms;
        let connection = &mut self.hub.connections[index as usize];
        if connection.armed_ms.is_none_or(|armed| armed.get() > now_ms) {
            // An entry that an earlier one has made superfluous.
            return;
        }
        connection.armed_ms = None;
        if matches!(connection.phase, Phase::Vacant | Phase::Closing) {
            return;
        }
        let incomplete_limit_ms = u64::from(settings.incomplete_packet_timeout_s) * 1000;
        let stall_limit_ms = u64::from(settings.write_stall_timeout_s) * 1000;
        let connect_limit_ms = u64::from(settings.connect_timeout_s) * 1000;
        let awaiting_connect = connection.phase == Phase::AwaitingConnect;
        let keep_alive = (connection.keep_alive_s > 0 && !connection.is_held())
            .then(|| connection.last_received_ms + keep_alive_limit_ms(connection.keep_alive_s));
        let connect = awaiting_connect.then(|| connection.last_received_ms + connect_limit_ms);
        let incomplete = connection.incomplete_since_ms.map(|since| since.get() + incomplete_limit_ms);
        let stalled =
            connection.stalled_since_ms.filter(|_| stall_limit_ms > 0).map(|since| since.get() + stall_limit_ms);
        let is_due = |deadline: Option<u64>| deadline.is_some_and(|at_ms| at_ms <= now_ms);

        let counters = self.hub.counters();
        if is_due(connect) {
            counters.connect_timeouts.add(1);
            log::debug!("connection {index} sent no CONNECT in time");
            self.close(index);
        } else if is_due(incomplete) {
            counters.incomplete_packet_timeouts.add(1);
            self.disconnect(index, DisconnectReason::KeepAliveTimeout, "a packet was not complete in time");
        } else if is_due(keep_alive) {
            // [MQTT-3.1.2-22]
            counters.keep_alive_timeouts.add(1);
            self.disconnect(
                index,
                DisconnectReason::KeepAliveTimeout,
                "nothing came for one and a half times Keep Alive",
            );
        } else if is_due(stalled) {
            counters.write_stall_timeouts.add(1);
            self.disconnect(index, DisconnectReason::UnspecifiedError, "output was not taken in time");
        } else if let Some(next_ms) = [connect, incomplete, keep_alive, stalled].into_iter().flatten().min() {
            self.hub.arm_connection(index, next_ms);
        } else if self.hub.connections[index as usize].keep_alive_s > 0 {
            // Not read from, which stops the clock: looked at again later.
            self.hub.arm_connection(index, now_ms + keep_alive_limit_ms(1));
        }
    }

    /// A session's deadline may have come.
    pub(crate) fn session_timer(&mut self, session: u32) {
        let now_ms = self.hub.now_ms;
        let slot = &mut self.hub.sessions[session as usize];
        if slot.armed_ms.is_none_or(|armed| armed.get() > now_ms) {
            return;
        }
        slot.armed_ms = None;
        if !slot.taken || slot.connection.is_some() {
            return;
        }
        if slot.will_at_ms.is_some_and(|at| at.get() <= now_ms) {
            self.publish_will(session);
        }
        let slot = &self.hub.sessions[session as usize];
        if slot.expires_at_ms.is_some_and(|at| at.get() <= now_ms) {
            // [MQTT-4.1.0-2]
            self.hub.counters().sessions_expired.add(1);
            self.end_session(session);
        } else if let Some(next) = slot.will_at_ms.into_iter().chain(slot.expires_at_ms).min() {
            self.hub.arm_session(session, next.get());
        }
    }
}
