//! CONNECT and CONNACK [MQTT 5.0 sections 3.1 and 3.2].

use std::borrow::Cow;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;

use tautwire_memory::MemoryLedger;
use tautwire_message::{MessageId, MessageRef};
use tautwire_protocol::{
    ConnAck, Connect, ConnectReason, DisconnectReason, Packet, PayloadFormat, Properties, Property, PropertyContext,
    PropertyId, ProtocolVersion, QoS, ReasonCode, TopicName, Will,
};
use tautwire_router::random;
use tautwire_session::{Change, SESSION_BYTES, StoredWill, session_name};

use crate::connection::authentication::identity_of;
use crate::connection::connect_refusal::RefusedClient;
use crate::connection::connections::Action;
use crate::connection::connections::{AuthState, ConnectParameters};
use crate::connection::flapping_block::FLAPPING_BLOCKED;
use crate::connection::mount::MountPoint;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::mode::Mode;
use crate::mutant::{Mutant, is};
use crate::routing::retained_publisher::is_publisher;
use crate::session::drops::QueueLoss;
use crate::session::message_loss::{DROPPED_FROM, DROPPED_MESSAGES, DROPPED_UNTIL};
use crate::shard::{Handled, Shard};
use crate::text::rfc3339;

/// The default of Receive Maximum [MQTT 5.0 section 3.1.2.11.3].
const RECEIVE_MAXIMUM_DEFAULT: u16 = 65_535;
/// The most topic aliases that the broker sets for a client.
const ALIASES_OUT_MAX: u16 = 64;
/// The Session Expiry Interval of a session that does not expire.
const NEVER_S: u32 = u32::MAX;

