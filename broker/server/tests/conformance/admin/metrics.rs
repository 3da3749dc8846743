//! Health checks and metrics.

use std::time::Instant;

use crate::contracts::support::World;
use crate::support::http::{exchange, field};
use crate::support::{AtLeastOnce, AtMostOnce, Broker, EXPECT_TIMEOUT, ExactlyOnce, Folder, TOKEN, V5, admin};

#[test]
fn only_health_is_public() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let answer = exchange(address, b"GET /health HTTP/1.1\r\n\r\n").expect(200);
    assert_eq!(answer.body, "{\"status\":\"ok\"}\n");
    for path in ["/metrics", "/contracts", "/contracts/reading", "/v1/clients", "/nothing"] {
        let answer = exchange(address, format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect(401);
        assert!(field(&answer.head, "WWW-Authenticate") == Some("Bearer"), "{}", answer.head);
    }
}

#[test]
fn metrics_are_in_prometheus_format_or_json() {
    let world = World::new(2);
    let mut client = world.connect(V5, "client");
    client.publish("strict/a", AtLeastOnce, b"no");
    let request = format!("GET /metrics?ignored=1 HTTP/1.0\r\nauthorization: bearer {TOKEN}\r\n\r\n");
    let answer = exchange(world.broker.admin_address(), request.as_bytes()).expect(200);
    assert!(answer.head.contains("Content-Type: text/plain; version=0.0.4"), "{}", answer.head);
    for line in [
        "# TYPE tautwire_connections gauge",
        "tautwire_connections 1",
        "# TYPE tautwire_violations_rejected_total counter",
        "tautwire_violations_rejected_total 1",
        "tautwire_contracts 8",
    ] {
        assert!(answer.body.lines().any(|known| known == line), "{line}: {}", answer.body);
    }
    // Each metric has help, type and value, and each name occurs once.
    let names_after = |prefix: &str| -> Vec<&str> {
        let lines = answer.body.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.filter_map(|line| line.split([' ', '{']).next()).collect()
    };
    let (helped, typed) = (names_after("# HELP "), names_after("# TYPE "));
    let values = answer.body.lines().filter(|line| !line.starts_with('#'));
    let mut valued: Vec<&str> = values.filter_map(|line| line.split([' ', '{']).next()).collect();
    // Listener metrics have one value per listener, and histograms have several samples.
    for histogram in ["tautwire_data_sync_seconds", "tautwire_delivery_seconds", "tautwire_acknowledgement_seconds"] {
        valued.iter_mut().filter(|name| name.starts_with(histogram)).for_each(|name| *name = histogram);
    }
    valued.dedup();
    assert!(helped == typed && typed == valued);
    assert!(typed.contains(&"tautwire_build_info") && typed.contains(&"process_cpu_seconds_total"), "{typed:?}");
    let mut names = typed.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), typed.len());
    assert_eq!(world.count("violations_rejected"), 1);
}

/// The value of a metric, which must exist.
fn metric(broker: &Broker, name: &str) -> f64 {
    let request = format!("GET /metrics HTTP/1.1\r\nauthorization: bearer {TOKEN}\r\n\r\n");
    let answer = exchange(broker.admin_address(), request.as_bytes()).expect(200);
    let value = answer.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {}", answer.body))
}

