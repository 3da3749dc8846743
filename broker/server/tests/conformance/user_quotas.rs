//! Quotas for all clients of one user together.

use std::time::{Duration, Instant};

use tautwire_protocol::ProtocolVersion;

use crate::reload::World;
use crate::support::{AtLeastOnce, AtMostOnce, Client, Folder, OutgoingPublish, V3_1_1, V5, options};

/// Two users with the same password.
pub(crate) const USERS: &str = "ann:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n\
                     bob:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n";
const WHO: &str = "[auth]\npassword_file = \"users\"\n";

/// For all thread counts and versions: a broker with passwords and user quotas.
fn every_world(quotas: &str, mut check: impl FnMut(&World, ProtocolVersion)) {
    for (threads, version) in [(1, V5), (1, V3_1_1), (2, V5), (2, V3_1_1)] {
        check(&world(threads, quotas), version);
    }
}

fn world(threads: usize, quotas: &str) -> World {
    World::within(Folder::new(&[("users", USERS)]), threads, &format!("{WHO}{quotas}"), &[])
}

fn connect(world: &World, version: ProtocolVersion, client: &str, user: &str) -> Client {
    world.broker.connecting(version, client).user_name(user).password(b"password").open()
}

/// The reason code of a subscription.
fn subscribe(client: &mut Client, filter: &str) -> u8 {
    client.subscribe_all(&[(filter, options(AtLeastOnce))], &[])[0]
}

fn retain(client: &mut Client, topic: &str, payload: &[u8]) -> u8 {
    client.deliver(&OutgoingPublish::new(topic, AtLeastOnce, payload).retained())
}

/// [MQTT-3.9.3-1]: SUBACK has a result for each filter; 3.9.3 names 0x97.
#[test]
fn subscriptions_of_all_sessions_of_a_user_are_counted_together() {
    every_world("[limits]\nuser_subscriptions = 3\n", |world, version| {
        let refused = if version == V5 { 0x97 } else { 0x80 };
        let mut first = connect(world, version, "a1", "ann");
        let mut second = connect(world, version, "a2", "ann");
        let mut other = connect(world, version, "b", "bob");
        assert_eq!((subscribe(&mut first, "1"), subscribe(&mut first, "2"), subscribe(&mut second, "3")), (1, 1, 1));
        assert_eq!((subscribe(&mut first, "4"), subscribe(&mut second, "4")), (refused, refused));
        assert_eq!(subscribe(&mut second, "3"), 1, "it replaces a subscription");
        for filter in ["1", "2", "3"] {
            assert_eq!(subscribe(&mut other, filter), 1, "another user has its own quota");
        }
        assert_eq!(world.metric("subscriptions_refused_for_user"), 2);
        second.unsubscribe(&["3"]);
        assert_eq!(subscribe(&mut first, "4"), 1);
        assert_eq!(subscribe(&mut second, "5"), refused);
        // The end of a session frees its share.
        first.disconnect();
        for filter in ["5", "6", "7"] {
            assert_eq!(subscribe(&mut second, filter), 1);
        }
        assert_eq!(subscribe(&mut second, "8"), refused);
    });
}

#[test]
fn queued_messages_of_a_users_sessions_are_counted_together() {
    for threads in [1, 2] {
        let world = world(threads, "[limits]\nuser_queue_messages = 4\n");
        for (client, user) in [("a1", "ann"), ("a2", "ann"), ("b", "bob")] {
            let connecting = world.broker.connecting(V5, client).user_name(user).password(b"password").persistent();
            let mut client = connecting.open();
            client.subscribe("q", AtLeastOnce);
            client.disconnect();
        }
        let mut publisher = connect(&world, V5, "p", "bob");
        for number in 1..=6 {
            assert_eq!(publisher.publish("q", AtLeastOnce, number.to_string().as_bytes()), 0);
        }
        world.await_sum(&["stored_messages", "dropped_queue_full_for_user"], 18);
        let waiting = |client: &str, user: &str| {
            let connecting = world.broker.connecting(V5, client).user_name(user).password(b"password");
            let mut client = connecting.clean_start(false).session_expiry_s(60).open();
            let mut texts = Vec::new();
            client.ping();
            while let Some(message) = client.pending_message() {
                client.acknowledge(&message);
                texts.push(message.text().to_owned());
            }
            texts
        };
        let held = waiting("a1", "ann").len() + waiting("a2", "ann").len();
        // Threads that accept messages at the same moment do not see each other's.
        assert!((4..4 + threads).contains(&held), "{held}");
        assert_eq!(world.metric("dropped_queue_full_for_user"), 18 - 4 - held as u64);
        assert_eq!(waiting("b", "bob"), ["1", "2", "3", "4"]);
    }
}

