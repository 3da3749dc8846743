//! rumqttc's client for MQTT 5.0.

use std::sync::Arc;
use std::time::Instant;

use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};

use crate::sample::{CREDIT, Credit, IN_FLIGHT, Kind, Sample, Scenario, TOPIC, Watch, check, payload};

fn client(name: &str, port: u16) -> (AsyncClient, EventLoop) {
    let mut options = MqttOptions::new(name, "127.0.0.1", port);
    options.set_outgoing_inflight_upper_limit(IN_FLIGHT);
    let (client, mut event_loop) = AsyncClient::new(options, CREDIT as usize);
    event_loop.options.set_network_options({
        let mut network = rumqttc::NetworkOptions::new();
        network.set_tcp_nodelay(true);
        network
    });
    (client, event_loop)
}

pub async fn run(scenario: &'static Scenario, port: u16) -> Option<Sample> {
    let qos = if scenario.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce };
    let (subscriber, mut events) = client("subscriber", port);
    subscriber.subscribe(TOPIC, qos).await.ok()?;
    while !matches!(events.poll().await.ok()?, Event::Incoming(Packet::SubAck(_))) {}
    let messages = scenario.messages;
    if scenario.kind == Kind::RoundTrip {
        let mut times = Vec::with_capacity(messages as usize);
        let watch = Watch::start();
        for number in 0..messages {
            let begun = Instant::now();
            subscriber.try_publish(TOPIC, qos, false, payload(number).to_vec()).ok()?;
            loop {
                if let Event::Incoming(Packet::Publish(publish)) = events.poll().await.ok()? {
                    check(&publish.payload, number);
                    break;
                }
            }
            times.push(begun.elapsed());
        }
        return Some(watch.stop(messages, times));
    }
    let (publisher, mut publisher_events) = client("publisher", port);
    while !matches!(publisher_events.poll().await.ok()?, Event::Incoming(Packet::ConnAck(_))) {}
    let credit = Arc::new(Credit::default());
    let watch = Watch::start();
    let credit_of_publisher = credit.clone();
    let publisher = tokio::spawn(async move {
        for number in 0..messages {
            credit_of_publisher.wait(number).await;
            publisher.publish(TOPIC, qos, false, payload(number).to_vec()).await.expect("taken");
        }
        // The event loop ends when its last sender is dropped, so keep it until everything is acknowledged.
        publisher
    });
    let publishing = tokio::spawn(async move {
        let (mut sent, mut acknowledged) = (0, 0);
        while if qos == QoS::AtMostOnce { sent < messages } else { acknowledged < messages } {
            match publisher_events.poll().await {
                Ok(Event::Outgoing(Outgoing::Publish(_))) => sent += 1,
                Ok(Event::Incoming(Packet::PubAck(_))) => acknowledged += 1,
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut number = 0;
    while number < messages {
        if let Event::Incoming(Packet::Publish(publish)) = events.poll().await.ok()? {
            check(&publish.payload, number);
            number += 1;
            credit.delivered();
        }
    }
    publishing.await.ok()?;
    publisher.await.ok()?;
    Some(watch.stop(messages, Vec::new()))
}
