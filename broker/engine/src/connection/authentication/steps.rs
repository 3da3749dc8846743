//! The steps of [`super`] that need several parts of a shard.

use std::sync::Arc;

use tautwire_access::Identity;
use tautwire_protocol::{
    Auth, AuthReason, Connect, ConnectReason, DisconnectReason, Packet, Properties, Property, ReasonCode, decode_body,
};

use crate::connection::connect_refusal::RefusedClient;
use crate::connection::connections::Action;
use crate::connection::connections::{
    AuthAttempt, AuthDecision, AuthPhase, AuthRequest, AuthState, PauseReason, Phase,
};
use crate::index::{ConnectionId, ConnectionIndex};
use crate::mode::Mode;
use crate::shard::{Handled, Shard};

impl<M: Mode> Shard<M> {
    /// Takes the authentication request of a client, to be answered by [`Shard::apply_auth_decision`]. Returns `None` if it has been taken
    /// already.
    pub fn take_auth_request(&mut self, id: ConnectionId) -> Option<AuthRequest> {
        self.state.connections.get(id)?.auth_state_mut()?.take_auth_request()
    }

    /// Applies the decision about a connection's last request. A late decision is ignored.
    pub fn apply_auth_decision(&mut self, id: ConnectionId, decision: AuthDecision, now_ms: u64) {
        self.state.clock.set(now_ms);
        // The decision may be based on a newer configuration, with users that only the new rules contain.
        self.apply_config_update();
        let Some(index) = self.state.connections.find(id) else { return };
        let connection = &mut self.state.connections[index];
        let phase = connection.phase();
        let Some(auth_state) =
            connection.auth_state_mut().filter(|auth_state| auth_state.phase() == AuthPhase::Pending)
        else {
            return;
        };
        match phase {
            Phase::AwaitingConnect => {
                auth_state.set_decision(decision, now_ms);
                self.state.resume_reading(id, PauseReason::Authentication);
            }
            Phase::Open => self.apply_reauth_decision(index, decision),
            Phase::Closing | Phase::Vacant => {}
        }
    }

    /// Takes the authentication state of a connection that leaves this shard, for [`Shard::adopt_auth_state`] of another.
    pub fn release_auth_state(&mut self, id: ConnectionId) -> Option<Box<AuthState>> {
        self.state.connections.get(id)?.release_auth_state()
    }

    /// Sets the authentication state of a connection that has arrived from another shard.
    pub fn adopt_auth_state(&mut self, id: ConnectionId, auth_state: Box<AuthState>) {
        if let Some(connection) = self.state.connections.get(id) {
            connection.adopt_auth_state(auth_state);
        }
    }

    /// Checks that the client has authenticated, where that is required. The error says how its CONNECT was handled.
    pub(crate) fn check_identity(&mut self, index: ConnectionIndex, connect: &Connect<'_>) -> Result<(), Handled> {
        if let Some(identity) = self.internal_identity(index) {
            self.state.connections[index].auth_state_or_new().set_identity(identity, None);
            return Ok(());
        }
        if !self.state.config.access().requires_auth() {
            return Ok(());
        }
        let auth_state = self.state.connections[index].auth_state_or_new();
        if auth_state.identity().is_some() {
            return Ok(());
        }
        match auth_state.phase() {
            AuthPhase::Challenged => Err(Handled::Later),
            AuthPhase::None => Err(self.request_auth_by_connect(index, connect)),
            AuthPhase::Pending => match auth_state.take_decision() {
                None => Err(Handled::Later),
                Some(decision) => self.apply_connect_decision(index, connect, decision),
            },
        }
    }

    /// The identity of a client that is a part of this process, and needs no authentication.
    fn internal_identity(&self, index: ConnectionIndex) -> Option<Arc<Identity>> {
        self.state.connections[index].origin()?.identity().cloned()
    }

    fn request_auth_by_connect(&mut self, index: ConnectionIndex, connect: &Connect<'_>) -> Handled {
        let properties = &connect.properties;
        let method = properties.authentication_method();
        let attempt = AuthAttempt {
            version: connect.version,
            client_id: connect.client_id.into(),
            user_name: connect.user_name.map(Box::from),
            password: connect.password.map(Box::from),
            method: method.map(Box::from),
            data: properties.authentication_data().map(Box::from),
        };
        let request = AuthRequest::Connect(attempt);
        if self.state.memory.share().admits(self.state.connection_bytes(index), request.bytes()).is_err() {
            self.state.counters().resources_refused_memory.add(1);
            let why = "there is no memory to authenticate the client";
            self.refuse_connect(index, RefusedClient::of(connect), ConnectReason::QuotaExceeded, why);
            return Handled::Ended;
        }
        let connection = &mut self.state.connections[index];
        connection.set_version(connect.version);
        connection.set_maximum_packet_size(properties.maximum_packet_size());
        connection.auth_state_or_new().set_method(method);
        self.request_auth(index, request);
        // Reading is paused until there is a decision.
        self.state.connections[index].pause_reading(PauseReason::Authentication);
        Handled::Later
    }

