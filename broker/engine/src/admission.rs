//! Who a client is: the question goes out, and CONNECT waits where it is until there is an answer.
//!
//! CONNECT stays at the front of the input meanwhile, so it can be brought again on whichever shard the client belongs to. What a
//! client answers by AUTH before CONNACK lies behind CONNECT and is heard ahead of it.

use tautwire_access::Identity;
use tautwire_protocol::{
    Auth, AuthReason, Connect, ConnectReason, DisconnectReason, Packet, Properties, Property, ReasonCode, decode_body,
};
use tautwire_session::Journal;

use crate::connections::Action;
use crate::connections::{Attempt, Exchange, Phase, Question, Reason, Standing, Verdict};
use crate::handshake::Caller;
use crate::place::{ConnectionId, ConnectionIndex};
use crate::shard::{Handled, Shard};

use std::sync::Arc;

impl<J: Journal> Shard<J> {
    /// What a client has said to show who it is, to be answered by [`Shard::decide`]. `None` where that has been taken already.
    pub fn take_question(&mut self, id: ConnectionId) -> Option<Question> {
        self.hub.connections.get(id)?.standing_mut()?.take_question()
    }

    /// The answer to the last question of a connection. One that comes too late goes to nobody.
    pub fn decide(&mut self, id: ConnectionId, verdict: Verdict, now_ms: u64) {
        self.hub.clock.set(now_ms);
        // The answer may come from somebody who has been told of users that only the rules of now know.
        self.look_at_news();
        let Some(index) = self.hub.connections.find(id) else { return };
        let connection = &mut self.hub.connections[index];
        let phase = connection.phase();
        let Some(standing) = connection.standing_mut().filter(|standing| standing.exchange() == Exchange::Asked) else {
            return;
        };
        match phase {
            Phase::AwaitingConnect => {
                standing.keep_verdict(verdict, now_ms);
                self.hub.hear_again(id, Reason::Verdict);
            }
            Phase::Open => self.settle_again(index, verdict),
            Phase::Closing | Phase::Vacant => {}
        }
    }

    /// What is known of the client of a connection that leaves this shard, for [`Shard::take_standing`] of another.
    pub fn give_standing(&mut self, id: ConnectionId) -> Option<Box<Standing>> {
        self.hub.connections.get(id)?.give_standing()
    }

    /// What is known of the client of a connection that has just come from another shard.
    pub fn take_standing(&mut self, id: ConnectionId, standing: Box<Standing>) {
        if let Some(connection) = self.hub.connections.get(id) {
            connection.take_standing(standing);
        }
    }

    /// Whether it is known who the client is, where that is asked; otherwise what is to be done with its CONNECT.
    pub(crate) fn find_out(&mut self, index: ConnectionIndex, connect: &Connect<'_>) -> Result<(), Handled> {
        if !self.hub.regime.access().asks() {
            return Ok(());
        }
        let standing = self.hub.connections[index].standing_or_new();
        if standing.identity().is_some() {
            return Ok(());
        }
        match standing.exchange() {
            Exchange::Challenged => Err(Handled::Later),
            Exchange::None => Err(self.ask_by_connect(index, connect)),
            Exchange::Asked => match standing.take_verdict() {
                None => Err(Handled::Later),
                Some(verdict) => self.settle_connect(index, connect, verdict),
            },
        }
    }

    fn ask_by_connect(&mut self, index: ConnectionIndex, connect: &Connect<'_>) -> Handled {
        let properties = &connect.properties;
        let method = properties.authentication_method();
        let attempt = Attempt {
            version: connect.version,
            client_id: connect.client_id.into(),
            user_name: connect.user_name.map(Box::from),
            password: connect.password.map(Box::from),
            method: method.map(Box::from),
            data: properties.authentication_data().map(Box::from),
        };
        let question = Question::Connect(attempt);
        if self.hub.memory.share().admits(self.hub.connection_bytes(index), question.bytes()).is_err() {
            self.hub.counters().refused_memory.add(1);
            let why = "there is no memory to find out who the client is";
            self.refuse_connect(index, Caller::of(connect), ConnectReason::QuotaExceeded, why);
            return Handled::Ended;
        }
        let connection = &mut self.hub.connections[index];
        connection.set_version(connect.version);
        connection.set_maximum_packet_size(properties.maximum_packet_size());
        connection.standing_or_new().set_method(method);
        self.ask(index, question);
        // No more is read from the client until there is an answer.
        self.hub.connections[index].hold(Reason::Verdict);
        Handled::Later
    }

    fn ask(&mut self, index: ConnectionIndex, question: Question) {
        let ledger = self.hub.memory.ledger().clone();
        let (progress, now_ms) = (self.hub.regime.access().auth_progress(), self.hub.clock.now_ms());
        self.hub.connections[index].standing_or_new().ask(question, &ledger, progress, now_ms);
        let id = self.hub.id(index);
        self.hub.connections.want(Action::Ask(id));
    }