#[test]
fn latencies_are_recorded_by_qos_without_the_wait_for_the_client() {
    for threads in [1, 2] {
        let folder = Folder::new(&[]);
        let path = format!("data.path={}", folder.path().join("data").display());
        let world = crate::reload::World::new(threads, "[sys]\ninterval_s = 0\n", &[&path]);
        let broker = &world.broker;
        // Enough clients to cover all threads.
        let mut publishers: Vec<_> = (0..4).map(|at| broker.connect(V5, &format!("publisher-{at}"))).collect();
        let mut subscriber = broker.connecting(V5, "subscriber").persistent().open();
        subscriber.subscribe("a", ExactlyOnce);
        let mut away = broker.connecting(V5, "away").persistent().open();
        away.subscribe("a", ExactlyOnce);
        away.disconnect();
        for publisher in &mut publishers {
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                publisher.publish("a", qos, b"x");
                subscriber.receive();
            }
        }
        // Messages sent at once are timed; messages that waited in the queue are not.
        let mut away = broker.connecting(V5, "away").persistent().open();
        (0..8).for_each(|_| drop(away.receive()));
        // A turn is counted after it has written; the response comes from the next turn of the same thread.
        [&mut subscriber, &mut away].into_iter().chain(&mut publishers).for_each(|client| client.ping());
        for (name, count) in [
            ("delivery_seconds_count{qos=\"0\"}", 4.0),
            ("delivery_seconds_count{qos=\"1\"}", 4.0),
            ("delivery_seconds_count{qos=\"2\"}", 4.0),
            ("delivery_seconds_bucket{qos=\"2\",le=\"+Inf\"}", 4.0),
            ("acknowledgement_seconds_count{qos=\"1\"}", 4.0),
            ("acknowledgement_seconds_count{qos=\"2\"}", 4.0),
        ] {
            assert_eq!(metric(broker, &format!("tautwire_{name}")), count, "{name}, {threads} threads");
        }
        // The acknowledgements waited for the log, and so did the messages with QoS 2.
        let fastest_sync = metric(broker, "tautwire_data_sync_seconds_bucket{le=\"0.000008\"}");
        assert_eq!(fastest_sync, 0.0, "no disk is that fast");
        for name in ["acknowledgement_seconds_bucket{qos=\"1\"", "delivery_seconds_bucket{qos=\"2\""] {
            assert_eq!(metric(broker, &format!("tautwire_{name},le=\"0.000008\"}}")), 0.0, "{name}");
        }
    }
}

#[test]
fn messages_are_counted_by_configured_topic_filters() {
    const CONFIG: &str = "[sys]\ninterval_s = 0\n[limits]\nsession_queue_messages = 2\n[metrics]\ntopics = [\"a/#\", \"+/b\", \"\\\"/c\"]\n";
    for threads in [1, 2] {
        let world = crate::reload::World::new(threads, CONFIG, &["data.path="]);
        let broker = &world.broker;
        let mut publisher = broker.connect(V5, "publisher");
        let mut subscribers: Vec<_> = (0..4).map(|at| broker.connect(V5, &format!("subscriber-{at}"))).collect();
        for (at, subscriber) in subscribers.iter_mut().enumerate() {
            subscriber.subscribe("a/b", if at < 2 { AtMostOnce } else { ExactlyOnce });
        }
        let mut member = broker.connect(V5, "member");
        member.subscribe("$share/group/a/shared", AtLeastOnce);
        let mut away = broker.connecting(V5, "away").persistent().open();
        away.subscribe("a/away", AtLeastOnce);
        away.disconnect();

        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            publisher.publish("a/b", qos, b"12345");
            subscribers.iter_mut().for_each(|subscriber| drop(subscriber.receive()));
        }
        publisher.publish("a/shared", AtLeastOnce, b"1");
        member.receive();
        for text in [b"1", b"2", b"3"] {
            publisher.publish("a/away", AtLeastOnce, text);
        }
        publisher.publish("other", AtLeastOnce, b"nobody counts this");

        // The thread of the offline client may process its messages later.
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        let answer = loop {
            let answer = admin(broker.admin_address(), "GET", "/v1/topic-metrics", "").expect(200);
            if answer.body.contains("\"messages_dropped\":1") {
                break answer;
            }
            assert!(Instant::now() < deadline, "nothing was dropped: {}", answer.body);
        };
        let all = "{\"filter\":\"a/#\",\"messages_received\":7,\"messages_received_by_qos\":[1,5,1],\"bytes_received\":19,\
                   \"messages_delivered\":15,\"bytes_delivered\":63,\"messages_dropped\":1}";
        let b = "{\"filter\":\"+/b\",\"messages_received\":3,\"messages_received_by_qos\":[1,1,1],\"bytes_received\":15,\
                 \"messages_delivered\":12,\"bytes_delivered\":60,\"messages_dropped\":0}";
        assert!(answer.body.contains(all) && answer.body.contains(b), "{threads} threads: {}", answer.body);
        for (name, value) in [
            ("messages_received_total{filter=\"a/#\",qos=\"1\"}", 5.0),
            ("messages_delivered_total{filter=\"a/#\"}", 15.0),
            ("bytes_delivered_total{filter=\"+/b\"}", 60.0),
            ("messages_dropped_total{filter=\"a/#\"}", 1.0),
            ("bytes_received_total{filter=\"\\\"/c\"}", 0.0),
        ] {
            assert_eq!(metric(broker, &format!("tautwire_topic_{name}")), value, "{name}");
        }
        admin(broker.admin_address(), "GET", "/v1/topic-metrics?colour=red", "").expect(400);
    }
}
