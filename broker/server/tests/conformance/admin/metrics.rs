//! Health and metrics.

use crate::contracts::support::World;
use crate::support::http::exchange;
use crate::support::{AtLeastOnce, TOKEN, V5};

#[test]
fn health_is_said_to_everybody_and_nothing_else_is() {
    let world = World::new(1);
    let address = world.broker.admin_address();
    let answer = exchange(address, b"GET /health HTTP/1.1\r\n\r\n").expect(200);
    assert_eq!(answer.body, "{\"status\":\"ok\"}\n");
    for path in ["/metrics", "/contracts", "/contracts/reading", "/", "/nothing"] {
        let answer = exchange(address, format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect(401);
        assert!(answer.head.contains("WWW-Authenticate: Bearer"), "{}", answer.head);
    }
}

#[test]
fn metrics_are_in_the_format_of_prometheus_unless_json_is_asked_for() {
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
    // Help, type and value for each, and every name but once.
    let names_after = |prefix: &str| -> Vec<&str> {
        let lines = answer.body.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.filter_map(|line| line.split([' ', '{']).next()).collect()
    };
    let (helped, typed, mut valued) = (names_after("# HELP "), names_after("# TYPE "), names_after("tautwire_"));
    // Those of listeners have a value for each.
    valued.dedup();
    let valued: Vec<String> = valued.into_iter().map(|name| format!("tautwire_{name}")).collect();
    assert!(helped == typed && typed == valued);
    let mut names = typed.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), typed.len());
    assert_eq!(world.count("violations_rejected"), 1);
}
