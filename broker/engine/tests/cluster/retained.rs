//! Retained messages in a cluster.

use tautwire_engine::mutant::{Mutant, mutate};
use tautwire_protocol::{QoS, ReasonCode};

use crate::support::Choices;
use crate::world::{Plan, World};

const HOUR_S: u32 = 3600;
/// How late the log can be here: a node that follows the log asks again after a second without an answer and a pause. This is longer than a
/// SUBSCRIBE waits for the log.
const FOLLOW_MS: u64 = 2_000;
/// How long a SUBSCRIBE waits for the log.
const LOG_LAG_MAX_MS: u64 = 1_000;

/// The payloads that a new client of a node gets when it subscribes to `filter`, by topic, and whether they come as retained messages.
fn retained(world: &mut World, place: usize, filter: &str) -> Vec<(String, bool)> {
    let reader = world.client(&format!("reader-{}", world.clients.len()));
    world.connect(reader, place, true, 0);
    let before = world.broker_totals(place).subscriptions_before_catch_up;
    world.subscribe(reader, filter, QoS::ExactlyOnce);
    // If the log was late for a second, it delivers messages that are retained already. They come soon after.
    let is_late = world.broker_totals(place).subscriptions_before_catch_up > before;
    world.run(if is_late { FOLLOW_MS } else { 50 });
    let mut received = world.clients[reader].received.clone();
    received.sort_by(|one, other| one.topic.cmp(&other.topic));
    world.disconnect(reader);
    received.into_iter().map(|one| (one.payload, one.is_retained)).collect()
}

fn as_retained(expected: &[&str]) -> Vec<(String, bool)> {
    expected.iter().map(|payload| ((*payload).to_owned(), true)).collect()
}

#[test]
fn a_message_retained_on_one_node_is_retained_on_all() {
    let mut world = World::new(3);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    for (number, qos) in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].into_iter().enumerate() {
        world.clients[publisher].publish(&format!("a/{number}"), &number.to_string(), qos, true);
    }
    world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    for place in 0..3 {
        assert_eq!(retained(&mut world, place, "a/+"), as_retained(&["0", "1", "2"]), "[MQTT-3.3.1-5]");
    }
    world.clients[publisher].publish("a/1", "", QoS::AtLeastOnce, true);
    world.clients[publisher].publish("a/2", "new", QoS::AtLeastOnce, true);
    world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    for place in 0..3 {
        assert_eq!(retained(&mut world, place, "a/+"), as_retained(&["0", "new"]), "[MQTT-3.3.1-6]");
    }
    // A node that starts later has all messages.
    world.kill(1);
    world.run(8_000);
    world.start(1);
    world.run(500);
    assert_eq!(retained(&mut world, 1, "a/+"), as_retained(&["0", "new"]));
}

#[test]
fn a_subscriber_receives_each_message_once_and_not_as_retained() {
    let mut world = World::new(2);
    let (publisher, subscriber) = (world.client("p"), world.client("s"));
    world.connect(subscriber, 1, false, HOUR_S);
    world.subscribe(subscriber, "a", QoS::ExactlyOnce);
    world.connect(publisher, 0, true, 0);
    for (number, qos) in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].into_iter().enumerate() {
        world.clients[publisher].publish("a", &number.to_string(), qos, true);
    }
    // Messages of different QoS are not ordered.
    world.run_until("all messages are acknowledged", |world| world.clients[publisher].is_idle());
    world.clients[publisher].publish("a", "", QoS::AtLeastOnce, true);
    world.run(300);
    assert_eq!(world.clients[subscriber].payloads(), ["0", "1", "2", ""]);
    assert!(world.clients[subscriber].received.iter().all(|one| !one.is_retained), "[MQTT-3.3.1-12]");
    // Messages of QoS 0 are not queued for offline clients.
    world.cut_off(subscriber);
    world.clients[publisher].publish("a", "lost", QoS::AtMostOnce, true);
    world.clients[publisher].publish("a", "queued", QoS::AtLeastOnce, true);
    world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
    world.connect(subscriber, 1, false, HOUR_S);
    world.run(300);
    assert_eq!(world.clients[subscriber].payloads()[4..], ["queued"]);
}

