//! `tautwire import mosquitto`: bridges.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::import::Folder;
use super::import_options::Outcome::{self, Named, Refused, Written};
use super::import_options::prepared;
use crate::process::{Ended, run};

/// Every option of bridges with a significant value, and the other lines that it needs, separated by `|`.
pub(crate) const OPTIONS: &[(&str, Outcome)] = &[
    ("address b.example c.example:8883", Written("addresses = [\"mqtt://b.example:1883\", \"mqtt://c.example:8883\"]")),
    ("addresses b.example:1", Written("addresses = [\"mqtt://b.example:1\"]")),
    ("address ::1:1884", Written("addresses = [\"mqtt://[::1]:1884\"]")),
    ("address b.example:port", Refused("the port is invalid; write HOST or HOST:PORT")),
    ("bridge_alpn mqtt|bridge_cafile ca.pem", Written("tls.alpn = [\"mqtt\"]")),
    ("bridge_attempt_unsubscribe true", Named("set clean_start for one connection")),
    ("bridge_attempt_unsubscribe false", Named("that a reload removes from its rules")),
    ("bridge_bind_address 127.0.0.1", Named("use routes instead")),
    ("bridge_cafile ca.pem", Written("addresses = [\"mqtts://a.example:1883\"]")),
    ("bridge_cafile ca.pem|bridge_tls_version tlsv1.2", Written("/ca.pem\"\nrules = [")),
    ("bridge_capath authorities", Written("tls.ca = \"bridge-one-ca.pem\"")),
    ("bridge_capath included", Refused("it has no files that `openssl rehash` has named")),
    (
        "bridge_certfile server.pem|bridge_keyfile server.key|bridge_cafile ca.pem",
        Written("/server.pem\"\ntls.key = \""),
    ),
    (
        "bridge_certfile server.pem|bridge_keyfile server.key",
        Named("neither does the new bridge: bridge_certfile is ignored"),
    ),
    ("bridge_ciphers x", Named("the other broker must support one of these")),
    ("bridge_ciphers_tls1.3 x", Named("the other broker must support one of these")),
    ("bridge_identity x", Named("pre-shared keys is not supported")),
    ("bridge_insecure true", Named("is always verified, so the bridge does not connect if it differs")),
    ("bridge_insecure false", Written("[[bridge]]")),
    ("bridge_max_packet_size 1000", Written("maximum_packet_size = 1000")),
    ("bridge_max_packet_size 1", Named("packets of up to 256 bytes are sent")),
    ("bridge_max_packet_size x", Refused("\"x\" is not a valid number")),
    ("bridge_max_topic_alias 1", Named("bridges use no topic aliases")),
    (
        "bridge_outgoing_retain false",
        Written("{ filter = \"#\", direction = \"out\", qos = 0, retain = \"clear\" },\n]"),
    ),
    (
        "bridge_outgoing_retain false|topic a both",
        Written(
            "{ filter = \"a\", direction = \"out\", qos = 0, retain = \"clear\" },\n    { filter = \"a\", direction = \"in\", qos = 0 },\n]",
        ),
    ),
    ("bridge_protocol_version mqttv50", Written("protocol = \"5.0\"")),
    ("bridge_protocol_version mqttv311", Written("protocol = \"3.1.1\"")),
    ("bridge_protocol_version mqttv31", Named("the new one uses 3.1.1")),
    ("bridge_psk 00hunter2", Refused("so the bridge would not use TLS")),
    ("bridge_receive_maximum 1", Named("mqtt.receive_maximum applies to bridges, too")),
    ("bridge_reload_type lazy", Named("a reload restarts the bridges that have changed")),
    ("bridge_require_ocsp true", Refused("a revoked certificate of the other broker would be accepted")),
    ("bridge_require_ocsp false", Written("[[bridge]]")),
    ("bridge_session_expiry_interval 60", Written("session_expiry_s = 60")),
    ("bridge_tcp_keepalive 1 1 1", Named("is noticed by keep_alive_s")),
    ("bridge_tcp_user_timeout 1", Named("is noticed by keep_alive_s")),
    ("bridge_tls_use_os_certs true", Written("addresses = [\"mqtts://a.example:1883\"]")),
    ("bridge_tls_version tlsv1.3", Refused("a bridge also accepts TLS 1.2")),
    ("bridge_tls_version tlsv1.1", Named("TLS versions below 1.2 are not supported")),
    ("bridge_no_such_option 1", Named("there is no such setting of bridges")),
    ("cleansession true", Written("clean_start = true")),
    ("cleansession true", Named("messages wait for the other broker while the bridge is not connected")),
    ("cleansession false", Named("discards Mosquitto's session at the other broker")),
    ("clientid x", Written("client_id = \"x\"")),
    ("connection two|address b.example|topic a", Written("name = \"two\"")),
    ("connection two", Refused("it has no address")),
    ("connection a b/c|address b.example|topic a", Named("its name here is a-b-c")),
    ("connection one|address b.example|topic a", Named("its name here is one-2")),
    ("idle_timeout 5|start_type lazy", Written("start = \"lazy\"\nidle_timeout_s = 5")),
    ("keepalive_interval 30", Written("keep_alive_s = 30")),
    ("keepalive_interval 1", Written("keep_alive_s = 5")),
    ("local_cleansession true", Named("messages wait for the other broker")),
    ("local_clientid x", Named("has the client identifier bridge/NAME")),
    ("local_password hunter2", Named("not needed: a bridge does not log in")),
    ("local_username x", Written("user = \"x\"")),
    ("notification_topic up/state", Written("status_topic = \"up/state\"\nremote_status_topic = \"up/state\"")),
    ("notifications true|remote_clientid x", Written("remote_status_topic = \"$SYS/broker/connection/x/state\"")),
    ("notifications true|remote_clientid x", Named("so its status here is at bridge/one/state")),
    ("notifications false", Written("client_id")),
    ("notifications_local_only true", Written("status_topic = \"bridge/one/state\"\nrules")),
    ("password hunter2|username x", Written("password_file = \"bridge-one.password\"")),
    ("remote_clientid x", Written("client_id = \"x\"")),
    (
        "remote_password hunter2|remote_username x",
        Written("user_name = \"x\"\npassword_file = \"bridge-one.password\""),
    ),
    ("remote_username x", Written("user_name = \"x\"")),
    ("remote_password hunter2|remote_username x", Named("sent unencrypted, as before")),
    ("restart_timeout 5 30", Written("retry_min_s = 5\nretry_max_s = 30")),
    ("restart_timeout 20", Written("retry_min_s = 20\nretry_max_s = 20")),
    ("restart_timeout", Refused("is not a valid number")),
    ("round_robin true", Written("address_order = \"round_robin\"")),
    ("start_type automatic", Written("[[bridge]]")),
    ("start_type once", Named("connects again when its connection has failed")),
    ("start_type manual", Refused("unknown start type")),
    ("threshold 1", Named("as soon as one message waits")),
    (
        "topic a both 2 x/ y/",
        Written("{ filter = \"a\", direction = \"both\", qos = 2, local_prefix = \"x/\", remote_prefix = \"y/\" }"),
    ),
    (
        "topic \"\" in 1 here there",
        Written("{ filter = \"\", direction = \"in\", qos = 1, local_prefix = \"here\", remote_prefix = \"there\" }"),
    ),
    ("topic a in 1 \"\" y/", Written("{ filter = \"a\", direction = \"in\", qos = 1, remote_prefix = \"y/\" }")),
    ("topic a sideways", Refused("the direction is invalid")),
    ("topic a in 3", Refused("the QoS is invalid")),
    ("topic $SYS/x in", Named("clients cannot publish below $SYS")),
    ("try_private false", Written("bridge_bit = false")),
    ("username x", Written("user_name = \"x\"")),
];