    /// Acts on the answer to what CONNECT asked.
    fn settle_connect(
        &mut self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        verdict: Verdict,
    ) -> Result<(), Handled> {
        match verdict {
            Verdict::Admitted { identity, data } => {
                self.hub.connections[index].standing_or_new().admit(identity, data);
                Ok(())
            }
            Verdict::Challenge { data, state } => {
                self.hub.connections[index].standing_or_new().challenge(state);
                if self.say_auth(index, AuthReason::ContinueAuthentication, Some(&data)) {
                    return Err(Handled::Later);
                }
                // [MQTT-3.1.2-24]
                let why = "the challenge is larger than the client accepts";
                self.refuse_connect(index, Caller::of(connect), ConnectReason::PacketTooLarge, why);
                Err(Handled::Ended)
            }
            Verdict::Refused { reason, why, detail } => {
                self.hub.counters().connects_not_authenticated.add(1);
                self.hub.connections[index].set_maximum_packet_size(connect.properties.maximum_packet_size());
                let detail = detail.as_deref().unwrap_or(&why);
                self.refuse_connect_with(index, Caller::of(connect), reason, (&why, detail), None);
                Err(Handled::Ended)
            }
        }
    }

    /// Hears what lies behind a CONNECT of `length` whose client has been challenged. Nothing but AUTH and DISCONNECT may come
    /// before CONNACK [MQTT-3.1.2-30].
    pub(crate) fn hear_challenged(&mut self, index: ConnectionIndex, bytes: &[u8], length: usize) -> Handled {
        let at = self.hub.connections[index].heard_ahead_bytes().max(length);
        let Some(header) = bytes.get(at..).and_then(|rest| self.hub.fixed_header(index, rest)) else {
            return Handled::Later;
        };
        let end = at + header.total_len();
        if bytes.len() < end {
            return Handled::Later;
        }
        let version = self.hub.connections[index].version();
        match decode_body(&header, &bytes[at + header.header_len..end], version) {
            Ok(Packet::Auth(auth)) if self.is_next_step(index, &auth) => {
                self.hub.connections[index].hear_ahead_to(end);
                self.hub.counters().packets_received.add(1);
                let data = auth.properties.authentication_data().unwrap_or_default().into();
                let state = self.hub.connections[index].standing_or_new().take_state().unwrap_or(Box::new(()));
                self.ask(index, Question::Continue { data, state });
                self.hub.connections[index].hold(Reason::Verdict);
                Handled::Later
            }
            Ok(Packet::Disconnect(_)) => {
                self.close(index);
                Handled::Ended
            }
            _ => {
                self.hub.counters().protocol_errors.add(1);
                let why = "AUTH with the method of CONNECT was due";
                self.refuse_connect(index, Caller::unread(version), ConnectReason::ProtocolError, why);
                Handled::Ended
            }
        }
    }

    /// Whether AUTH goes on with what has begun [MQTT-4.12.0-3].
    fn is_next_step(&self, index: ConnectionIndex, auth: &Auth<'_>) -> bool {
        let standing = self.hub.connections[index].standing();
        auth.reason == AuthReason::ContinueAuthentication
            && standing.is_some_and(|standing| {
                standing.exchange() == Exchange::Challenged
                    && standing.method() == auth.properties.authentication_method()
            })
    }

    /// AUTH from a client that is connected.
    pub(crate) fn on_auth(&mut self, index: ConnectionIndex, auth: &Auth<'_>) {
        let standing = self.hub.connections[index].standing();
        let method = standing.and_then(Standing::method);
        let Some(method) = method else {
            let why = match auth.reason {
                AuthReason::ReAuthenticate => "no authentication method is in use",
                _ => "no authentication is under way",
            };
            self.protocol_error(index, why);
            return;
        };
        if auth.properties.authentication_method() != Some(method) {
            // [MQTT-4.12.1-1]
            self.protocol_error(index, "the authentication method is not that of CONNECT");
            return;
        }
        let data: Box<[u8]> = auth.properties.authentication_data().unwrap_or_default().into();
        let exchange = standing.map(Standing::exchange).unwrap_or_default();
        let question = match (auth.reason, exchange) {
            (AuthReason::ReAuthenticate, Exchange::None) => {
                let connection = &self.hub.connections[index];
                let client_id = connection.session().map_or("", |session| self.hub.sessions[session].client_id());
                let attempt = Attempt {
                    version: connection.version(),
                    client_id: client_id.into(),
                    user_name: None,
                    password: None,
                    method: Some(method.into()),
                    data: Some(data),
                };
                Question::Again(attempt)
            }
            (AuthReason::ContinueAuthentication, Exchange::Challenged) => {
                let state = self.hub.connections[index].standing_or_new().take_state().unwrap_or(Box::new(()));
                Question::Continue { data, state }
            }
            _ => {
                self.protocol_error(index, "AUTH that is no next step of the authentication");
                return;
            }
        };
        if self.hub.memory.share().admits(self.hub.connection_bytes(index), question.bytes()).is_err() {
            self.hub.counters().refused_memory.add(1);
            let why = "there is no memory to find out who the client is";
            self.disconnect(index, DisconnectReason::QuotaExceeded, why);
            return;
        }
        self.ask(index, question);
    }

