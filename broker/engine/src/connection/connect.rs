//! CONNECT [MQTT 5.0 section 3.1].

use std::borrow::Cow;
use std::num::NonZeroU16;

use tautwire_protocol::{
    Connect, ConnectReason, DisconnectReason, Properties, PropertyContext, PropertyId, ProtocolVersion, TopicName, Will,
};
use tautwire_router::random;
use tautwire_session::{Change, SESSION_BYTES, session_name};

use crate::connection::authentication::identity_of;
use crate::connection::connect_refusal::{ConnectRefusal, RefusedClient};
use crate::connection::connections::Action;
use crate::connection::connections::ConnectParameters;
use crate::connection::flapping_block::FLAPPING_BLOCKED;
use crate::connection::mount::MountPoint;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::shard::{Handled, Shard};

/// The default of Receive Maximum [MQTT 5.0 section 3.1.2.11.3].
pub(crate) const RECEIVE_MAXIMUM_DEFAULT: u16 = 65_535;
/// The most topic aliases that the broker sets for a client.
const ALIASES_OUT_MAX: u16 = 64;
/// The Session Expiry Interval of a session that does not expire.
const NEVER_S: u32 = u32::MAX;

/// The session of an accepted CONNECT.
struct OpenedSession {
    session: SessionIndex,
    /// Session Present in CONNACK [MQTT-3.2.2-2].
    is_present: bool,
}

/// Client identifiers with this prefix are those of bridges.
const RESERVED_CLIENT_ID_PREFIX: &str = "bridge/";

impl<M: Mode> Shard<M> {
    pub(crate) fn on_connect(&mut self, index: ConnectionIndex, connect: &Connect<'_>) -> Handled {
        if !self.accepts_version(index, connect.version) {
            // [MQTT-3.1.2-2]
            let why = "mqtt.protocol_versions does not name this version of MQTT";
            let refusal = ConnectRefusal(ConnectReason::UnsupportedProtocolVersion, why.into());
            return self.refuse_with(index, connect, &refusal);
        }
        if let Err(handled) = self.check_identity(index, connect) {
            return handled;
        }
        let Some(mount) = self.state.connections[index].mount_point().cloned() else {
            return self.accept_connect(index, connect);
        };
        let Some(will) = connect.will else { return self.accept_connect(index, connect) };
        let mounted =
            mount.topic(will.topic.as_str()).and_then(|topic| Ok((topic, mount.properties(&will.properties)?)));
        let (topic, properties) = match mounted {
            Ok(mounted) => mounted,
            Err(reason) => {
                let reason = ConnectReason::try_from(reason).unwrap_or(ConnectReason::TopicNameInvalid);
                let refusal = ConnectRefusal(reason, "the will's topic is not allowed".into());
                return self.refuse_with(index, connect, &refusal);
            }
        };
        let Ok(topic) = TopicName::new(&topic) else { return Handled::Ended };
        let properties = match &properties {
            None => will.properties,
            Some(wire) => Properties::from_wire(wire, PropertyContext::Will).unwrap_or(Properties::EMPTY),
        };
        self.accept_connect(index, &Connect { will: Some(Will { topic, properties, ..will }), ..*connect })
    }

    /// Processes a CONNECT from an authenticated client, with the full topic of its will.
    fn accept_connect(&mut self, index: ConnectionIndex, connect: &Connect<'_>) -> Handled {
        let client_id = match self.validate_connect(index, connect) {
            Ok(client_id) => client_id,
            Err(refusal) => return self.refuse_with(index, connect, &refusal),
        };
        let name = self.session_name(index, &client_id);
        let owner = self.state.context.exchange().owner(&name);
        if owner != self.state.context.shard() {
            let id = self.state.id(index);
            self.state.connections[index].begin_closing();
            self.state.connections.request_action(Action::Move(id, owner));
            // The bytes of CONNECT move with the connection and are decoded there.
            return Handled::Later;
        }
        if let Err(refusal) = self.check_client(index, connect, &client_id, &name) {
            return self.refuse_with(index, connect, &refusal);
        }
        let opened = match self.open_session_for(index, connect, &name) {
            Ok(opened) => opened,
            Err(handled) => return handled,
        };
        if !M::begin_service(self, index, opened.session, connect) {
            return Handled::Later;
        }
        self.bind_session(index, opened.session, connect, opened.is_present);
        M::pause_output(&mut self.state, index);
        self.send_connack(index, connect, &client_id, opened.is_present);
        self.state.send_pending(opened.session);
        Handled::Done
    }

