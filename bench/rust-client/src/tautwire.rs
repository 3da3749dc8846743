//! The client of this repository, on tokio.

use std::sync::Arc;
use std::time::Instant;

use tautwire_client::{Client, Limits, Options, ProtocolVersion, Publication, QoS, Subscribe};

use crate::sample::{Credit, IN_FLIGHT, Kind, Sample, Scenario, TOPIC, Watch, check, payload};

pub fn options(scenario: &Scenario, port: u16) -> Options {
    let version = if scenario.v5 { ProtocolVersion::V5 } else { ProtocolVersion::V3_1_1 };
    let mut limits = Limits::default();
    limits.in_flight = IN_FLIGHT;
    let options = Options::new(&format!("mqtt://127.0.0.1:{port}")).expect("an address");
    options.version(version).limits(limits)
}

pub fn qos(scenario: &Scenario) -> QoS {
    QoS::from_u8(scenario.qos).expect("0 to 2")
}

pub async fn run(scenario: &'static Scenario, port: u16) -> Option<Sample> {
    let qos = qos(scenario);
    let client = Client::connect(options(scenario, port)).await.expect("connects");
    let mut stream = client.subscribe(Subscribe::to(TOPIC).qos(qos)).await.expect("granted");
    let messages = scenario.messages;
    if scenario.kind == Kind::RoundTrip {
        let mut times = Vec::with_capacity(messages as usize);
        let watch = Watch::start();
        for number in 0..messages {
            let begun = Instant::now();
            client.publish(Publication::new(TOPIC, &payload(number)).qos(qos)).await.expect("taken");
            check(stream.next().await?.payload(), number);
            times.push(begun.elapsed());
        }
        return Some(watch.stop(messages, times));
    }
    let publisher = Client::connect(options(scenario, port)).await.expect("connects");
    let credit = Arc::new(Credit::default());
    let watch = Watch::start();
    let credit_of_publisher = credit.clone();
    let publishing = tokio::spawn(async move {
        for number in 0..messages {
            credit_of_publisher.wait(number).await;
            publisher.publish(Publication::new(TOPIC, &payload(number)).qos(qos)).await.expect("taken");
        }
        // At QoS 1, wait until everything is acknowledged.
        publisher.disconnect().await.expect("ends cleanly");
    });
    for number in 0..messages {
        check(stream.next().await?.payload(), number);
        credit.delivered();
    }
    publishing.await.ok()?;
    Some(watch.stop(messages, Vec::new()))
}