    /// Acts on the answer to what a connected client has asked by AUTH.
    fn settle_again(&mut self, index: ConnectionIndex, verdict: Verdict) {
        let session = self.hub.connections[index].session();
        let Some(standing) = self.hub.connections[index].standing_mut() else { return };
        standing.settle();
        match verdict {
            Verdict::Admitted { identity, data } => {
                // The session is the user's who opened it, and of this Client Identifier, whatever else the user may show.
                let is_same_user = standing.identity().map(|held| &held.user) == Some(&identity.user);
                let client_id = session.map_or("", |session| self.hub.sessions[session].client_id());
                if !is_same_user || identity.client_id.as_deref().is_some_and(|shown| shown != client_id) {
                    self.hub.counters().reauthentications_refused.add(1);
                    self.disconnect(index, DisconnectReason::NotAuthorized, "the client is somebody else now");
                    return;
                }
                standing.admit(identity, None);
                if !self.say_auth(index, AuthReason::Success, data.as_deref()) {
                    self.disconnect(index, DisconnectReason::PacketTooLarge, "AUTH is larger than the client accepts");
                    return;
                }
                self.arm_identity(index);
                self.resolve_again(index);
            }
            Verdict::Challenge { data, state } => {
                standing.challenge(state);
                if !self.say_auth(index, AuthReason::ContinueAuthentication, Some(&data)) {
                    let why = "the challenge is larger than the client accepts";
                    self.disconnect(index, DisconnectReason::PacketTooLarge, why);
                }
            }
            Verdict::Refused { reason, why, detail } => {
                self.hub.counters().reauthentications_refused.add(1);
                let reason = ReasonCode::from(reason);
                self.hub.audit_reauthentication(index, reason, detail.as_deref().unwrap_or(&why));
                let reason = DisconnectReason::try_from(reason).unwrap_or(DisconnectReason::NotAuthorized);
                self.disconnect(index, reason, &why);
            }
        }
    }

    /// Says a step of the authentication [MQTT-4.12.0-2].
    /// False where it is larger than the client accepts.
    fn say_auth(&mut self, index: ConnectionIndex, reason: AuthReason, data: Option<&[u8]>) -> bool {
        let standing = self.hub.connections[index].standing();
        let method: Option<Box<str>> = standing.and_then(Standing::method).map(Box::from);
        let method = method.as_deref().map(Property::AuthenticationMethod);
        let properties: Vec<_> = method.into_iter().chain(data.map(Property::AuthenticationData)).collect();
        let auth = Auth { reason, properties: Properties::from_list(&properties) };
        self.hub.write_packet(index, &Packet::Auth(auth))
    }

    /// Makes sure that the connection is looked at when its client's identity ends.
    pub(crate) fn arm_identity(&mut self, index: ConnectionIndex) {
        if let Some(ends_at_ms) = self.identity_ends_at_ms(index) {
            self.hub.arm_connection(index, ends_at_ms);
        }
    }

    pub(crate) fn identity_ends_at_ms(&self, index: ConnectionIndex) -> Option<u64> {
        self.hub.connections[index].standing()?.identity()?.ends_at_ms
    }

    /// Ends a connection that has waited for CONNECT, or for an answer to it, for too long.
    pub(crate) fn give_up_connect(&mut self, index: ConnectionIndex) {
        let connection = &self.hub.connections[index];
        let exchange = connection.standing().map(Standing::exchange).unwrap_or_default();
        if exchange == Exchange::None && !self.has_claim(index) {
            log::debug!("connection {index} sent no CONNECT in time");
            self.close(index);
            return;
        }
        let why = match exchange {
            Exchange::None => "the session could not be had from the cluster in time",
            Exchange::Challenged => "the client has not answered in time",
            Exchange::Asked => "it could not be found out in time who the client is",
        };
        let caller = Caller::unread(connection.version());
        self.refuse_connect(index, caller, ConnectReason::ServerUnavailable, why);
    }
}

/// Who the client of a connection is.
pub(crate) fn identity_of(standing: Option<&Standing>) -> Option<&Arc<Identity>> {
    standing.and_then(Standing::identity)
}