    fn request_auth(&mut self, index: ConnectionIndex, request: AuthRequest) {
        let ledger = self.state.memory.ledger().clone();
        let (progress, now_ms) = (self.state.config.access().auth_progress(), self.state.clock.now_ms());
        self.state.connections[index].auth_state_or_new().request_auth(request, &ledger, progress, now_ms);
        let id = self.state.id(index);
        self.state.connections.request_action(Action::Authenticate(id));
    }

    /// Applies the decision about a CONNECT.
    fn apply_connect_decision(
        &mut self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        decision: AuthDecision,
    ) -> Result<(), Handled> {
        match decision {
            AuthDecision::Admitted { identity, data } => {
                self.state.connections[index].auth_state_or_new().set_identity(identity, data);
                Ok(())
            }
            AuthDecision::Challenge { data, state } => {
                self.state.connections[index].auth_state_or_new().set_challenge(state);
                if self.send_auth(index, AuthReason::ContinueAuthentication, Some(&data)) {
                    return Err(Handled::Later);
                }
                // [MQTT-3.1.2-24]
                let why = "the challenge is larger than the client accepts";
                self.refuse_connect(index, RefusedClient::of(connect), ConnectReason::PacketTooLarge, why);
                Err(Handled::Ended)
            }
            AuthDecision::Refused { reason, why, detail } => {
                self.state.counters().connects_not_authenticated.add(1);
                self.state.connections[index].set_maximum_packet_size(connect.properties.maximum_packet_size());
                let detail = detail.as_deref().unwrap_or(&why);
                self.refuse_connect_with(index, RefusedClient::of(connect), reason, (&why, detail), None);
                Err(Handled::Ended)
            }
        }
    }

    /// Processes input behind a CONNECT of `length` bytes whose client has been challenged. Only AUTH and DISCONNECT may arrive before
    /// CONNACK [MQTT-3.1.2-30].
    pub(crate) fn on_challenged_input(&mut self, index: ConnectionIndex, bytes: &[u8], length: usize) -> Handled {
        let at = self.state.connections[index].read_ahead_bytes().max(length);
        let Some(header) = bytes.get(at..).and_then(|rest| self.state.fixed_header(index, rest)) else {
            return Handled::Later;
        };
        let end = at + header.total_len();
        if bytes.len() < end {
            return Handled::Later;
        }
        let version = self.state.connections[index].version();
        match decode_body(&header, &bytes[at + header.header_len..end], version) {
            Ok(Packet::Auth(auth)) if self.continues_auth(index, &auth) => {
                self.state.connections[index].set_read_ahead_bytes(end);
                self.state.counters().packets_received.add(1);
                let data = auth.properties.authentication_data().unwrap_or_default().into();
                let state = self.state.connections[index].auth_state_or_new().take_state().unwrap_or(Box::new(()));
                self.request_auth(index, AuthRequest::Continue { data, state });
                self.state.connections[index].pause_reading(PauseReason::Authentication);
                Handled::Later
            }
            Ok(Packet::Disconnect(_)) => {
                self.close(index);
                Handled::Ended
            }
            _ => {
                self.state.counters().protocol_errors.add(1);
                let why = "expected AUTH with the authentication method of CONNECT";
                self.refuse_connect(index, RefusedClient::unread(version), ConnectReason::ProtocolError, why);
                Handled::Ended
            }
        }
    }

    /// Whether AUTH continues the current authentication [MQTT-4.12.0-3].
    fn continues_auth(&self, index: ConnectionIndex, auth: &Auth<'_>) -> bool {
        let auth_state = self.state.connections[index].auth_state();
        auth.reason == AuthReason::ContinueAuthentication
            && auth_state.is_some_and(|auth_state| {
                auth_state.phase() == AuthPhase::Challenged
                    && auth_state.method() == auth.properties.authentication_method()
            })
    }