/// The reason code and reason string with which a CONNECT is refused.
struct ConnectRefusal(ConnectReason, Cow<'static, str>);

impl ConnectRefusal {
    fn too_many_sessions() -> ConnectRefusal {
        ConnectRefusal(ConnectReason::QuotaExceeded, "the limit on sessions is reached".into())
    }
}

/// The session of an accepted CONNECT.
struct OpenedSession {
    session: SessionIndex,
    /// Session Present in CONNACK [MQTT-3.2.2-2].
    is_present: bool,
}

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
            if will.qos > self.state.connections[index].max_qos(settings.max_qos) {
                // [MQTT-3.2.2-12]
                return Err(ConnectRefusal(
                    ConnectReason::QoSNotSupported,
                    "the will's QoS is above the maximum".into(),
                ));
            }
            if will.retain && !settings.retain_available {
                // [MQTT-3.2.2-13]
                return Err(ConnectRefusal(
                    ConnectReason::RetainNotSupported,
                    "retained messages are not available".into(),
                ));
            }
            if let Err(reason) = self.check_topic(will.topic.as_str()) {
                let reason = ConnectReason::try_from(reason).unwrap_or(ConnectReason::TopicNameInvalid);
                return Err(ConnectRefusal(reason, "the will's topic is not allowed".into()));
            }
            if !self.is_payload_allowed(will.payload.len()) {
                self.state.counters().payloads_too_large.add(1);
                return Err(ConnectRefusal(
                    ConnectReason::PacketTooLarge,
                    "the will's payload is larger than limits.payload_bytes".into(),
                ));
            }
            let is_text = will.properties.payload_format_indicator() == Some(PayloadFormat::Utf8);
            if is_text && std::str::from_utf8(will.payload).is_err() {
                return Err(ConnectRefusal(
                    ConnectReason::PayloadFormatInvalid,
                    "the will's payload is not UTF-8".into(),
                ));
            }
            if self.state.memory.share().admits(0, will_bytes(will)).is_err() {
                self.state.counters().resources_refused_memory.add(1);
                return Err(ConnectRefusal(ConnectReason::QuotaExceeded, "there is no memory for the will".into()));
            }
            if !M::has_room_for_will(&self.state, will) {
                self.state.counters().wills_too_large.add(1);
                let why = "the will is larger than the cluster can store";
                return Err(ConnectRefusal(ConnectReason::QuotaExceeded, why.into()));
            }
            if let Some(why) = self.will_contract_violation(will) {
                return Err(ConnectRefusal(ConnectReason::PayloadFormatInvalid, why.into()));
            }
        }
        let identity = identity_of(self.state.connections[index].auth_state());
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
        let may_be_empty = is_allowed.unwrap_or(settings.allow_empty_client_id)
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

    /// Whether the access rules allow the client's will.
    fn is_will_allowed(&self, index: ConnectionIndex, client_id: &str, will: &Will<'_>) -> bool {
        let permissions = self.state.permissions_of(index, client_id);
        let allowed = permissions
            .is_none_or(|permissions| permissions.may_publish(will.topic.as_str(), will.qos, will.retain).is_allowed());
        if !allowed {
            self.state.counters().wills_not_authorized.add(1);
            self.state.audit_denied_client(index, client_id, "will", will.topic.as_str());
        }
        allowed
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

    pub(crate) fn set_will(&mut self, index: ConnectionIndex, session: SessionIndex, connect: &Connect<'_>) {
        let will = connect.will.as_ref().map(|will| {
            let mut properties = Vec::new();
            if will.retain && !will.payload.is_empty() {
                self.state.append_publisher(index, self.state.sessions[session].client_id(), &mut properties);
            }
            Box::new(will_of(will, properties, self.state.memory.ledger()))
        });
        if will.is_some() || self.state.sessions[session].will().is_some() {
            // [MQTT-3.1.2-7]
            self.state.commit(session, Change::Will(will));
        }
    }

    fn send_connack(&mut self, index: ConnectionIndex, connect: &Connect<'_>, client_id: &str, session_present: bool) {
        let settings = self.state.config.settings().clone();
        let mut properties = Vec::new();
        let auth_state = self.state.connections[index].auth_state_mut();
        let last_data = auth_state.and_then(AuthState::take_last_data);
        let method: Option<Box<str>> =
            self.state.connections[index].auth_state().and_then(AuthState::method).map(Box::from);
        // [MQTT-3.1.2-28]
        let response_information = (connect.properties.request_response_information() == Some(true)
            && !settings.response_information.is_empty())
        .then(|| format!("{}{client_id}", settings.response_information));
        if connect.version == ProtocolVersion::V5 {
            let expiry_s = self.expiry_interval_s(index, connect);
            if expiry_s != connect.properties.session_expiry_interval().unwrap_or(0) {
                properties.push(Property::SessionExpiryInterval(expiry_s));
            }
            let connection = &self.state.connections[index];
            if let Some(maximum) = NonZeroU16::new(connection.receive_maximum(settings.receive_maximum))
                && maximum.get() != RECEIVE_MAXIMUM_DEFAULT
            {
                properties.push(Property::ReceiveMaximum(maximum));
            }
            let max_qos = connection.max_qos(settings.max_qos);
            if max_qos != QoS::ExactlyOnce {
                // [MQTT-3.2.2-9]
                properties.push(Property::MaximumQoS(max_qos));
            }
            let capabilities = [
                (settings.retain_available, Property::RetainAvailable(false)),
                (settings.wildcard_subscription_available, Property::WildcardSubscriptionAvailable(false)),
                (settings.subscription_identifier_available, Property::SubscriptionIdentifierAvailable(false)),
                (settings.shared_subscription_available, Property::SharedSubscriptionAvailable(false)),
            ];
            properties.extend(capabilities.into_iter().filter(|(available, _)| !available).map(|(_, absent)| absent));
            let packet_max_bytes = connection.packet_max_bytes(settings.maximum_packet_size_bytes);
            if let Some(maximum) = NonZeroU32::new(packet_max_bytes) {
                properties.push(Property::MaximumPacketSize(maximum));
            }
            let topic_alias_maximum = connection.topic_alias_maximum(settings.topic_alias_maximum);
            if topic_alias_maximum > 0 {
                properties.push(Property::TopicAliasMaximum(topic_alias_maximum));
            }
            let keep_alive_s = self.keep_alive_s(index, connect);
            if keep_alive_s != connect.keep_alive_s {
                properties.push(Property::ServerKeepAlive(keep_alive_s));
            }
            properties.extend(response_information.as_deref().map(Property::ResponseInformation));
            // [MQTT-4.12.0-5]
            properties.extend(method.as_deref().map(Property::AuthenticationMethod));
            properties.extend(last_data.as_deref().map(Property::AuthenticationData));
            if connect.client_id.is_empty() {
                // [MQTT-3.1.3-7]
                properties.push(Property::AssignedClientIdentifier(client_id));
            }
        }
        // Session Present came with 3.1.1.
        let session_present = session_present && connect.version != ProtocolVersion::V3_1;
        let loss = self.loss_properties(index, connect.version);
        let required = properties.len();
        properties.extend(loss.iter().flatten().map(|(name, value)| Property::UserProperty(name, value)));
        let reason = ConnectReason::Success;
        let connack = ConnAck { session_present, reason, properties: Properties::from_list(&properties) };
        let connack_without_loss =
            ConnAck { session_present, reason, properties: Properties::from_list(&properties[..required]) };
        if self.state.write_packet(index, &Packet::ConnAck(connack)) {
            if loss.is_some()
                && let Some(session) = self.state.connections[index].session()
            {
                self.state.sessions.clear_reported_loss(session);
            }
        } else if loss.is_none() || !self.state.write_packet(index, &Packet::ConnAck(connack_without_loss)) {
            // A client that does not accept its CONNACK cannot be served, or notified [MQTT-3.14.0-1].
            self.log_disconnect(index, ReasonCode::PacketTooLarge, "CONNACK is larger than the client accepts");
            self.detach(index);
            self.close(index);
            return;
        }
        log::debug!("client {client_id:?} connected, {}", connect.version);
    }

    /// User properties for CONNACK: how many messages the client has lost because its queue was full, and when. They are omitted if the
    /// packet would be too large for the client [MQTT-3.2.2-20].
    fn loss_properties(&self, index: ConnectionIndex, version: ProtocolVersion) -> Option<[(&'static str, String); 3]> {
        let session = self.state.connections[index].session().filter(|_| version == ProtocolVersion::V5)?;
        let QueueLoss { count, first_ms, last_ms } = self.state.sessions.drops(session)?.unreported()?;
        let [from, until] = [first_ms, last_ms].map(rfc3339);
        Some([(DROPPED_MESSAGES, count.to_string()), (DROPPED_FROM, from), (DROPPED_UNTIL, until)])
    }

    /// The client's keep alive, or the server's maximum if that is shorter [MQTT-3.2.2-21]. An MQTT 3.1.1 client keeps its own.
    fn keep_alive_s(&self, index: ConnectionIndex, connect: &Connect<'_>) -> u16 {
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

/// The approximate memory of a stored will.
pub(crate) fn will_bytes(will: &Will<'_>) -> usize {
    let properties_bytes: usize =
        will.properties.raw().into_iter().flatten().map(|property| property.bytes.len()).sum();
    size_of::<StoredWill>() + will.topic.as_str().len() + will.payload.len() + properties_bytes
}

/// `forwarded_properties`: properties to put before those of the client.
fn will_of(will: &Will<'_>, mut forwarded_properties: Vec<u8>, ledger: &Arc<MemoryLedger>) -> StoredWill {
    for property in will.properties.raw().into_iter().flatten() {
        let is_stored = matches!(property.id, PropertyId::WillDelayInterval | PropertyId::MessageExpiryInterval)
            || (will.retain && is_publisher(&property));
        if !is_stored {
            forwarded_properties.extend_from_slice(property.bytes);
        }
    }
    let message = MessageRef {
        // It gets an identifier when it is published.
        id: MessageId::NONE,
        topic: will.topic.as_str(),
        properties: &forwarded_properties,
        payload: will.payload,
        qos: will.qos,
        retain: will.retain,
        expires_at_ms: None,
    };
    StoredWill {
        message: message.to_message_in(ledger),
        delay_s: will.properties.will_delay_interval().unwrap_or(0),
        message_expiry_s: will.properties.message_expiry_interval(),
    }
}

/// One and a half times the keep alive [MQTT-3.1.2-22].
pub(crate) fn keep_alive_limit_ms(keep_alive_s: u16) -> u64 {
    u64::from(keep_alive_s) * 1500
}
