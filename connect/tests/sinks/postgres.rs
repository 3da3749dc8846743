//! The PostgreSQL sink.

use crate::support::broker::{Broker, publish, publish_readings};
use crate::support::connector::{Connector, SCHEMA};
use crate::support::faults::{Progress, Random};
use crate::support::postgres::Postgres;
use crate::support::{Folder, number, run, wait_for};

const NEEDED: &[&str] = &["TAUTWIRE"];

struct World {
    postgres: Postgres,
    broker: Broker,
    connector: Connector,
    /// Removed after the processes have ended.
    folder: Folder,
}

fn sink(postgres: &Postgres, keys: &str) -> String {
    format!(
        "type = 'postgresql'\nurl = '{}'\ntopics = ['sensors/{{device_id}}/reading']\ncontract = 'reading'\ntable = 'readings'\n{keys}",
        postgres.url()
    )
}

/// `keys` are further keys of the sink.
async fn world(keys: &str) -> World {
    let folder = Folder::new();
    let postgres = Postgres::start(folder.path()).await;
    let broker = Broker::start(folder.path()).await;
    let sink = sink(&postgres, keys);
    let connector = Connector::new(folder.path(), &broker.url(), &sink);
    World { folder, postgres, broker, connector }
}

impl World {
    async fn distinct(&self) -> u64 {
        self.postgres.number("SELECT count(DISTINCT number) FROM readings").await as u64
    }

    async fn rows(&self, count: i64) {
        wait_for("rows", || async {
            (self.postgres.number("SELECT count(*) FROM readings").await == count).then_some(())
        })
        .await;
    }
}