    /// Refuses a CONNECT with a CONNACK that is not larger than the client accepts.
    #[cold]
    fn refuse_with(
        &mut self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        ConnectRefusal(reason, why): &ConnectRefusal,
    ) -> Handled {
        self.state.connections[index].set_maximum_packet_size(connect.properties.maximum_packet_size());
        self.refuse_connect(index, RefusedClient::of(connect), *reason, why);
        Handled::Ended
    }

    /// Checks whether the client may have a session here, independently of the session.
    fn check_client(
        &mut self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        client_id: &str,
        name: &str,
    ) -> Result<(), ConnectRefusal> {
        if let Some(reason) = self.state.is_blocked(name) {
            return Err(ConnectRefusal(reason, FLAPPING_BLOCKED.into()));
        }
        if let Some(will) = &connect.will
            && !self.is_will_allowed(index, client_id, will)
        {
            let why = "the access rules do not allow the will";
            return Err(ConnectRefusal(ConnectReason::NotAuthorized, why.into()));
        }
        if let Some((reason, why)) = self.refuse_for_log(index, connect, name) {
            self.state.counters().resources_refused_disk.add(1);
            return Err(ConnectRefusal(reason, why.into()));
        }
        if self.is_no_longer_allowed(index, client_id) {
            let why = "the client's credentials are no longer valid, or it has been banned";
            return Err(ConnectRefusal(ConnectReason::NotAuthorized, why.into()));
        }
        Ok(())
    }

    /// Opens the session of a CONNECT: the existing one, or a new one. The error says how CONNECT was handled.
    fn open_session_for(
        &mut self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        name: &str,
    ) -> Result<OpenedSession, Handled> {
        if let Some(session) = self.state.sessions.find(name) {
            // What the client sent on its previous connection is processed first, above all a DISCONNECT.
            if let Some(older) = self.state.sessions.connection(session)
                && self.state.connections[index].read_previous_first()
            {
                self.state.connections.request_action(Action::ReadFirst(self.state.id(older), self.state.id(index)));
                return Err(Handled::Later);
            }
            self.take_over(session);
        }
        let claimed = M::claim(self, index, connect, name)?;
        // Ending a connection may have ended its session.
        let resumed = match self.state.sessions.find(name) {
            // [MQTT-3.1.2-4]
            Some(session) if connect.clean_start && claimed.is_none() => {
                self.end_session(session);
                None
            }
            // [MQTT-3.1.2-5]
            existing => existing,
        };
        if let Some(session) = resumed
            && !self.is_review_complete(index, session)
        {
            return Err(Handled::Later);
        }
        let opened = match self.check_session_room(index, resumed, name) {
            // [MQTT-3.1.2-6]
            Ok(()) => resumed.or_else(|| self.state.open_session(name)).ok_or(ConnectRefusal::too_many_sessions()),
            Err(refusal) => Err(refusal),
        };
        let session = opened.map_err(|refusal| self.refuse_with(index, connect, &refusal))?;
        Ok(OpenedSession { session, is_present: claimed.unwrap_or(resumed.is_some()) })
    }

    fn check_session_room(
        &mut self,
        index: ConnectionIndex,
        resumed: Option<SessionIndex>,
        name: &str,
    ) -> Result<(), ConnectRefusal> {
        if resumed.is_none()
            && self.state.context.sum(|counters| &counters.sessions) >= self.state.config.settings().sessions as u64
        {
            return Err(ConnectRefusal::too_many_sessions());
        }
        let more_bytes = if resumed.is_none() { SESSION_BYTES + name.len() } else { 0 };
        if self.state.memory.share().admits(self.state.connection_bytes(index), more_bytes).is_err() {
            self.state.counters().resources_refused_memory.add(1);
            return Err(ConnectRefusal(ConnectReason::QuotaExceeded, "there is no memory for a session".into()));
        }
        Ok(())
    }