#[test]
fn a_message_being_retained_reaches_a_new_subscriber_once() {
    for after_ms in 0..60 {
        for is_slow in [false, true] {
            let mut world = World::new(2);
            let (publisher, subscriber) = (world.client("p"), world.client("s"));
            world.connect(publisher, 0, true, 0);
            world.clients[publisher].publish("a", "old", QoS::ExactlyOnce, true);
            world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
            world.connect(subscriber, 1, true, 0);
            world.plan = Plan { late: if is_slow { 20 } else { 0 }, ..Plan::default() };
            world.clients[publisher].publish("a", "new", QoS::ExactlyOnce, true);
            world.run(after_ms);
            world.subscribe(subscriber, "a", QoS::ExactlyOnce);
            world.plan = Plan::default();
            world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
            world.run(5_000);
            let payloads = world.clients[subscriber].payloads();
            assert!(matches!(payloads[..], ["old", "new"] | ["new"]), "{payloads:?} after {after_ms} ms, {is_slow}");
        }
    }
}

#[test]
fn a_new_subscriber_receives_acknowledged_retained_messages() {
    (0..5).for_each(publish_and_search);
}

fn publish_and_search(seed: u64) {
    let mut world = World::with(3, seed, Plan::default(), |_| {}, |_| {});
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    for number in 0..20 {
        // The latencies to the nodes differ each time.
        world.plan = Plan { late: world.random.below(10), ..Plan::default() };
        let payload = if number % 5 == 4 { String::new() } else { number.to_string() };
        world.clients[publisher].publish("a", &payload, QoS::AtLeastOnce, true);
        world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
        world.plan = Plan::default();
        let place = 1 + number % 2;
        let before = world.broker_totals(place).subscriptions_before_catch_up;
        let found = retained(&mut world, place, "a");
        if world.broker_totals(place).subscriptions_before_catch_up > before {
            // It comes once, from the log, and so does the message that clears the topic.
            assert_eq!(found, [(payload, false)], "{number} of {seed}");
        } else {
            let expected = if payload.is_empty() { Vec::new() } else { as_retained(&[&payload]) };
            assert_eq!(found, expected, "{number} of {seed}");
        }
    }
}

#[test]
fn acknowledged_messages_arrive_by_the_log_if_the_stream_is_late() {
    let mut world = World::new(2);
    let (publisher, reader) = (world.client("p"), world.client("reader"));
    world.connect(publisher, 0, true, 0);
    world.connect(reader, 1, true, 0);
    world.without_log = Some(1);
    world.run(FOLLOW_MS);
    world.clients[publisher].publish("a", "late", QoS::AtLeastOnce, true);
    world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
    let began_ms = world.now_ms;
    world.subscribe(reader, "a", QoS::ExactlyOnce);
    let waited_ms = world.now_ms - began_ms;
    assert!((LOG_LAG_MAX_MS..2 * LOG_LAG_MAX_MS).contains(&waited_ms), "{waited_ms}");
    assert!(world.clients[reader].received.is_empty(), "a message was delivered twice");
    assert_eq!(world.broker_totals(1).subscriptions_before_catch_up, 1);
    world.without_log = None;
    world.run(FOLLOW_MS);
    let received: Vec<_> = world.clients[reader].received.iter().map(|one| (&*one.payload, one.is_retained)).collect();
    assert_eq!(received, [("late", false)]);
}

#[test]
fn a_retained_message_expires_on_all_nodes() {
    let mut world = World::new(2);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    world.clients[publisher].message_expiry_s = Some(10);
    world.clients[publisher].publish("a", "short", QoS::AtLeastOnce, true);
    world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
    world.run(5_000);
    // A node that starts now counts from the time of writing.
    world.kill(1);
    world.run(3_000);
    world.start(1);
    world.run(500);
    for place in 0..2 {
        assert_eq!(retained(&mut world, place, "a"), as_retained(&["short"]));
    }
    world.run(2_000);
    for place in 0..2 {
        assert_eq!(retained(&mut world, place, "a"), [], "[MQTT-3.3.2-5]");
    }
}