#[test]
fn a_contract_that_grows_adds_a_column_and_keeps_the_rows() {
    run(NEEDED, async {
        let mut world = world("").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        publish(&client, "sensors/a/reading", r#"{"deviceId":"a","number":"18446744073709551615","celsius":21.5}"#)
            .await;
        world.rows(1).await;
        world.connector.kill();
        let schema = SCHEMA.replace("3; }", "3; bool is_indoor = 4; }");
        std::fs::write(world.folder.path().join("contracts/reading.proto"), schema).unwrap();
        let checked = world.connector.command(&["check"]);
        let report = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(report.contains(r#"ALTER TABLE "readings" ADD COLUMN IF NOT EXISTS "is_indoor" boolean"#), "{report}");
        world.connector.start().await;
        publish(&client, "sensors/b/reading", r#"{"deviceId":"b","isIndoor":true}"#).await;
        world.rows(2).await;
        let query = "SELECT device_id, number::text, celsius, is_indoor FROM readings ORDER BY device_id";
        let rows = world.postgres.client().await.query(query, &[]).await.unwrap();
        let row = |at: usize| {
            let row = &rows[at];
            (row.get::<_, String>(0), row.get::<_, String>(1), row.get::<_, f64>(2), row.get::<_, Option<bool>>(3))
        };
        assert_eq!(row(0), ("a".into(), "18446744073709551615".into(), 21.5, None));
        assert_eq!(row(1), ("b".into(), "0".into(), 0.0, Some(true)));
        let status: serde_json::Value = serde_json::from_slice(&world.connector.command(&["status"]).stdout).unwrap();
        assert_eq!(status["sinks"][0]["counters"]["messages_stored"], 1);
    });
}

#[test]
fn a_column_of_another_type_is_an_error_that_names_it() {
    run(NEEDED, async {
        let world = world("").await;
        world
            .postgres
            .client()
            .await
            .batch_execute("CREATE TABLE readings (device_id text, celsius text)")
            .await
            .unwrap();
        for command in [&["check"][..], &["run"]] {
            let output = world.connector.command(command);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{text}");
            let expected =
                "the column celsius of the table \"readings\" is text, and the configuration needs double precision";
            assert!(text.contains(expected), "{text}");
        }
    });
}

#[test]
fn poison_messages_become_dead_letters_and_block_nothing() {
    run(NEEDED, async {
        let mut world = world("batch_delay_ms = 500\n").await;
        let client = world.broker.client("publisher");
        let mut letters = client.subscribe("dead-letter/#").await.unwrap();
        world.connector.start().await;
        let refuse = "ALTER TABLE readings ADD CONSTRAINT cold CHECK (celsius < 100)";
        world.postgres.client().await.batch_execute(refuse).await.unwrap();
        // The contract refuses the second one, the table the third one.
        for celsius in ["1", r#""secret""#, "100", "4"] {
            publish(&client, "sensors/a/reading", &format!(r#"{{"deviceId":"a","celsius":{celsius}}}"#)).await;
        }
        world.rows(2).await;
        for expected in [
            "contract reading: celsius: expected double, found a string",
            "PostgreSQL refuses a value of cold: SQLSTATE 23514",
        ] {
            let letter = letters.next().await.unwrap();
            let properties = letter.properties();
            let values: Vec<_> =
                properties.user_properties().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let value = |name: &str| values.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
            assert_eq!(
                (letter.topic(), value("tautwire-topic")),
                ("dead-letter/connect.readings", Some("sensors/a/reading"))
            );
            assert!(value("tautwire-reason").unwrap().contains(expected), "{values:?}");
        }
        assert_eq!(world.connector.counter("dead_letters").await, 2);
    });
}

#[test]
fn of_several_messages_with_one_key_the_last_one_stays() {
    run(NEEDED, async {
        let mut world = world("key = ['device_id']\nbatch_delay_ms = 300\n").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        for (device, celsius) in [("a", 1), ("b", 2), ("a", 3)] {
            publish(
                &client,
                &format!("sensors/{device}/reading"),
                &format!(r#"{{"deviceId":"{device}","celsius":{celsius}}}"#),
            )
            .await;
        }
        wait_for("the last value", || async {
            let sum = world.postgres.number("SELECT coalesce(sum(celsius), 0)::bigint FROM readings").await;
            (sum == 5).then_some(())
        })
        .await;
        assert_eq!(world.postgres.number("SELECT count(*) FROM readings").await, 2);
    });
}

#[test]
fn a_second_instance_takes_over_and_the_first_one_ends() {
    run(NEEDED, async {
        let mut world = world("").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        // As the second instance does before it connects to the broker.
        world
            .postgres
            .client()
            .await
            .batch_execute("UPDATE tautwire_connect_sinks SET epoch = epoch + 1")
            .await
            .unwrap();
        publish(&client, "sensors/a/reading", r#"{"deviceId":"a"}"#).await;
        wait_for("its end", async || (!world.connector.is_running()).then_some(())).await;
        assert_eq!(world.postgres.number("SELECT count(*) FROM readings").await, 0);
        world.connector.start().await;
        world.rows(1).await;
    });
}

/// The promise: whatever is killed, each message has one row.
#[test]
fn each_message_has_one_row_while_connector_broker_and_postgresql_are_killed() {
    run(NEEDED, async {
        let count = number("CONNECT_MESSAGES", 100_000);
        let mut random = Random::new();
        let mut world = world("batch_messages = 500\nreceive_maximum = 1000\n").await;
        world.connector.start().await;
        let client = world.broker.client("publisher");
        let publisher = tokio::spawn(async move { publish_readings(&client, count).await });
        let (mut kills, mut progress) = ([0; 3], Progress::new());
        while !progress.has_all(world.distinct().await, count) {
            tokio::time::sleep(random.pause()).await;
            let fault = random.below(3) as usize;
            kills[fault] += 1;
            match fault {
                0 => world.connector.restart(),
                1 => world.broker.restart().await,
                _ => world.postgres.restart().await,
            }
        }
        publisher.await.unwrap();
        world.connector.kill();
        // What was sent again must not be stored again.
        world.connector.run_once();
        println!(
            "killed the connector {} times, the broker {} times, PostgreSQL {} times",
            kills[0], kills[1], kills[2]
        );
        assert_eq!(world.postgres.number("SELECT count(*) FROM readings").await, count as i64);
    });
}

/// Instances share the messages. At QoS 2 a message stays with the instance that has received it [MQTT-4.8.2-5].
#[test]
fn two_instances_of_a_shared_subscription_store_each_message_once_while_they_are_killed() {
    run(NEEDED, async {
        let count = number("CONNECT_MESSAGES", 50_000);
        let mut random = Random::new();
        let mut world = world("share = 'group'\nbatch_messages = 500\nreceive_maximum = 1000\n").await;
        let sink = sink(&world.postgres, "share = 'group'\nbatch_messages = 500\nreceive_maximum = 1000\n");
        let mut second = Connector::named("second", world.folder.path(), &world.broker.url(), &sink);
        world.connector.start().await;
        second.start().await;
        let client = world.broker.client("publisher");
        let publisher = tokio::spawn(async move { publish_readings(&client, count).await });
        let (mut kills, mut progress) = ([0; 3], Progress::new());
        while !progress.has_all(world.distinct().await, count) {
            tokio::time::sleep(random.pause()).await;
            let fault = random.below(3) as usize;
            kills[fault] += 1;
            match fault {
                0 => world.connector.restart(),
                1 => second.restart(),
                _ => world.broker.restart().await,
            }
        }
        publisher.await.unwrap();
        for connector in [&mut world.connector, &mut second] {
            connector.kill();
            connector.run_once();
        }
        println!("killed the instances {} and {} times, the broker {} times", kills[0], kills[1], kills[2]);
        assert_eq!(world.postgres.number("SELECT count(*) FROM readings").await, count as i64);
        let instances = "SELECT count(DISTINCT client_id) FROM tautwire_connect_batches";
        assert_eq!(world.postgres.number(instances).await, 2);
    });
}
