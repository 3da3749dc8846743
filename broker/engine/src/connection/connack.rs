//! CONNACK for an accepted CONNECT [MQTT 5.0 section 3.2].

use std::num::{NonZeroU16, NonZeroU32};

use tautwire_protocol::{
    ConnAck, Connect, ConnectReason, Packet, Properties, Property, ProtocolVersion, QoS, ReasonCode,
};

use crate::connection::connect::RECEIVE_MAXIMUM_DEFAULT;
use crate::connection::connections::AuthState;
use crate::index::ConnectionIndex;
use crate::mode::Mode;
use crate::session::drops::QueueLoss;
use crate::session::message_loss::{DROPPED_FROM, DROPPED_MESSAGES, DROPPED_UNTIL};
use crate::shard::Shard;
use crate::text::rfc3339;

/// The texts to which the properties of a CONNACK refer.
struct ConnackTexts {
    response_information: Option<String>,
    auth_method: Option<Box<str>>,
    auth_data: Option<Box<[u8]>>,
}

impl ConnackTexts {
    fn append_to<'a>(&'a self, properties: &mut Vec<Property<'a>>) {
        properties.extend(self.response_information.as_deref().map(Property::ResponseInformation));
        // [MQTT-4.12.0-5]
        properties.extend(self.auth_method.as_deref().map(Property::AuthenticationMethod));
        properties.extend(self.auth_data.as_deref().map(Property::AuthenticationData));
    }
}

impl<M: Mode> Shard<M> {
    pub(crate) fn send_connack(
        &mut self,
        index: ConnectionIndex,
        connect: &Connect<'_>,
        client_id: &str,
        session_present: bool,
    ) {
        let texts = self.take_connack_texts(index, connect, client_id);
        let mut properties = Vec::new();
        if connect.version == ProtocolVersion::V5 {
            self.append_server_limits(index, connect, &mut properties);
            texts.append_to(&mut properties);
            if connect.client_id.is_empty() {
                // [MQTT-3.1.3-7]
                properties.push(Property::AssignedClientIdentifier(client_id));
            }
        }
        // Session Present came with 3.1.1.
        let session_present = session_present && connect.version != ProtocolVersion::V3_1;
        if !self.write_connack(index, connect.version, session_present, &properties) {
            // A client that does not accept its CONNACK cannot be served, or notified [MQTT-3.14.0-1].
            self.log_disconnect(index, ReasonCode::PacketTooLarge, "CONNACK is larger than the client accepts");
            self.detach(index);
            self.close(index);
            return;
        }
        log::debug!("client {client_id:?} connected, {}", connect.version);
    }

    fn take_connack_texts(&mut self, index: ConnectionIndex, connect: &Connect<'_>, client_id: &str) -> ConnackTexts {
        let prefix = &self.state.config.settings().response_information;
        // [MQTT-3.1.2-28]
        let is_requested = connect.properties.request_response_information() == Some(true) && !prefix.is_empty();
        let response_information = is_requested.then(|| format!("{prefix}{client_id}"));
        let auth_state = self.state.connections[index].auth_state_mut();
        let auth_data = auth_state.and_then(AuthState::take_last_data);
        let auth_method = self.state.connections[index].auth_state().and_then(AuthState::method).map(Box::from);
        ConnackTexts { response_information, auth_method, auth_data }
    }

    /// Appends the limits that differ from what CONNECT asks for, or from the defaults of the standard.
    fn append_server_limits(&self, index: ConnectionIndex, connect: &Connect<'_>, properties: &mut Vec<Property<'_>>) {
        let settings = self.state.config.settings();
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
        properties.extend(NonZeroU32::new(packet_max_bytes).map(Property::MaximumPacketSize));
        let topic_alias_maximum = connection.topic_alias_maximum(settings.topic_alias_maximum);
        if topic_alias_maximum > 0 {
            properties.push(Property::TopicAliasMaximum(topic_alias_maximum));
        }
        let keep_alive_s = self.keep_alive_s(index, connect);
        if keep_alive_s != connect.keep_alive_s {
            properties.push(Property::ServerKeepAlive(keep_alive_s));
        }
    }

    /// Writes CONNACK, with the properties of lost messages if the client accepts a packet of that size. Returns false if it does not
    /// accept CONNACK without them either.
    fn write_connack(
        &mut self,
        index: ConnectionIndex,
        version: ProtocolVersion,
        session_present: bool,
        properties: &[Property<'_>],
    ) -> bool {
        let state = &mut self.state;
        let lost = state.connections[index].session().filter(|_| version == ProtocolVersion::V5);
        let lost =
            lost.and_then(|session| Some((session, loss_properties(state.sessions.drops(session)?.unreported()?))));
        let mut write = |properties: &[Property<'_>]| {
            let properties = Properties::from_list(properties);
            let connack = ConnAck { session_present, reason: ConnectReason::Success, properties };
            state.write_packet(index, &Packet::ConnAck(connack))
        };
        if let Some((session, loss)) = lost {
            let loss = loss.iter().map(|(name, value)| Property::UserProperty(name, value));
            let with_loss: Vec<_> = properties.iter().copied().chain(loss).collect();
            // [MQTT-3.2.2-20]
            if write(&with_loss) {
                state.sessions.clear_reported_loss(session);
                return true;
            }
        }
        write(properties)
    }
}

/// User properties for CONNACK: how many messages the client has lost because its queue was full, and when.
fn loss_properties(QueueLoss { count, first_ms, last_ms }: QueueLoss) -> [(&'static str, String); 3] {
    let [from, until] = [first_ms, last_ms].map(rfc3339);
    [(DROPPED_MESSAGES, count.to_string()), (DROPPED_FROM, from), (DROPPED_UNTIL, until)]
}
