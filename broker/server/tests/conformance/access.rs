//! Access rules as clients and operators see them: loaded at startup, reloaded, and explained.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    AtLeastOnce, AtMostOnce, Broker, EXPECT_TIMEOUT, ExactlyOnce, Folder, TOKEN, V3_1_1, V5, WillMessage, admin,
    options,
};

const RULES: &str = r##"
[[role]]
name = "device"
rules = [
    { allow = "publish", topics = "devices/{client_id}/up" },
    { allow = "subscribe", topics = "devices/{client_id}/down" },
]

[[role]]
name = "operator"
rules = [{ allow = ["publish", "subscribe"], topics = ["devices/#", "$SYS/#"] }]

[[assign]]
client_id = "device-*"
roles = "device"

[[assign]]
client_id = "operator"
roles = "operator"
"##;

struct World {
    broker: Broker,
    folder: Folder,
}

impl World {
    fn new(threads: usize) -> World {
        let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
        let at = |name: &str| folder.path().join(name).display().to_string();
        let settings = [
            format!("acl.file={}", at("access.toml")),
            format!("admin.token_file={}", at("token")),
            "admin.listen=127.0.0.1:0".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        World { broker: Broker::with(threads, &settings), folder }
    }

    fn count(&self, name: &str) -> u64 {
        admin(self.broker.admin_address(), "GET", "/metrics", "").number(name)
    }
}

#[test]
fn clients_are_limited_by_rules_in_both_versions() {
    for threads in [1, 2] {
        let world = World::new(threads);
        let mut operator = world.broker.connect(V5, "operator");
        operator.subscribe("devices/#", AtLeastOnce);
        let mut device = world.broker.connect(V5, "device-1");
        for (qos, refused) in [(AtLeastOnce, 0x87), (ExactlyOnce, 0x87)] {
            assert_eq!(device.publish("devices/device-2/up", qos, b"forged"), refused);
            assert_eq!(device.publish("devices/device-1/up", qos, b"true"), 0);
            assert_eq!(operator.receive().payload(), b"true");
        }
        let filters = ["devices/device-1/down", "devices/+/down", "#", "$share/g/devices/device-1/down"];
        let granted = device.subscribe_all(&filters.map(|filter| (filter, options(AtLeastOnce))), &[]);
        assert_eq!(granted, [1, 0x87, 0x87, 1]);

        let mut old = world.broker.connect(V3_1_1, "device-3");
        let filters = ["devices/device-3/down", "devices/device-1/down"];
        assert_eq!(old.subscribe_all(&filters.map(|filter| (filter, options(AtLeastOnce))), &[]), [1, 0x80]);
        // MQTT 3.1.1 has no negative acknowledgement; the message is not delivered.
        assert_eq!(old.publish("devices/device-1/up", AtLeastOnce, b"forged"), 0);
        assert_eq!(old.publish("devices/device-3/up", AtLeastOnce, b"true"), 0);
        assert_eq!(operator.receive().payload(), b"true");
        operator.expect_nothing();
        assert_eq!(world.count("publishes_not_authorized"), 3);
    }
}

#[test]
fn wills_are_checked_as_publishes() {
    let world = World::new(1);
    let forged = WillMessage::new("devices/device-2/up", b"gone");
    assert_eq!(world.broker.connecting(V5, "device-1").will(forged).refused(), 0x87);
    let forged = WillMessage::new("devices/device-2/up", b"gone");
    assert_eq!(world.broker.connecting(V3_1_1, "device-1").will(forged).refused(), 5);
    let mut operator = world.broker.connect(V5, "operator");
    operator.subscribe("devices/#", AtMostOnce);
    let own = WillMessage::new("devices/device-1/up", b"gone");
    world.broker.connecting(V5, "device-1").will(own).open().cut();
    assert_eq!(operator.receive().payload(), b"gone");
}

#[test]
fn a_reload_revokes_only_what_is_no_longer_allowed() {
    for threads in [1, 2] {
        let world = World::new(threads);
        let mut device = world.broker.connect(V5, "device-1");
        device.subscribe("devices/device-1/down", AtLeastOnce);
        let mut operator = world.broker.connect(V5, "operator");
        assert_eq!(operator.publish("devices/device-1/down", AtLeastOnce, b"before"), 0);
        assert_eq!(device.receive().payload(), b"before");

        world.folder.write("access.toml", &RULES.replace("{client_id}/down", "{client_id}/other"));
        let answer = admin(world.broker.admin_address(), "POST", "/config/reload", "").expect(200).body;
        assert!(answer.contains("\"rules\":4"), "{answer}");
        let deadline = Instant::now() + EXPECT_TIMEOUT;
        while world.count("subscriptions_revoked") == 0 {
            assert!(Instant::now() < deadline, "the subscription was not removed");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(operator.publish("devices/device-1/down", AtLeastOnce, b"after"), 0x10);
        assert_eq!(device.publish("devices/device-1/up", AtLeastOnce, b"still there"), 0x10);
    }
}

#[test]
fn a_reload_with_an_error_changes_nothing_and_reports_its_location() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    world
        .folder
        .write("access.toml", &RULES.replace("device-*", "*").replace("roles = \"operator\"", "roles = \"none\""));
    for (method, path) in [("GET", "/config/diff"), ("POST", "/config/reload")] {
        let body = admin(address, method, path, "").expect(422).body;
        assert!(body.contains("access.toml:19:") && body.contains("access_unknown_role"), "{body}");
    }
    let mut stranger = world.broker.connect(V5, "stranger");
    assert_eq!(stranger.publish("devices/stranger/up", AtLeastOnce, b"x"), 0x87, "the file is not applied in part");
    world.folder.write("access.toml", &RULES.replace("device-*", "*"));
    world.broker.signal("HUP");
    let deadline = Instant::now() + EXPECT_TIMEOUT;
    while stranger.publish("devices/stranger/up", AtLeastOnce, b"x") == 0x87 {
        assert!(Instant::now() < deadline, "the rules were not reloaded");
    }
    let log = world.broker.end();
    assert!(log.contains("SIGHUP: reloaded the configuration and its files; 4 rules"), "{log}");
}

#[test]
fn the_audit_log_has_connections_and_denials() {
    let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        format!("acl.file={}", at("access.toml")),
        format!("audit.file={}", at("audit.log")),
        format!("admin.token_file={}", at("token")),
        "admin.listen=127.0.0.1:0".to_owned(),
        "log.level=error".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = Broker::with(2, &settings);
    let mut device = broker.connect(V5, "device-\"1");
    assert_eq!(device.publish("elsewhere", AtLeastOnce, b"secret"), 0x87);
    device.subscribe_all(&[("#", options(AtMostOnce))], &[]);
    device.disconnect();
    let forged = WillMessage::new("devices/device-2/up", b"gone");
    assert_eq!(broker.connecting(V5, "device-1").will(forged).refused(), 0x87);
    admin(broker.admin_address(), "POST", "/config/reload", "").expect(200);
    broker.end();
    let log = folder.read("audit.log");
    for expected in [
        r#""event":"connect","client_id":"device-\"1","user":"","listener":"mqtt://127.0.0.1:0","address":"127.0.0.1:"#,
        r#""event":"denied","action":"publish","topic":"elsewhere","client_id":"device-\"1""#,
        r##""event":"denied","action":"subscribe","topic":"#""##,
        r#""event":"denied","action":"will","topic":"devices/device-2/up","client_id":"device-1""#,
        r#""event":"refused","client_id":"device-1","user":"","listener":"mqtt://127.0.0.1:0","address":"127.0.0.1:"#,
        r#""event":"disconnect","client_id":"device-\"1","user":"","reason_code":0,"#,
        r#""event":"reload","result":"success""#,
        r#""event":"admin","method":"POST","path":"/config/reload""#,
    ] {
        assert!(log.contains(expected), "{expected}: {log}");
    }
    assert!(!log.contains("secret") && !log.contains(TOKEN), "{log}");
    assert!(log.lines().all(|line| line.starts_with("{\"time\":\"") && line.ends_with('}')), "{log}");
}

/// A client that is denied repeatedly does not fill the disk.
#[test]
fn unauthenticated_audit_events_are_rate_limited_and_counted() {
    let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        format!("acl.file={}", at("access.toml")),
        format!("audit.file={}", at("audit.log")),
        format!("admin.token_file={}", at("token")),
        "admin.listen=127.0.0.1:0".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = Broker::with(2, &settings);
    let mut device = broker.connect(V5, "device-1");
    let topic = "x".repeat(60_000);
    const MESSAGES: u64 = 500;
    for _ in 0..MESSAGES {
        assert_eq!(device.publish(&topic, AtLeastOnce, b"x"), 0x87);
    }
    let lost = admin(broker.admin_address(), "GET", "/metrics", "").expect(200).number("audit_lines_dropped");
    assert!(lost > 100, "{lost}");
    device.disconnect();
    broker.end();
    let log = folder.read("audit.log");
    let written = log.matches("\"event\":\"denied\"").count() as u64;
    assert_eq!(written + lost, MESSAGES);
    assert!(log.len() < 20 << 20 && log.contains("\"event\":\"lines_dropped\",\"lines\":"), "{} bytes", log.len());
    assert!(log.contains("\"event\":\"disconnect\""), "other events are still written");
}

#[test]
fn an_invalid_or_missing_rule_file_prevents_the_start() {
    let folder = Folder::new(&[("access.toml", "")]);
    let path = folder.path().join("access.toml").display().to_string();
    let stderr = Broker::refused(&[&format!("acl.file={path}")]);
    assert!(stderr.contains("access_empty"), "{stderr}");
    let stderr = Broker::refused(&[&format!("acl.file={path}.gone")]);
    assert!(stderr.contains("access_unreadable") && stderr.contains("access.toml.gone"), "{stderr}");
}