#[test]
fn each_option_of_bridges_is_translated_reported_or_refused() {
    let folder = prepared("bridge-options");
    for (lines, outcome) in OPTIONS {
        let ended = import(&folder, &format!("connection one|address a.example|topic #|{lines}"));
        outcome.check(lines, &ended);
    }
}

fn import(folder: &Folder, lines: &str) -> Ended {
    let text = format!("listener 1885 127.0.0.1\nallow_anonymous true\n{}\n", lines.replace('|', "\n"));
    let conf = folder.write("mosquitto.conf", &text);
    run(&["import", "mosquitto", "--dry-run", "--dir", &folder.path("new"), &conf])
}

#[test]
fn options_of_bridges_without_a_connection_have_no_effect() {
    let folder = prepared("bridge-none");
    let stdout_text = import(&folder, "address a.example|remote_password hunter2").expect(0).text();
    assert_eq!(stdout_text.matches("there is no `connection` line above").count(), 2, "{stdout_text}");
    assert!(!stdout_text.contains("[[bridge]]") && !stdout_text.contains("hunter2"), "{stdout_text}");
}

/// Mosquitto does not apply its rules to its own bridges; here they get a role with the topics that they forward.
#[test]
fn an_imported_bridge_has_rights_for_its_topics_and_a_protected_password() {
    let folder = prepared("bridge-rights");
    let conf = folder.write(
        "mosquitto.conf",
        "listener 1885 127.0.0.1\nallow_anonymous true\nacl_file acl-two\nconnection cloud\naddress a.example\n\
         remote_clientid site\nremote_username site\nremote_password hunter2\nlocal_username bob\n\
         topic telemetry/# out 1 floor/ site/\ntopic commands/# in 1\n",
    );
    folder.write("acl-two", "user dave\ntopic readwrite #\npattern deny #\n");
    run(&["import", "mosquitto", "--dir", &folder.path("new"), &conf]).expect(0);
    run(&["config", "check", "--config", &folder.path("new/tautwire.toml")]).expect(0);
    let password = folder.path("new/bridge-cloud.password");
    assert_eq!(fs::read_to_string(&password).expect("reads"), "hunter2\n");
    assert_eq!(fs::metadata(&password).expect("is there").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(folder.path("new/tautwire.toml")).expect("reads");
    assert!(!text.contains("hunter2") && text.contains("user = \"bob\"\nroles = [\"bridge cloud\"]\n"), "{text}");
    let rules = folder.path("new/access.toml");
    let explain = |action: &str, topic: &str| {
        let role = ["--role", "bridge cloud", "--user", "bob", "bridge/cloud", action, topic];
        run(&[&["acl", "explain", "--file", &rules][..], &role].concat()).code
    };
    assert_eq!(explain("subscribe", "floor/telemetry/#"), Some(0));
    assert_eq!(explain("publish", "commands/a"), Some(0));
    assert_eq!(explain("publish", "bridge/cloud/state"), Some(0));
    assert_eq!(explain("publish", "floor/telemetry/a"), Some(3));
    assert_eq!(explain("subscribe", "commands/#"), Some(3));
}
