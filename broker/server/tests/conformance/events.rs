//! Refusals, denials and failed logins: one log line each, with fields, and addresses in the audit log.

use tautwire_protocol::ReasonCode;

use crate::support::http::ask;
use crate::support::{AtLeastOnce, AtMostOnce, Folder, OutgoingPublish, TOKEN, V5, admin, options};
use crate::users::{RULES, World, user};

/// One event of each kind: a wrong password, a denied publish and subscribe, a denied login and a denied API request.
fn provoke(world: &World) {
    world.broker.connecting(V5, "thief 1").user_name("ann").password(b"wrong-one").refused();
    let mut ann = world.broker.connecting(V5, "meter").user_name("ann").password(b"pencil").open();
    assert_eq!(ann.publish("elsewhere/1", AtLeastOnce, b"wrong-payload"), 0x87);
    ann.subscribe_all(&[("elsewhere/2", options(AtMostOnce))], &[]);
    let api = world.broker.admin_address();
    let login = "{\"user\": \"eve\", \"password\": \"wrong-one\"}";
    ask(api, "POST", "/session", "Content-Type: application/json\r\n", login).expect(401);
    ask(api, "GET", "/v1/clients", "Authorization: Bearer wrong-one\r\n", "").expect(401);
    ann.disconnect();
}

const ADDRESS: &str = "127.0.0.1:";

#[track_caller]
fn only<'l>(log: &'l str, text: &str) -> &'l str {
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
    assert_eq!(lines.len(), 1, "{text}: {log}");
    lines[0]
}

#[test]
fn each_refusal_denial_and_failed_login_is_one_line_with_fields() {
    let world = World::new(1, &[]);
    provoke(&world);
    let log = world.broker.end();
    let listener = "listener=mqtt://127.0.0.1:0";
    for (message, fields) in [
        (" WARN  refused connection: ", &["client_id=\"thief 1\"", "user=ann", listener, "reason_code=0x86"][..]),
        (" WARN  denied publish ", &["topic=elsewhere/1", "client_id=meter", "user=ann", listener, "reason_code=0x87"]),
        (
            " WARN  denied subscription ",
            &["topic=elsewhere/2", "client_id=meter", "user=ann", listener, "reason_code=0x87"],
        ),
        (" WARN  failed admin login ", &["actor=\"user eve\"", "result=failure"]),
        (" WARN  denied admin request ", &["method=GET", "path=/v1/clients", "status=401"]),
    ] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(message)).collect();
        // A failed login is also a refused request.
        let line = lines.iter().find(|line| fields.iter().all(|field| line.contains(field)));
        let line = line.unwrap_or_else(|| panic!("{message}{fields:?}: {log}"));
        assert!(line.contains(&format!(" address={ADDRESS}")), "{line}");
    }
    only(&log, "thief");
    only(&log, "elsewhere/1");
    assert!(!log.contains("wrong-one") && !log.contains("wrong-payload") && !log.contains("pencil"), "{log}");
}

#[test]
fn json_lines_have_fields() {
    let world = World::new(1, &["log.format=json"]);
    provoke(&world);
    let log = world.broker.end();
    let line = only(&log, "thief");
    for member in [
        "\"level\":\"warn\"",
        "\"message\":\"refused connection: ",
        "\"client_id\":\"thief 1\"",
        "\"user\":\"ann\"",
        "\"listener\":\"mqtt://127.0.0.1:0\"",
        "\"address\":\"127.0.0.1:",
        "\"reason_code\":\"0x86\"",
    ] {
        assert!(line.contains(member), "{member}: {line}");
    }
    assert!(only(&log, "elsewhere/1").contains("\"message\":\"denied publish\",\"topic\":\"elsewhere/1\""), "{log}");
}

#[test]
fn lines_of_one_kind_are_rate_limited_and_counted() {
    let world = World::new(1, &["log.rate_limit_burst=3", "log.rate_limit_interval_s=3600"]);
    for _ in 0..10 {
        world.broker.connecting(V5, "thief").user_name("ann").password(b"wrong-one").refused();
    }
    let mut ann = world.broker.connecting(V5, "meter").user_name("ann").password(b"pencil").open();
    assert_eq!(ann.publish("elsewhere", AtLeastOnce, b"x"), 0x87);
    let metrics = admin(world.broker.admin_address(), "GET", "/metrics", "").expect(200);
    assert_eq!(metrics.number("log_lines_suppressed"), 7);
    let log = world.broker.end();
    assert_eq!(log.matches("refused connection: ").count(), 3, "{log}");
    assert!(only(&log, "suppressed 7 more lines `refused connection`").ends_with(" suppressed=7"), "{log}");
    only(&log, "denied publish");
}

#[test]
fn every_client_event_in_the_audit_log_has_its_address() {
    let folder = Folder::new(&[("access.toml", RULES), ("token", TOKEN)]);
    user(&folder, &["add", "ann"], "pencil");
    let audit = format!("audit.file={}", folder.path().join("audit.log").display());
    let world = World::within(folder, 2, &[&audit, "limits.flapping_disconnects=1"]);
    provoke(&world);
    let twin = || world.broker.connecting(V5, "twin").user_name("ann").password(b"pencil").open();
    let (mut first, mut second) = (twin(), twin());
    first.expect_server_disconnect(ReasonCode::SessionTakenOver);
    second.deliver(&OutgoingPublish::new("users/ann/x", AtLeastOnce, b"x").retained());
    admin(world.broker.admin_address(), "GET", "/v1/retained/users/ann/x", "").expect(200);
    world.broker.end();
    let log = world.folder.read("audit.log");
    for event in
        ["connect", "disconnect", "refused", "denied", "flapping_blocked", "admin", "admin_login", "retained_read"]
    {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).collect();
        assert!(!lines.is_empty(), "{event}: {log}");
        for line in lines {
            assert!(line.contains("\"address\":\"127.0.0.1:"), "{line}");
        }
    }
    assert!(log.contains("\"event\":\"retained_read\",\"topic\":\"users/ann/x\",\"actor\":\"token "), "{log}");
}
