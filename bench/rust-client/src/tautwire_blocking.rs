//! The client of this repository, on threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tautwire_client::blocking::Client;
use tautwire_client::{Publication, Subscribe};

use crate::sample::{CREDIT, Kind, Sample, Scenario, TOPIC, Watch, check, payload};
use crate::tautwire::{options, qos};

pub fn run(scenario: &Scenario, port: u16) -> Sample {
    let qos = qos(scenario);
    let client = Client::connect(options(scenario, port)).expect("connects");
    let mut stream = client.subscribe(Subscribe::to(TOPIC).qos(qos)).expect("granted");
    let messages = scenario.messages;
    if scenario.kind == Kind::RoundTrip {
        let mut times = Vec::with_capacity(messages as usize);
        let watch = Watch::start();
        for number in 0..messages {
            let begun = Instant::now();
            client.publish(Publication::new(TOPIC, &payload(number)).qos(qos)).expect("taken");
            check(stream.next().expect("arrives").payload(), number);
            times.push(begun.elapsed());
        }
        return watch.stop(messages, times);
    }
    let publisher = Client::connect(options(scenario, port)).expect("connects");
    let delivered = Arc::new(AtomicU64::new(0));
    let watch = Watch::start();
    let seen = delivered.clone();
    let publishing = std::thread::spawn(move || {
        for number in 0..messages {
            while number.saturating_sub(seen.load(Ordering::Relaxed)) >= CREDIT {
                std::thread::park();
            }
            publisher.publish(Publication::new(TOPIC, &payload(number)).qos(qos)).expect("taken");
        }
        publisher.disconnect().expect("ends cleanly");
    });
    for number in 0..messages {
        check(stream.next().expect("arrives").payload(), number);
        if (delivered.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(CREDIT / 8) {
            publishing.thread().unpark();
        }
    }
    publishing.join().expect("no panic");
    watch.stop(messages, Vec::new())
}
