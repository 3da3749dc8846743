//! `tautwire import mosquitto`: the translation of each option.

use std::collections::BTreeSet;

use super::import::Folder;
use super::import_bridges;
use crate::process::{Ended, run};

/// The expected result for an option.
pub(crate) enum Outcome {
    /// The new configuration contains this text.
    Written(&'static str),
    /// A note contains this text.
    Named(&'static str),
    /// Nothing is written, and the error contains this text.
    Refused(&'static str),
}

use Outcome::{Named, Refused, Written};

impl Outcome {
    /// Checks the result for some lines, and that it shows no secret; returns standard output without the marks of a dry run.
    pub(crate) fn check(&self, lines: &str, ended: &Ended) -> String {
        let stdout_text = ended.text().replace("\n  | ", "\n");
        match self {
            Written(part) | Named(part) => {
                assert!(ended.code == Some(0) && stdout_text.contains(part), "{lines}: {stdout_text}{}", ended.stderr);
            }
            Refused(part) => {
                assert!(ended.code == Some(1) && ended.stderr.contains(part), "{lines}: {stdout_text}{}", ended.stderr);
                assert!(ended.stderr.contains("nothing is written"), "{lines}: {}", ended.stderr);
            }
        }
        assert!(!stdout_text.contains("hunter2") && !ended.stderr.contains("hunter2"), "{lines}: a secret is shown");
        stdout_text
    }
}

/// Every option with a significant value, and the other lines that it needs, separated by `|`.
const OPTIONS: &[(&str, Outcome)] = &[
    ("accept_protocol_versions 4, 5", Written("mqtt.protocol_versions = [\"3.1.1\", \"5.0\"]")),
    ("accept_protocol_versions x", Refused("no valid version")),
    ("acl_file acl", Written("[acl]\nfile = \"access.toml\"")),
    ("allow_anonymous false", Written("auth.anonymous = false")),
    ("allow_duplicate_messages true", Named("a client gets a message once")),
    ("allow_zero_length_clientid false", Written("[mqtt]\nallow_empty_client_id = false")),
    ("auth_opt_x y|plugin /usr/lib/x.so", Named("plugins are not supported")),
    ("auth_plugin /usr/lib/go-auth.so", Named("its plugin controlled authentication and access")),
    ("auth_plugin_deny_special_chars true", Named("not needed")),
    ("auto_id_prefix gate-", Written("[mqtt]\nassigned_client_id_prefix = \"gate-\"")),
    ("autosave_interval 5", Named("not needed: acknowledged data is on disk")),
    ("autosave_on_changes true", Named("not needed: acknowledged data is on disk")),
    ("bind_interface eth0", Named("the interface is ignored")),
    ("listener 1886|bind_interface eth0", Refused("would listen on all networks")),
    (
        "capath authorities|certfile server.pem|keyfile server.key|require_certificate true|use_identity_as_username true",
        Written("/authorities/01234567.0\"]"),
    ),
    (
        "cafile ca.pem|certfile server.pem|keyfile server.key|require_certificate true|use_identity_as_username true",
        Written("tls.client_certificates = \"required\"\ntls.client_ca = [\""),
    ),
    ("certfile server.pem|keyfile server.key", Written("/server.pem\"\ntls.key = \"")),
    ("keyfile encrypted.key|certfile server.pem", Refused("is encrypted, and the broker does not support passphrases")),
    ("check_retain_source true|acl_file acl", Written("check_retained_publisher = true")),
    ("check_retain_source false|acl_file acl", Written("check_retained_publisher = false")),
    ("acl_file acl|max_keepalive 9", Written("check_retained_publisher = true")),
    ("ciphers x", Named("clients without these cannot connect")),
    ("ciphers_tls1.3 x", Named("clients without these cannot connect")),
    ("clientid_prefixes x", Refused("clients with other identifiers could connect")),
    ("connection_messages true", Named("there is no such log setting")),
    ("crlfile crl.pem|certfile server.pem|keyfile server.key", Written("tls.client_certificates = \"none\"")),
    ("dhparamfile x", Named("there is no such TLS setting")),
    ("disable_client_cert_date_checks true", Named("expired are always refused")),
    ("enable_control_api true", Named("there are no topics below $CONTROL")),
    ("enable_proxy_protocol 2", Written("proxy.trusted_networks = [\"127.0.0.0/8\", \"::1\"]")),
    ("proxy_protocol_v2_require_tls true|enable_proxy_protocol 2", Written("proxy.require_tls = true")),
    ("require_certificate true|enable_proxy_protocol 2", Written("proxy.require_certificate = true")),
    ("global_max_clients 10", Written("[limits]\nsessions = 10")),
    ("global_max_connections 10", Written("[limits]\nconnections = 10")),
    ("global_plugin /usr/lib/mosquitto_dynamic_security.so", Named("its file is not imported")),
    ("http_dir x", Named("files are not served")),
    ("include_dir included", Written("max_keep_alive_s = 77")),
    ("listener 1886 ::1", Written("address = \"mqtt://[::1]:1886\"")),
    ("listener 1886 broker.example.org", Refused("host names are not resolved")),
    ("listener 1886x", Refused("the port is invalid")),
    ("listener_allow_anonymous false", Written("auth.anonymous = false")),
    ("listener_auto_id_prefix gate-", Written("mqtt.assigned_client_id_prefix = \"gate-\"")),
    ("log_dest stderr", Named("the log goes to standard error")),
    ("log_facility 5", Named("there is no such log setting")),
    ("log_timestamp true", Named("there is no such log setting")),
    ("log_timestamp_format x", Named("there is no such log setting")),
    ("log_type error", Written("level = \"error\"")),
    ("max_connections 5", Written("limits.connections = 5")),
    ("max_inflight_bytes 5000", Written("in_flight_bytes_per_client = 5000")),
    ("max_inflight_messages 20", Written("in_flight_per_client = 20")),
    ("max_inflight_messages 21", Written("[mqtt]\nreceive_maximum = 21")),
    ("max_inflight_messages 0", Written("[mqtt]\nreceive_maximum = 65535")),
    ("max_keepalive 600", Written("max_keep_alive_s = 600")),
    ("max_log_entries 5", Named("it has no effect in Mosquitto 2 either")),
    ("max_packet_size 1000", Written("maximum_packet_size = 1000")),
    ("max_packet_size 40", Named("the minimum of mqtt.maximum_packet_size is 64")),
    ("max_packet_size x", Refused("\"x\" is not a valid number")),
    ("max_qos 1", Written("mqtt.max_qos = 1")),
    ("maximum_qos 1", Written("mqtt.max_qos = 1")),
    ("max_queued_bytes 100000", Written("session_queue_bytes = 100000")),
    ("max_queued_bytes 100", Named("the minimum of limits.session_queue_bytes is 1024")),
    ("max_queued_messages 5000", Written("session_queue_messages = 5000")),
    ("max_topic_alias 0", Written("mqtt.topic_alias_maximum = 0")),
    ("max_topic_alias_broker 1", Named("at most 64")),
    ("memory_limit 100000000", Written("[memory]\nlimit = 100000000")),
    ("memory_limit 1000", Named("the broker needs 64 MiB")),
    ("message_size_limit 1000", Written("payload_bytes = 1000")),
    ("mount_point up/", Written("mount_point = \"up/\"")),
    ("mount_point up", Refused("clients of this listener would see all topics")),
    ("packet_buffer_size 1", Named("there is no such buffer setting")),
    ("password_file passwd", Written("auth.password_file = \"")),
    (
        "per_listener_settings true|listener 1886 127.0.0.1|allow_zero_length_clientid false",
        Written("mqtt.allow_empty_client_id = false"),
    ),
    ("persistence true", Written("[data]\npath = \"auto\"")),
    ("persistence_file x|persistence true", Written("[data]\npath = \"auto\"")),
    ("persistence_location x|persistence true", Written("[data]\npath = \"auto\"")),
    ("persistent_client_expiration 90s", Written("max_session_expiry_s = 90")),
    ("persistent_client_expiration soon", Refused("\"soon\" is not a valid number")),
    ("pid_file x", Named("use a service manager")),
    ("plugin /usr/lib/x.so", Named("plugins are not supported")),
    ("plugin_load other /usr/lib/other.so", Named("plugins are not supported")),
    ("plugin_opt_x hunter2|plugin /usr/lib/x.so", Named("plugins are not supported")),
    ("plugin_use nothing", Named("no plugin with this name was loaded above")),
    ("port 1887", Written("mqtt://[::]:1887")),
    ("bind_address 127.0.0.2|port 1887", Written("mqtt://127.0.0.2:1887")),
    ("protocol websockets", Written("ws://127.0.0.1:1885")),
    ("listener 1886 127.0.0.1|protocol http_api", Named("this listener is omitted")),
    ("protocol http_api", Refused("no MQTT listener is left")),
    ("protocol x", Refused("unknown protocol")),
    ("psk_file x", Named("clients that use it cannot connect")),
    ("psk_hint hunter2", Refused("the listener would not use TLS")),
    ("queue_qos0_messages true", Named("offline clients do not get them")),
    ("retain_available false", Written("retain_available = false")),
    ("retain_expiry_interval 1", Named("retained messages expire only by their own")),
    ("retained_persistence true", Written("[data]\npath = \"auto\"")),
    ("retry_interval 1", Named("it has no effect in Mosquitto 2 either")),
    ("set_tcp_nodelay true", Named("not needed")),
    ("socket_domain ipv4|", Written("mqtt://127.0.0.1:1885")),
    ("sys_interval 5", Written("[sys]\ninterval_s = 5")),
    ("tls_engine x", Named("there is no such TLS setting")),
    ("tls_engine_kpass_sha1 00", Named("there is no such TLS setting")),
    ("tls_keyform pem", Named("there is no such TLS setting")),
    ("tls_version tlsv1.3|certfile server.pem|keyfile server.key", Written("tls.minimum_version = \"1.3\"")),
    ("upgrade_outgoing_qos true", Named("the QoS may be lower than before")),
    ("use_identity_as_username true|certfile server.pem|keyfile server.key", Refused("Mosquitto refuses every client")),
    ("use_subject_as_username true", Refused("the subject of a certificate cannot be the user name")),
    ("use_username_as_clientid true", Refused("could take over the session of another")),
    (
        "use_username_as_clientid true|cafile ca.pem|certfile server.pem|keyfile server.key|require_certificate true|use_identity_as_username true",
        Written("auth.certificate_identity = \"user_and_client_id\""),
    ),
    ("user mosquitto", Named("set user if the broker is started as root")),
    ("websockets_headers_size 1", Named("there is no such WebSocket setting")),
    ("websockets_log_level 1", Named("there is no such WebSocket setting")),
    ("websockets_origin https://example.org|protocol websockets", Written("origins = [\"https://example.org\"]")),
    ("websockets_origin localhost|protocol websockets", Named("it matches none, neither with Mosquitto nor here")),
    ("no_such_option 1", Named("unknown option")),
];

/// The options of mosquitto.conf(5), taken from the manuals of the versions listed there, not from our code.
const MANUAL: &str = include_str!("mosquitto-options.txt");

pub(crate) fn prepared(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("acl", "topic readwrite #\n");
    let (passwd, password) = (folder.path("passwd"), folder.write("password", "secret\n"));
    run(&["user", "add", "--file", &passwd, "--password-file", &password, "dave"]).expect(0);
    run(&["cert", "--dir", &folder.path(""), "localhost"]).expect(0);
    folder.write("encrypted.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    std::fs::create_dir(folder.path("included")).expect("makes");
    folder.write("included/more.conf", "max_keepalive 77\n");
    std::fs::create_dir(folder.path("authorities")).expect("makes");
    std::fs::copy(folder.path("ca.pem"), folder.path("authorities/01234567.0")).expect("copies");
    folder.write("authorities/readme", "not an authority\n");
    folder
}

#[test]
fn each_option_is_translated_reported_or_refused() {
    let folder = prepared("options");
    let mut seen = BTreeSet::new();
    let import = |lines: &str| {
        let text = format!(
            "listener 1885 127.0.0.1\nallow_anonymous true\n{}\n",
            lines.replace('|', "\n").replace("include_dir ", &format!("include_dir {}/", folder.0.display()))
        );
        let conf = folder.write("mosquitto.conf", &text);
        run(&["import", "mosquitto", "--dry-run", "--dir", &folder.path("new"), &conf])
    };
    for (lines, outcome) in OPTIONS {
        let ended = import(lines);
        let stdout_text = outcome.check(lines, &ended);
        if !lines.starts_with("no_such") {
            assert!(!stdout_text.contains("unknown option"), "{lines}: {stdout_text}");
        }
        seen.extend(lines.split('|').filter_map(|line| line.split(' ').next()));
    }
    seen.extend(
        import_bridges::OPTIONS
            .iter()
            .flat_map(|(lines, _)| lines.split('|'))
            .filter_map(|line| line.split(' ').next()),
    );
    let is_seen = |option: &str| match option.strip_suffix('*') {
        Some(beginning) => seen.iter().any(|seen| seen.starts_with(beginning)),
        None => seen.contains(option),
    };
    let options = MANUAL.lines().filter(|line| !line.starts_with('#'));
    let missing: Vec<&str> = options.filter(|option| !is_seen(option)).collect();
    assert!(missing.is_empty(), "no row says what becomes of {missing:?}");
    assert!(!std::path::Path::new(&folder.path("new")).exists(), "--dry-run writes nothing");
}