#[test]
fn an_isolated_node_does_not_restore_cleared_messages() {
    let run = || {
        let mut world = World::new(3);
        let publisher = world.client("p");
        world.connect(publisher, 1, true, 0);
        world.clients[publisher].publish("a", "old", QoS::AtLeastOnce, true);
        world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
        assert_eq!(retained(&mut world, 0, "a"), as_retained(&["old"]));
        world.places[0].is_cut = true;
        world.run(10_000);
        world.clients[publisher].publish("a", "", QoS::AtLeastOnce, true);
        world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
        // The stream drops the record that it was cleared.
        world.run(3_700_000);
        world.places[0].is_cut = false;
        world.run(10_000);
        retained(&mut world, 0, "a")
    };
    assert_eq!(run(), []);
    mutate(Some(Mutant::KeepsPreviousRetained));
    let found = std::panic::catch_unwind(run);
    mutate(None);
    assert_eq!(found.expect("the run does not panic"), as_retained(&["old"]), "the test does not detect the mutant");
}

#[test]
fn unread_log_messages_are_not_also_sent_as_retained() {
    let run = || {
        let mut world = World::with(2, 0, Plan::default(), |settings| settings.session_queue_messages = 20, |_| {});
        let (slow, publisher) = (world.client("slow"), world.client("p"));
        world.clients[slow].withholds_acks = true;
        world.clients[slow].receive_maximum = Some(5);
        world.connect(slow, 0, false, HOUR_S);
        world.subscribe(slow, "a/#", QoS::ExactlyOnce);
        world.connect(publisher, 1, true, 0);
        for number in 0..60 {
            world.clients[publisher].publish("a/x", &format!("{number:02}"), QoS::ExactlyOnce, true);
            world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
        }
        world.run(200);
        assert!(world.broker_totals(0).messages_deferred_to_log > 0);
        world.subscribe(slow, "a/x", QoS::ExactlyOnce);
        world.clients[slow].withholds_acks = false;
        world.clients[slow].acknowledge();
        world.run(10_000);
        world.clients[slow].payloads().iter().map(|payload| payload.to_string()).collect::<Vec<_>>()
    };
    let each_once: Vec<_> = (0..60).map(|number| format!("{number:02}")).collect();
    assert_eq!(run(), each_once);
    mutate(Some(Mutant::ReplaysLiveMessages));
    let found = run();
    mutate(None);
    assert_ne!(found, each_once, "the test does not detect the mutant");
}

#[test]
fn retained_messages_are_limited() {
    let mut world = World::new(2);
    let publisher = world.client("p");
    world.connect(publisher, 0, true, 0);
    for number in 0..crate::node::RETAINED_MAX + 5 {
        world.clients[publisher].publish(&format!("a/{number}"), "x", QoS::AtLeastOnce, true);
        world.run_until("the message is acknowledged", |world| world.clients[publisher].is_idle());
    }
    assert_eq!(world.clients[publisher].refused.len(), 5);
    assert_eq!(world.clients[publisher].reasons.last(), Some(&ReasonCode::QuotaExceeded));
    assert_eq!(retained(&mut world, 1, "#").len(), crate::node::RETAINED_MAX);
    assert!(world.broker_totals(0).retained_refused >= 5);
}

#[test]
fn a_subscription_does_not_wait_for_unneeded_retained_messages() {
    let mut world = World::new(2);
    let client = world.client("c");
    world.connect(client, 0, true, 0);
    world.places[0].is_cut = true;
    world.clients[client].subscribe("$SYS/#", QoS::AtMostOnce, false);
    world.run(10);
    assert!(!world.clients[client].suback.is_empty());
}
