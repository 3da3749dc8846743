//! The Kafka sink.

use std::collections::HashSet;

use rdkafka::Message as _;
use rdkafka::message::OwnedMessage;

use crate::support::broker::{Broker, publish, publish_readings};
use crate::support::connector::Connector;
use crate::support::faults::{Progress, Random};
use crate::support::kafka::{Kafka, TOPIC, header};
use crate::support::{Folder, number, run, wait_for};

const NEEDED: &[&str] = &["TAUTWIRE", "TAUTWIRE_KAFKA"];

struct World {
    kafka: Kafka,
    broker: Broker,
    connector: Connector,
    /// Removed after the processes have ended.
    _folder: Folder,
}

async fn world(keys: &str) -> World {
    let folder = Folder::new();
    let kafka = Kafka::start(folder.path()).await;
    let broker = Broker::start(folder.path()).await;
    let sink = format!(
        "type = 'kafka'\nurl = '{}'\ntopics = ['sensors/+/reading']\ncontract = 'reading'\ntopic = '{TOPIC}'\nbatch_messages = 500\n\
         receive_maximum = 1000\n{keys}",
        kafka.servers()
    );
    let connector = Connector::new(folder.path(), &broker.url(), &sink);
    World { _folder: folder, kafka, broker, connector }
}

#[test]
fn records_have_a_key_and_the_topic_as_a_header() {
    run(NEEDED, async {
        let mut world = world("key_field = 'number'\n").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        let payload = r#"{"deviceId":"a","number":"7"}"#;
        publish(&client, "sensors/a/reading", payload).await;
        wait_for("the record", async || {
            tokio::task::block_in_place(|| world.kafka.read());
            (world.kafka.messages.len() == 1).then_some(())
        })
        .await;
        let message = &world.kafka.messages[0];
        assert_eq!((message.key(), message.payload()), (Some(&b"7"[..]), Some(payload.as_bytes())));
        assert_eq!(header(message, "tautwire-topic"), Some(&b"sensors/a/reading"[..]));
    });
}

#[test]
fn a_record_that_kafka_refuses_becomes_a_dead_letter_and_blocks_nothing() {
    run(NEEDED, async {
        let mut world = world("batch_delay_ms = 500\n").await;
        let client = world.broker.client("publisher");
        let mut letters = client.subscribe("dead-letter/#").await.unwrap();
        world.connector.start().await;
        // The topic accepts 200,000 bytes, the producer 1,000,000.
        let large = format!(r#"{{"deviceId":"a","filling":"{}"}}"#, "x".repeat(300_000));
        for payload in [r#"{"deviceId":"a"}"#, &large, r#"{"deviceId":"a"}"#] {
            publish(&client, "sensors/a/reading", payload).await;
        }
        assert_eq!(letters.next().await.unwrap().payload(), large.as_bytes());
        wait_for("the others", async || {
            tokio::task::block_in_place(|| world.kafka.read());
            (world.kafka.messages.len() == 2).then_some(())
        })
        .await;
    });
}

/// The promise: a consumer of committed records gets each message once, whatever is killed.
#[test]
fn the_topic_has_each_message_once_while_connector_broker_and_kafka_are_killed() {
    run(NEEDED, async {
        let count = number("CONNECT_MESSAGES", 60_000);
        let mut random = Random::new();
        let mut world = world("").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        let publisher = tokio::spawn(async move { publish_readings(&client, count).await });
        let (mut kills, mut progress) = ([0; 3], Progress::new());
        while !progress.has_all(numbers(&mut world.kafka).len() as u64, count) {
            tokio::time::sleep(random.pause()).await;
            // Kafka takes seconds to start, so it is killed less often.
            let fault = [0, 0, 0, 1, 1, 2][random.below(6) as usize];
            kills[fault] += 1;
            match fault {
                0 => world.connector.restart(),
                1 => world.broker.restart().await,
                _ => world.kafka.restart().await,
            }
        }
        publisher.await.unwrap();
        world.connector.kill();
        world.connector.run_once();
        println!("killed the connector {} times, the broker {} times, Kafka {} times", kills[0], kills[1], kills[2]);
        assert_eq!(numbers(&mut world.kafka).len() as u64, count);
        assert_eq!(world.kafka.messages.len() as u64, count);
    });
}

fn numbers(kafka: &mut Kafka) -> HashSet<String> {
    tokio::task::block_in_place(|| kafka.read());
    let number = |message: &OwnedMessage| {
        let value: serde_json::Value = serde_json::from_slice(message.payload().unwrap()).unwrap();
        value["number"].as_str().unwrap().to_owned()
    };
    kafka.messages.iter().map(number).collect()
}
