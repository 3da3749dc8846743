//! Slow and offline subscribers with the default configuration, and the policies for full queues.

use super::{QUOTA_EXCEEDED, create_offline_session, reconnect};
use crate::limits::publish_numbers;
use crate::reload::bans::DAVE;
use crate::support::{AtLeastOnce, Broker, Folder, OutgoingPublish, V3_1_1, V5, wait_until};
use crate::sys::await_live_number;

/// Default configuration with a `data.path`: a subscriber that is far behind loses nothing, and neither does an offline one.
#[test]
fn a_slow_subscriber_gets_all_of_100_000_messages() {
    const MESSAGES: usize = 100_000;
    let folder = Folder::new(&[]);
    let data = format!("data.path={}", folder.path().join("data").display());
    let broker = Broker::with(2, &[&data, "data.ack=memory"]);
    create_offline_session(&broker, V5, "offline", "a", AtLeastOnce);
    let mut slow = broker.connect(V5, "slow");
    slow.subscribe("a", AtLeastOnce);
    let mut publisher = broker.connect(V5, "publisher");
    publish_numbers(&mut publisher, "a", AtLeastOnce, MESSAGES);
    // It has read nothing so far.
    for number in 0..MESSAGES {
        assert_eq!(slow.receive().text(), number.to_string());
    }
    let mut offline = reconnect(&broker, V5, "offline");
    for number in 0..MESSAGES {
        assert_eq!(offline.receive().text(), number.to_string());
    }
}

/// Drops because of a full queue are logged once per episode, and reported to the client in its next CONNACK.
#[test]
fn a_full_queue_drop_is_logged_once_and_reported_to_the_client() {
    const PUBLISHED: usize = 50;
    const KEPT: usize = 20;
    for threads in [1, 2] {
        let folder = Folder::new(&[]);
        let log = folder.path().join("log");
        let file = format!("[limits]\nsession_queue_messages = {KEPT}\n[sys]\ninterval_s = 1\n");
        let broker = Broker::logging_to(&log, threads, &folder, &file, &[]);
        create_offline_session(&broker, V5, "offline", "a", AtLeastOnce);
        let mut publisher = broker.connect(V5, "publisher");
        publish_numbers(&mut publisher, "a", AtLeastOnce, PUBLISHED);
        await_live_number(&mut publisher, "tautwire/dropped_queue_full", |count| count == (PUBLISHED - KEPT) as f64);

        let mut client = reconnect(&broker, V5, "offline");
        let properties: Vec<_> = client.connack().properties.user_properties().collect();
        let names: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["tautwire-dropped-messages", "tautwire-dropped-from", "tautwire-dropped-until"]);
        assert_eq!(properties[0].1, (PUBLISHED - KEPT).to_string());
        assert!(properties[1].1 <= properties[2].1 && properties[1].1.ends_with('Z'), "{properties:?}");
        for number in 0..KEPT {
            assert_eq!(client.receive().text(), number.to_string());
        }
        client.disconnect();
        let client = reconnect(&broker, V5, "offline");
        assert_eq!(client.connack().properties.user_properties().count(), 0, "the drops were reported before");

        // A separate thread writes the log.
        let text = || std::fs::read_to_string(&log).expect("the broker writes its log");
        let lines = |what: &str| text().lines().filter(|line| line.contains(what)).count();
        wait_until("the end of the episode is logged", || {
            lines("30 messages were dropped for client \"offline\"") == 1
        });
        assert_eq!(lines("the queue of client \"offline\" is full"), 1, "{}", text());
    }
}

/// `limits.slow_consumer_users`: a full queue of one user's sessions stops publishers; for others, messages are dropped.
#[test]
fn a_publisher_is_refused_because_of_the_sessions_of_one_user() {
    for threads in [1, 2] {
        let folder = Folder::new(&[("users", &DAVE.replace("dave", "billing"))]);
        let file = "auth.password_file = \"users\"\nauth.anonymous = true\nlimits.session_queue_messages = 1\n\
                    limits.slow_consumer_users = [\"billing = refuse\"]\nsys.interval_s = 1\n";
        let broker = Broker::with_listeners(threads, &folder, file, &[]);
        let connecting = || broker.connecting(V5, "of-user").user_name("billing").password(b"password");
        let mut of_user = connecting().persistent().open();
        of_user.subscribe("orders", AtLeastOnce);
        of_user.disconnect();
        create_offline_session(&broker, V5, "of-nobody", "news", AtLeastOnce);
        let mut publisher = broker.connect(V5, "publisher");
        assert_eq!(publisher.publish("orders", AtLeastOnce, b"1"), 0);
        await_live_number(&mut publisher, "tautwire/stored_messages", |count| count == 1.0);
        assert_eq!(publisher.publish("orders", AtLeastOnce, b"2"), QUOTA_EXCEEDED);
        for text in [b"1", b"2"] {
            assert_eq!(publisher.publish("news", AtLeastOnce, text), 0);
        }
        await_live_number(&mut publisher, "tautwire/dropped_queue_full", |count| count == 1.0);
        let mut of_user = connecting().clean_start(false).open();
        assert_eq!(of_user.receive().text(), "1");
        // Publishers continue as soon as the session has room.
        while publisher.publish("orders", AtLeastOnce, b"3") != 0 {}
        assert_eq!(of_user.receive().text(), "3");
    }
}

/// `limits.slow_consumer=pause_publisher`: nothing is dropped, and messages arrive in order, even with a small queue.
#[test]
fn paused_publishers_lose_nothing() {
    const MESSAGES: usize = 300;
    for (threads, version) in [(1, V5), (2, V3_1_1)] {
        let settings = ["limits.slow_consumer=pause_publisher", "limits.session_queue_messages=50"];
        let broker = Broker::with(threads, &settings);
        create_offline_session(&broker, version, "offline", "a", AtLeastOnce);
        let mut publisher = broker.connect(version, "publisher");
        let mut send = |number: usize| {
            publisher.send_publish(&OutgoingPublish::new("a", AtLeastOnce, number.to_string().as_bytes()))
        };
        let ids: Vec<u16> = (0..MESSAGES).map(&mut send).collect();
        let mut client = reconnect(&broker, version, "offline");
        for number in 0..MESSAGES {
            assert_eq!(client.receive().text(), number.to_string());
        }
        for id in ids {
            assert_eq!(publisher.expect_puback(id), 0);
        }
    }
}