/// Beyond the quota each client has one message at a time, and none waits for another client.
#[test]
fn messages_in_flight_to_a_users_clients_are_counted_together() {
    every_world("[limits]\nuser_in_flight = 1\n", |world, version| {
        let mut clients = [("a1", "ann"), ("a2", "ann")].map(|(client, user)| {
            let mut client = connect(world, version, client, user);
            client.subscribe("q", AtLeastOnce);
            client
        });
        let mut publisher = connect(world, version, "p", "bob");
        for number in 1..=4 {
            publisher.publish("q", AtLeastOnce, number.to_string().as_bytes());
        }
        let firsts = clients.each_mut().map(|client| {
            let message = client.expect_publish();
            client.expect_nothing();
            message
        });
        for (client, first) in clients.iter_mut().zip(firsts) {
            assert_eq!(first.text(), "1");
            client.acknowledge(&first);
            assert_eq!(client.receive_texts(3), ["2", "3", "4"]);
        }
    });
}

#[test]
fn the_clients_of_a_user_share_one_rate() {
    let rate = "[limits]\nuser_publish_messages_per_s = 1\nuser_publish_burst_messages = 2\n";
    every_world(rate, |world, version| {
        let mut first = connect(world, version, "a1", "ann");
        let mut second = connect(world, version, "a2", "ann");
        let mut other = connect(world, version, "b", "bob");
        let start = Instant::now();
        first.publish("x", AtLeastOnce, b"1");
        second.publish("x", AtLeastOnce, b"2");
        other.publish("x", AtLeastOnce, b"another user's");
        assert_eq!(world.metric("clients_paused_for_rate"), 0);
        second.publish("x", AtLeastOnce, b"3");
        // The broker's clock may be read before the first message.
        assert!(start.elapsed() > Duration::from_millis(500), "{:?}", start.elapsed());
        assert_eq!(world.metric("clients_paused_for_rate"), 1);
    });
}

#[test]
fn the_retained_messages_of_a_users_clients_are_limited_together() {
    every_world("[limits]\nuser_retained_messages = 1\nuser_retained_bytes = 1000\n", |world, version| {
        let refused = if version == V5 { 0x97 } else { 0x00 };
        let mut first = connect(world, version, "a1", "ann");
        let mut second = connect(world, version, "a2", "ann");
        let mut other = connect(world, version, "b", "bob");
        assert!(retain(&mut first, "kept/1", b"1") < 0x80);
        assert_eq!(retain(&mut second, "kept/2", b"no"), refused);
        assert!(retain(&mut second, "kept/1", b"one") < 0x80, "it replaces a message of the user");
        assert_eq!(retain(&mut second, "kept/1", &[b'x'; 2_000]), refused);
        assert!(retain(&mut other, "kept/2", b"2") < 0x80);
        assert!(retain(&mut other, "kept/1", b"") < 0x80, "removing it frees the quota");
        assert!(retain(&mut first, "kept/3", b"3") < 0x80);
        let mut late = connect(world, version, "late", "ann");
        late.subscribe("kept/#", AtMostOnce);
        let mut kept = late.receive_texts(2);
        kept.sort_unstable();
        assert_eq!(kept, ["2", "3"]);
        assert_eq!(world.metric("retained_refused_for_client"), 2);
    });
}

/// Clients connected before the first quota is set count, too.
#[test]
fn user_quotas_apply_after_a_reload() {
    every_world("", |world, version| {
        let refused = if version == V5 { 0x97 } else { 0x80 };
        let mut first = connect(world, version, "a1", "ann");
        let mut second = connect(world, version, "a2", "ann");
        for filter in ["1", "2"] {
            assert_eq!((subscribe(&mut first, filter), subscribe(&mut second, filter)), (1, 1));
        }
        world.reload(&format!("{WHO}[limits]\nuser_subscriptions = 5\n")).expect(200);
        assert_eq!((subscribe(&mut first, "3"), subscribe(&mut second, "3")), (1, refused));
        world.reload(WHO).expect(200);
        assert_eq!(subscribe(&mut second, "3"), 1);
    });
}