    /// Processes AUTH from a connected client.
    pub(crate) fn on_auth(&mut self, index: ConnectionIndex, auth: &Auth<'_>) {
        let auth_state = self.state.connections[index].auth_state();
        let method = auth_state.and_then(AuthState::method);
        let Some(method) = method else {
            let why = match auth.reason {
                AuthReason::ReAuthenticate => "no authentication method is in use",
                _ => "no authentication is in progress",
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
        let phase = auth_state.map(AuthState::phase).unwrap_or_default();
        let request = match (auth.reason, phase) {
            (AuthReason::ReAuthenticate, AuthPhase::None) => {
                let connection = &self.state.connections[index];
                let client_id = connection.session().map_or("", |session| self.state.sessions[session].client_id());
                let attempt = AuthAttempt {
                    version: connection.version(),
                    client_id: client_id.into(),
                    user_name: None,
                    password: None,
                    method: Some(method.into()),
                    data: Some(data),
                };
                AuthRequest::Reauthenticate(attempt)
            }
            (AuthReason::ContinueAuthentication, AuthPhase::Challenged) => {
                let state = self.state.connections[index].auth_state_or_new().take_state().unwrap_or(Box::new(()));
                AuthRequest::Continue { data, state }
            }
            _ => {
                self.protocol_error(index, "AUTH does not continue the authentication");
                return;
            }
        };
        if self.state.memory.share().admits(self.state.connection_bytes(index), request.bytes()).is_err() {
            self.state.counters().resources_refused_memory.add(1);
            let why = "there is no memory to authenticate the client";
            self.disconnect(index, DisconnectReason::QuotaExceeded, why);
            return;
        }
        self.request_auth(index, request);
    }

    /// Applies the decision about a re-authentication.
    fn apply_reauth_decision(&mut self, index: ConnectionIndex, decision: AuthDecision) {
        let session = self.state.connections[index].session();
        let Some(auth_state) = self.state.connections[index].auth_state_mut() else { return };
        auth_state.settle();
        match decision {
            AuthDecision::Admitted { identity, data } => {
                // A session belongs to the user who opened it and to its Client Identifier; re-authentication cannot change them.
                let is_same_user = auth_state.identity().map(|current| &current.user) == Some(&identity.user);
                let client_id = session.map_or("", |session| self.state.sessions[session].client_id());
                if !is_same_user || identity.client_id.as_deref().is_some_and(|new_id| new_id != client_id) {
                    self.state.counters().reauthentications_refused.add(1);
                    self.disconnect(
                        index,
                        DisconnectReason::NotAuthorized,
                        "re-authentication must not change the user or the client identifier",
                    );
                    return;
                }
                auth_state.set_identity(identity, None);
                if !self.send_auth(index, AuthReason::Success, data.as_deref()) {
                    self.disconnect(index, DisconnectReason::PacketTooLarge, "AUTH is larger than the client accepts");
                    return;
                }
                self.arm_identity_expiry(index);
                self.refresh_permissions(index);
            }
            AuthDecision::Challenge { data, state } => {
                auth_state.set_challenge(state);
                if !self.send_auth(index, AuthReason::ContinueAuthentication, Some(&data)) {
                    let why = "the challenge is larger than the client accepts";
                    self.disconnect(index, DisconnectReason::PacketTooLarge, why);
                }
            }
            AuthDecision::Refused { reason, why, detail } => {
                self.state.counters().reauthentications_refused.add(1);
                let reason = ReasonCode::from(reason);
                self.state.audit_reauthentication(index, reason, detail.as_deref().unwrap_or(&why));
                let reason = DisconnectReason::try_from(reason).unwrap_or(DisconnectReason::NotAuthorized);
                self.disconnect(index, reason, &why);
            }
        }
    }

    /// Sends AUTH [MQTT-4.12.0-2]. Returns false if it is larger than the client accepts.
    fn send_auth(&mut self, index: ConnectionIndex, reason: AuthReason, data: Option<&[u8]>) -> bool {
        let auth_state = self.state.connections[index].auth_state();
        let method: Option<Box<str>> = auth_state.and_then(AuthState::method).map(Box::from);
        let method = method.as_deref().map(Property::AuthenticationMethod);
        let properties: Vec<_> = method.into_iter().chain(data.map(Property::AuthenticationData)).collect();
        let auth = Auth { reason, properties: Properties::from_list(&properties) };
        self.state.write_packet(index, &Packet::Auth(auth))
    }

    /// Arms the connection's timer for the time at which its client's identity expires.
    pub(crate) fn arm_identity_expiry(&mut self, index: ConnectionIndex) {
        if let Some(ends_at_ms) = self.identity_expires_at_ms(index) {
            self.state.arm_connection(index, ends_at_ms);
        }
    }

    pub(crate) fn identity_expires_at_ms(&self, index: ConnectionIndex) -> Option<u64> {
        self.state.connections[index].auth_state()?.identity()?.ends_at_ms
    }

    /// Ends a connection whose CONNECT, or the decision about it, did not arrive in time.
    pub(crate) fn time_out_connect(&mut self, index: ConnectionIndex) {
        let connection = &self.state.connections[index];
        let phase = connection.auth_state().map(AuthState::phase).unwrap_or_default();
        if phase == AuthPhase::None && !M::has_claim(&self.state, index) {
            log::debug!("connection {index} sent no CONNECT in time");
            self.close(index);
            return;
        }
        let why = match phase {
            AuthPhase::None => "the session could not be claimed in the cluster in time",
            AuthPhase::Challenged => "the client did not answer the authentication challenge in time",
            AuthPhase::Pending => "the client could not be authenticated in time",
        };
        let client = RefusedClient::unread(connection.version());
        self.refuse_connect(index, client, ConnectReason::ServerUnavailable, why);
    }
}