    /// Checks what the decoder cannot. Returns the Client Identifier, which is assigned if the client's is empty.
    fn validate_connect<'a>(
        &self,
        index: ConnectionIndex,
        connect: &Connect<'a>,
    ) -> Result<Cow<'a, str>, ConnectRefusal> {
        let settings = self.state.config.settings();
        if connect.properties.contains(PropertyId::AuthenticationMethod) && !self.state.config.access().requires_auth()
        {
            return Err(ConnectRefusal(
                ConnectReason::BadAuthenticationMethod,
                "no authentication method is configured".into(),
            ));
        }
        if connect.client_id.len() > settings.client_id_bytes {
            return Err(ConnectRefusal(
                ConnectReason::ClientIdentifierNotValid,
                "the client identifier is too long".into(),
            ));
        }
        if let Some(will) = &connect.will {
            self.check_will(index, will)?;
        }
        self.client_id(index, connect)
    }

    /// The Client Identifier: from authentication, from CONNECT, or assigned.
    fn client_id<'a>(&self, index: ConnectionIndex, connect: &Connect<'a>) -> Result<Cow<'a, str>, ConnectRefusal> {
        let connection = &self.state.connections[index];
        let identity = identity_of(connection.auth_state());
        let requested = identity.and_then(|identity| identity.client_id.as_deref()).unwrap_or(connect.client_id);
        let is_internal = || connection.origin().is_some_and(|origin| origin.identity().is_some());
        if requested.starts_with(RESERVED_CLIENT_ID_PREFIX) && !is_internal() {
            return Err(ConnectRefusal(
                ConnectReason::ClientIdentifierNotValid,
                "client identifiers that begin with bridge/ are reserved".into(),
            ));
        }
        if let Some(client_id) = identity.and_then(|identity| identity.client_id.as_deref()) {
            if client_id.contains('\0') {
                // It does not come from the packet, and would name a session of another mount point.
                return Err(ConnectRefusal(
                    ConnectReason::ClientIdentifierNotValid,
                    "the client identifier from authentication is not valid".into(),
                ));
            }
            return Ok(Cow::Owned(client_id.into()));
        }
        if !connect.client_id.is_empty() {
            return Ok(Cow::Borrowed(connect.client_id));
        }
        // MQTT 3.1 requires an identifier; in 3.1.1 an empty one requires a clean session [MQTT-3.1.3-7]. A server may refuse an empty one
        // [MQTT-3.1.3-6].
        let is_allowed = self.state.connections[index].overrides().allow_empty_client_id;
        let may_be_empty = is_allowed.unwrap_or(self.state.config.settings().allow_empty_client_id)
            && match connect.version {
                ProtocolVersion::V3_1 => false,
                ProtocolVersion::V3_1_1 => connect.clean_start,
                ProtocolVersion::V5 => true,
            };
        if may_be_empty {
            let assigned = M::assigned_client_id(&self.state, index);
            Ok(Cow::Owned(assigned.unwrap_or_else(|| self.assign_client_id(index))))
        } else {
            Err(ConnectRefusal(ConnectReason::ClientIdentifierNotValid, "a client identifier is required".into()))
        }
    }

    /// Whether the client's listener accepts this version of the protocol.
    fn accepts_version(&self, index: ConnectionIndex, version: ProtocolVersion) -> bool {
        let overridden = self.state.connections[index].overrides().protocol_versions;
        overridden.unwrap_or(self.state.config.settings().protocol_versions).contains(version)
    }

    /// Assigns a Client Identifier that no session uses [MQTT-3.2.2-16], and that belongs to this shard.
    fn assign_client_id(&self, index: ConnectionIndex) -> String {
        let prefix = self.state.connections[index].overrides().assigned_client_id_prefix;
        let prefix = prefix.unwrap_or_else(|| self.state.config.settings().assigned_client_id_prefix.clone());
        loop {
            let id = format!("{prefix}{:016x}", random());
            let name = self.session_name(index, &id);
            if self.state.context.exchange().owner(&name) == self.state.context.shard()
                && self.state.sessions.find(&name).is_none()
            {
                return id;
            }
        }
    }

    /// The name of the session of a connection's client.
    fn session_name<'a>(&self, index: ConnectionIndex, client_id: &'a str) -> Cow<'a, str> {
        session_name(self.state.connections[index].mount_point().map(MountPoint::as_str), client_id)
    }

    /// Binds the connection to its session.
    fn bind_session(&mut self, index: ConnectionIndex, session: SessionIndex, connect: &Connect<'_>, resumed: bool) {
        let properties = &connect.properties;
        let keep_alive_s = self.keep_alive_s(index, connect);
        let now_ms = self.state.clock.now_ms();
        let receive_maximum = properties.receive_maximum().map_or(RECEIVE_MAXIMUM_DEFAULT, NonZeroU16::get);
        let in_flight = self.state.quota_state.quotas().in_flight;
        let in_flight = in_flight.min(M::in_flight_max(&self.state));
        let parameters = ConnectParameters {
            version: connect.version,
            problem_information: properties.request_problem_information().unwrap_or(true),
            resumed,
            keep_alive_s,
            send_maximum: receive_maximum.min(in_flight),
            alias_maximum: properties.topic_alias_maximum().unwrap_or(0).min(ALIASES_OUT_MAX),
            server_limits: self.state.config.current_limits(),
            maximum_packet_size_bytes: properties.maximum_packet_size(),
        };
        self.state.audit_connect(index, session);
        self.state.connections[index].bind_session(session, parameters, self.state.clock.now_ms());
        self.state.connections.share_origin(index);
        self.state.start_rate_limit(index, session);
        self.state.count_for_user(index, session);
        self.arm_identity_expiry(index);
        if keep_alive_s > 0 {
            self.state.arm_connection(index, now_ms + keep_alive_limit_ms(keep_alive_s));
        }

        let expiry_s = self.expiry_interval_s(index, connect);
        self.state.commit(session, Change::ExpiryInterval(expiry_s));
        M::set_will(self, index, session, connect);
        self.state.clear_stale(session);
        M::record_connected(&mut self.state, session);
        self.state.clear_stuck(session);
        let entry = self.state.sessions.entry(session);
        entry.bind(index);
        if let Some(outbound) = entry.outbound() {
            outbound.rewind();
            if is(Mutant::SkipsFirstResend) {
                outbound.resend();
            }
        }
        self.state.counters().sessions_connected.add(1);
        self.state.counters().connects.add(1);
    }

    /// The client's keep alive, or the server's maximum if that is shorter [MQTT-3.2.2-21]. An MQTT 3.1.1 client keeps its own.
    pub(super) fn keep_alive_s(&self, index: ConnectionIndex, connect: &Connect<'_>) -> u16 {
        let override_s = self.state.connections[index].overrides().max_keep_alive_s;
        let max_s = override_s.unwrap_or(self.state.config.settings().max_keep_alive_s);
        let too_long = max_s > 0 && (connect.keep_alive_s == 0 || connect.keep_alive_s > max_s);
        if too_long && connect.version == ProtocolVersion::V5 { max_s } else { connect.keep_alive_s }
    }

    pub(crate) fn expiry_interval_s(&self, index: ConnectionIndex, connect: &Connect<'_>) -> u32 {
        let requested_s = match connect.version {
            ProtocolVersion::V5 => connect.properties.session_expiry_interval().unwrap_or(0),
            _ if connect.clean_start => 0,
            _ => NEVER_S,
        };
        requested_s.min(self.max_session_expiry_s(index))
    }

    /// The longest session expiry interval for a connection's client.
    pub(crate) fn max_session_expiry_s(&self, index: ConnectionIndex) -> u32 {
        let override_s = self.state.connections[index].overrides().max_session_expiry_s;
        override_s.unwrap_or(self.state.config.settings().max_session_expiry_s)
    }

    /// Ends the client's existing connection [MQTT-3.1.4-3].
    fn take_over(&mut self, session: SessionIndex) {
        if let Some(old) = self.state.sessions.connection(session) {
            self.state.counters().sessions_taken_over.add(1);
            self.disconnect(
                old,
                DisconnectReason::SessionTakenOver,
                "the client identifier is in use by a new connection",
            );
        }
    }
}

/// One and a half times the keep alive [MQTT-3.1.2-22].
pub(crate) fn keep_alive_limit_ms(keep_alive_s: u16) -> u64 {
    u64::from(keep_alive_s) * 1500
}
