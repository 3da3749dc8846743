//! rumqttc's MQTT 3.1.1 client.

use rumqttc::{AsyncClient, LastWill, MqttOptions, Packet, PubAck, QoS, SubscribeFilter, SubscribeReasonCode};

use crate::connection::{Event, EventLoop, MAXIMUM_PACKET_SIZE_BYTES, Message, Options, Original, WILL_PAYLOAD};
use crate::harness::{Failure, Outcome, Run};
use crate::secure::tls;

const REQUESTS: usize = 100;

pub fn open(run: &Run, options: Options) -> (AsyncClient, rumqttc::EventLoop) {
    let mut configuration = MqttOptions::new(options.client_id, &run.host, run.port);
    let limit = MAXIMUM_PACKET_SIZE_BYTES as usize;
    configuration.set_max_packet_size(limit, limit).set_manual_acks(options.manual_acks);
    if let Some(transport) = tls() {
        configuration.set_transport(transport);
    }
    if options.persistent {
        configuration.set_clean_session(false);
    }
    if let Some(will) = options.will {
        configuration.set_last_will(LastWill::new(will.topic, WILL_PAYLOAD, level(will.qos), will.retain));
    }
    AsyncClient::new(configuration, REQUESTS)
}

pub async fn subscribe(client: &AsyncClient, qos: u8, filters: &[&str]) -> Outcome {
    let filters = filters.iter().map(|filter| SubscribeFilter::new((*filter).to_owned(), level(qos)));
    client.subscribe_many(filters).await.map_err(|error| Failure(format!("SUBSCRIBE: {error}")))
}

pub async fn publish(client: &AsyncClient, topic: &str, payload: Vec<u8>, qos: u8, retain: bool) -> Outcome {
    client.publish(topic, level(qos), retain, payload).await.map_err(|error| Failure(format!("PUBLISH: {error}")))
}

impl EventLoop for rumqttc::EventLoop {
    async fn next(&mut self) -> Option<Event> {
        let packet = match self.poll().await {
            Ok(rumqttc::Event::Incoming(packet)) => packet,
            Ok(rumqttc::Event::Outgoing(_)) => return None,
            Err(error) => return Some(Event::Closed { reason: None, error: error.to_string() }),
        };
        Some(match packet {
            Packet::ConnAck(ack) => Event::Connected { session_present: ack.session_present, properties: None },
            Packet::Publish(publish) => Event::Received(Box::new(Message {
                topic: publish.topic.clone(),
                payload: publish.payload.to_vec(),
                qos: publish.qos as u8,
                retain: publish.retain,
                dup: publish.dup,
                packet_id: publish.pkid,
                properties: Default::default(),
                original: Original::V3(publish),
            })),
            Packet::SubAck(ack) => Event::SubAck(ack.return_codes.iter().map(code).collect()),
            Packet::UnsubAck(_) => Event::UnsubAck(Vec::new()),
            Packet::PubAck(PubAck { .. }) | Packet::PubComp(_) => Event::Published(0),
            _ => return None,
        })
    }

    fn cut(&mut self) {
        self.clean();
    }
}

fn code(code: &SubscribeReasonCode) -> u8 {
    match code {
        SubscribeReasonCode::Success(qos) => *qos as u8,
        SubscribeReasonCode::Failure => 0x80,
    }
}

fn level(qos: u8) -> QoS {
    match qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    }
}
