//! The overview page and its history of one hour.

use crate::reload::World;
use crate::support::http::Answer;
use crate::support::{AtLeastOnce, AtMostOnce, V5, admin};

impl World {
    fn ask(&self, path: &str) -> Answer {
        admin(self.broker.admin_address(), "GET", path, "")
    }
}

#[test]
fn the_overview_has_the_current_counts() {
    for threads in [1, 2] {
        let world = World::new(threads, "[sys]\ninterval_s = 0\n[limits]\nconnections = 77\n", &["data.path="]);
        let mut client = world.broker.connecting(V5, "c").persistent().open();
        client.subscribe("a", AtMostOnce);
        assert_eq!(client.publish("a", AtLeastOnce, b"12345"), 0);
        client.receive();
        let overview = world.ask("/v1/overview").expect(200);
        for (name, value) in [
            ("threads", threads as u64),
            ("connections", 1),
            ("connections_limit", 77),
            ("sessions", 1),
            ("subscriptions", 1),
            ("messages_received", 1),
            ("messages_sent", 1),
            ("memory_limit_bytes", 1 << 30),
            ("queue_full", 0),
        ] {
            assert_eq!(overview.number(name), value, "{name}: {}", overview.body);
        }
        assert!(overview.number("memory_bytes") > 0 && overview.number("bytes_received") > 20);
        assert!(overview.number("now_ms") >= overview.number("started_ms"));
        let log = "\"disk_bytes\":null,\"disk_limit_bytes\":null,\"log\":{\"sync_p50_us\":null,\"sync_p99_us\":null,\"state\":\"off\"}";
        assert!(overview.body.contains(log), "{}", overview.body);
        let history = world.ask("/v1/overview/history").expect(200);
        assert!(history.body.starts_with("{\"step_ms\":10000,\"end_ms\":1"), "{}", history.body);
        for series in
            ["connections", "messages_received", "disk_bytes", "dropped", "log_sync_p99_us", "delivery_p99_us"]
        {
            assert!(history.body.contains(&format!("\"{series}\":[")), "{series}: {}", history.body);
        }
        admin(world.broker.admin_address(), "POST", "/v1/overview", "").expect(405);
    }
}

#[test]
fn the_overview_has_the_state_of_the_log() {
    let folder = crate::support::Folder::new(&[]);
    let path = format!("data.path={}", folder.path().join("data").display());
    let world = World::new(1, "", &[&path]);
    let mut client = world.broker.connecting(V5, "c").persistent().open();
    client.subscribe("a", AtLeastOnce);
    assert_eq!(client.publish("a", AtLeastOnce, b"x"), 0);
    let overview = world.ask("/v1/overview").expect(200);
    assert!(overview.body.contains("\"state\":\"ok\""), "{}", overview.body);
    let (p50, p99) = (overview.number("sync_p50_us"), overview.number("sync_p99_us"));
    assert!(0 < p50 && p50 <= p99, "{}", overview.body);
    client.receive();
    client.ping();
    let overview = world.ask("/v1/overview").expect(200);
    for what in ["delivery", "acknowledgement"] {
        let [p50, p99] = ["p50", "p99"].map(|percentile| overview.number(&format!("{what}_{percentile}_us")));
        assert!(0 < p50 && p50 <= p99, "{what}: {}", overview.body);
    }
    assert!(overview.number("disk_bytes") > 0 && overview.number("disk_limit_bytes") > 0);
}
