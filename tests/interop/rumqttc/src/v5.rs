//! rumqttc's MQTT 5.0 client.

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    Filter, LastWill, Packet, PubAckReason, PubCompReason, PublishProperties, SubscribeReasonCode, UnsubAckReason,
};
use rumqttc::v5::{AsyncClient, ConnectionError, MqttOptions, StateError};

use crate::connection::{Event, EventLoop, MAXIMUM_PACKET_SIZE_BYTES, Message, Options, Original, WILL_PAYLOAD};
use crate::harness::{Failure, Outcome, Run};
use crate::secure::tls;

const REQUESTS: usize = 100;
const SESSION_EXPIRY_S: u32 = 300;

pub fn open(run: &Run, options: Options) -> (AsyncClient, rumqttc::v5::EventLoop) {
    let mut configuration = MqttOptions::new(options.client_id, &run.host, run.port);
    let mut properties = options.properties.unwrap_or_default();
    properties.max_packet_size = Some(MAXIMUM_PACKET_SIZE_BYTES);
    if options.persistent {
        configuration.set_clean_start(false);
        properties.session_expiry_interval.get_or_insert(SESSION_EXPIRY_S);
    }
    if let Some(transport) = tls() {
        configuration.set_transport(transport);
    }
    configuration.set_connect_properties(properties).set_manual_acks(options.manual_acks);
    if let Some(will) = options.will {
        let last = LastWill::new(will.topic, WILL_PAYLOAD, level(will.qos), will.retain, will.properties);
        configuration.set_last_will(last);
    }
    AsyncClient::new(configuration, REQUESTS)
}

pub async fn subscribe(client: &AsyncClient, qos: u8, filters: &[&str]) -> Outcome {
    let filters = filters.iter().map(|filter| Filter::new(*filter, level(qos)));
    client.subscribe_many(filters).await.map_err(|error| Failure(format!("SUBSCRIBE: {error}")))
}

pub async fn publish(
    client: &AsyncClient,
    topic: &str,
    payload: Vec<u8>,
    qos: u8,
    retain: bool,
    properties: PublishProperties,
) -> Outcome {
    client
        .publish_with_properties(topic, level(qos), retain, payload, properties)
        .await
        .map_err(|error| Failure(format!("PUBLISH: {error}")))
}

pub fn level(qos: u8) -> QoS {
    match qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}

impl EventLoop for rumqttc::v5::EventLoop {
    async fn next(&mut self) -> Option<Event> {
        let packet = match self.poll().await {
            Ok(rumqttc::v5::Event::Incoming(packet)) => packet,
            Ok(rumqttc::v5::Event::Outgoing(_)) => return None,
            Err(error) => return Some(Event::Closed { reason: reason(&error), error: error.to_string() }),
        };
        Some(match packet {
            Packet::ConnAck(ack) => {
                Event::Connected { session_present: ack.session_present, properties: ack.properties.map(Box::new) }
            }
            Packet::Publish(publish) => Event::Received(Box::new(Message {
                topic: String::from_utf8_lossy(&publish.topic).into_owned(),
                payload: publish.payload.to_vec(),
                qos: publish.qos as u8,
                retain: publish.retain,
                dup: publish.dup,
                packet_id: publish.pkid,
                properties: publish.properties.clone().unwrap_or_default(),
                original: Original::V5(publish),
            })),
            Packet::SubAck(ack) => Event::SubAck(ack.return_codes.iter().map(subscribe_code).collect()),
            Packet::UnsubAck(ack) => Event::UnsubAck(ack.reasons.iter().map(unsubscribe_code).collect()),
            Packet::PubAck(ack) => Event::Published(match ack.reason {
                PubAckReason::Success => 0x00,
                PubAckReason::NoMatchingSubscribers => 0x10,
                _ => 0x80,
            }),
            Packet::PubComp(ack) => Event::Published(match ack.reason {
                PubCompReason::Success => 0x00,
                PubCompReason::PacketIdentifierNotFound => 0x92,
            }),
            _ => return None,
        })
    }

    fn cut(&mut self) {
        self.clean();
    }
}

fn reason(error: &ConnectionError) -> Option<u8> {
    match error {
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, .. }) => Some(*reason_code as u8),
        _ => None,
    }
}

fn subscribe_code(code: &SubscribeReasonCode) -> u8 {
    match code {
        SubscribeReasonCode::Success(qos) => *qos as u8,
        _ => 0x80,
    }
}

fn unsubscribe_code(code: &UnsubAckReason) -> u8 {
    match code {
        UnsubAckReason::Success => 0x00,
        UnsubAckReason::NoSubscriptionExisted => 0x11,
        _ => 0x80,
    }
}
