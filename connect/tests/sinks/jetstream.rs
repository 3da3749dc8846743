//! The NATS JetStream sink.

use std::collections::HashSet;

use crate::support::broker::{Broker, publish, publish_readings};
use crate::support::connector::Connector;
use crate::support::faults::{Progress, Random};
use crate::support::nats::Nats;
use crate::support::{Folder, number, run, wait_for};

const NEEDED: &[&str] = &["TAUTWIRE", "TAUTWIRE_NATS_SERVER"];

struct World {
    nats: Nats,
    broker: Broker,
    connector: Connector,
    /// Removed after the processes have ended.
    _folder: Folder,
}

async fn world() -> World {
    let folder = Folder::new();
    let nats = Nats::start(folder.path()).await;
    let broker = Broker::start(folder.path()).await;
    let sink = format!(
        "type = 'nats'\nurl = '{}'\ntopics = ['sensors/+/reading']\ncontract = 'reading'\nsubject = 'mqtt.{{topic}}'\nbatch_messages = 500\n\
         receive_maximum = 1000\n",
        nats.url()
    );
    let connector = Connector::new(folder.path(), &broker.url(), &sink);
    World { _folder: folder, nats, broker, connector }
}

#[test]
fn messages_have_the_subject_of_their_topic_and_an_identifier() {
    run(NEEDED, async {
        let mut world = world().await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        let payload = r#"{"deviceId":"a.b"}"#;
        for _ in 0..2 {
            publish(&client, "sensors/a.b/reading", payload).await;
        }
        wait_for("both messages", async || (world.nats.count().await == 2).then_some(())).await;
        let messages = world.nats.messages().await;
        let header = |at: usize, name: &str| messages[at].headers.as_ref().unwrap().get(name).unwrap().to_string();
        assert_eq!(messages[0].subject.as_str(), "mqtt.sensors.a_b.reading");
        assert_eq!(messages[0].payload, payload);
        assert_eq!(header(0, "tautwire-topic"), "sensors/a.b/reading");
        // Two messages with the same content are two messages.
        assert_ne!(header(0, "Nats-Msg-Id"), header(1, "Nats-Msg-Id"));
    });
}

/// The promise: within the window of duplicates, the stream has each message once, whatever is killed.
#[test]
fn the_stream_has_each_message_once_while_connector_broker_and_nats_are_killed() {
    run(NEEDED, async {
        let count = number("CONNECT_MESSAGES", 100_000);
        let mut random = Random::new();
        let mut world = world().await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        let publisher = tokio::spawn(async move { publish_readings(&client, count).await });
        let (mut kills, mut progress) = ([0; 3], Progress::new());
        while !progress.has_all(world.nats.count().await, count) {
            tokio::time::sleep(random.pause()).await;
            let fault = random.below(3) as usize;
            kills[fault] += 1;
            match fault {
                0 => world.connector.restart(),
                1 => world.broker.restart().await,
                _ => world.nats.restart().await,
            }
        }
        publisher.await.unwrap();
        world.connector.kill();
        world.connector.run_once();
        println!("killed the connector {} times, the broker {} times, NATS {} times", kills[0], kills[1], kills[2]);
        let messages = world.nats.messages().await;
        let numbers: HashSet<String> = messages
            .iter()
            .map(|message| {
                let value: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
                value["number"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!((messages.len() as u64, numbers.len() as u64), (count, count));
    });
}
