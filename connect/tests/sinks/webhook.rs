//! The webhook sink.

use std::collections::HashSet;

use crate::support::broker::{Broker, publish, publish_readings};
use crate::support::connector::Connector;
use crate::support::endpoint::{Endpoint, SECRET_VARIABLE};
use crate::support::faults::{Progress, Random};
use crate::support::{Folder, number, run, wait_for};

const NEEDED: &[&str] = &["TAUTWIRE"];

struct World {
    endpoint: Endpoint,
    broker: Broker,
    connector: Connector,
    /// Removed after the processes have ended.
    _folder: Folder,
}

async fn world(keys: &str) -> World {
    let folder = Folder::new();
    let endpoint = Endpoint::start(folder.path()).await;
    let broker = Broker::start(folder.path()).await;
    let sink = format!(
        "type = 'webhook'\nurl = '{}'\nsecret_env = '{SECRET_VARIABLE}'\ntopics = ['sensors/+/reading']\nreceive_maximum = 1000\n{keys}",
        endpoint.url()
    );
    let connector = Connector::new(folder.path(), &broker.url(), &sink);
    World { _folder: folder, endpoint, broker, connector }
}

#[test]
fn batches_are_signed_and_a_refused_message_becomes_a_dead_letter() {
    run(NEEDED, async {
        let mut world = world("batch_delay_ms = 500\n").await;
        let client = world.broker.client("publisher");
        let mut letters = client.subscribe("dead-letter/#").await.unwrap();
        world.connector.start().await;
        for payload in [r#"{"a":1}"#, r#"{"refuse":true}"#, "not JSON"] {
            publish(&client, "sensors/a/reading", payload).await;
        }
        wait_for("two messages", async || {
            world.endpoint.read();
            (world.endpoint.messages.len() == 2).then_some(())
        })
        .await;
        let messages = &world.endpoint.messages;
        assert_eq!((&messages[0]["topic"], &messages[0]["payload"]["a"]), (&"sensors/a/reading".into(), &1.into()));
        assert_eq!(messages[1]["payload_base64"], "bm90IEpTT04=");
        let letter = letters.next().await.unwrap();
        assert_eq!(letter.payload(), br#"{"refuse":true}"#);
    });
}

/// The promise: the endpoint gets each message at least once, whatever is killed.
#[test]
fn the_endpoint_gets_each_message_while_connector_broker_and_endpoint_are_killed() {
    run(NEEDED, async {
        let count = number("CONNECT_MESSAGES", 50_000);
        let mut random = Random::new();
        let mut world = world("batch_messages = 500\n").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        let publisher = tokio::spawn(async move { publish_readings(&client, count).await });
        let mut seen = HashSet::new();
        let (mut kills, mut progress) = ([0; 3], Progress::new());
        while !progress.has_all(numbers(&mut world.endpoint, &mut seen).len() as u64, count) {
            tokio::time::sleep(random.pause()).await;
            let fault = random.below(3) as usize;
            kills[fault] += 1;
            match fault {
                0 => world.connector.restart(),
                1 => world.broker.restart().await,
                _ => world.endpoint.restart().await,
            }
        }
        publisher.await.unwrap();
        println!(
            "killed the connector {} times, the broker {} times, the endpoint {} times",
            kills[0], kills[1], kills[2]
        );
        let repeated = world.endpoint.messages.len() as u64 - count;
        println!("{repeated} of {count} messages arrived more than once");
        assert_eq!(numbers(&mut world.endpoint, &mut seen).len() as u64, count);
    });
}

/// The numbers of all messages so far; `seen` has those of earlier calls.
fn numbers<'a>(endpoint: &mut Endpoint, seen: &'a mut HashSet<String>) -> &'a HashSet<String> {
    let known = endpoint.messages.len();
    endpoint.read();
    let number = |message: &serde_json::Value| message["payload"]["number"].as_str().unwrap().to_owned();
    seen.extend(endpoint.messages[known..].iter().map(number));
    seen
}
