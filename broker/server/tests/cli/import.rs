//! `tautwire import`.

use std::fs;
use std::path::PathBuf;

use crate::process::{Broker, run};

/// A folder of one test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tautwire-import-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("writes");
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const USERS: &str = "dave:$7$101$bWFkZSB1cCBzYQ==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n";

#[test]
fn a_configuration_of_mosquitto_becomes_one_that_means_the_same() {
    let folder = Folder::new("whole");
    folder.write("passwd", USERS);
    folder.write("acl", "user dave\ntopic readwrite home/#\npattern read devices/%c/#\n");
    let conf = folder.write(
        "mosquitto.conf",
        "# A comment\nper_listener_settings false\nallow_anonymous false\npassword_file passwd\nacl_file acl\n\
         persistence true\npersistence_location /var/lib/mosquitto/\nautosave_interval 1800\n\
         persistent_client_expiration 2w\nmax_queued_messages 5000\nmax_inflight_messages 20\n\
         listener 1884 127.0.0.1\nmax_connections 100\nlistener 8080\nprotocol websockets\nmount_point up/\n\
         log_dest syslog\nno_such_option 1\nconnection other\naddress other.example.org\ntopic # both\n",
    );
    let told = run(&["import", "mosquitto", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
    for expected in [
        "/var/lib/mosquitto/mosquitto.db: sessions and messages stay there; `tautwire import mosquitto --data DIR",
        ":8: autosave_interval 1800: needless",
        ":17: log_dest",
        ":18: no_such_option 1: is not known",
        ":19: connection other: there are no bridges",
        ":20: address other.example.org: there are no bridges",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let (file, rules) = (folder.path("tautwire.toml"), folder.path("access.toml"));
    run(&["config", "check", "--config", &file]).expect(0);
    run(&["acl", "check", "--file", &rules]).expect(0);
    let text = fs::read_to_string(&file).expect("reads");
    for expected in [
        "address = \"mqtt://127.0.0.1:1884\"\nconnections = 100\nauth.anonymous = false\n",
        "address = \"ws://[::]:8080\"\nmount_point = \"up/\"\n",
        "max_session_expiry_s = 1209600",
        "session_queue_messages = 5000",
        "in_flight_per_client = 20",
        "[data]\npath = \"auto\"",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    run(&["acl", "explain", "--file", &rules, "--user", "dave", "c", "publish", "home/x"]).expect(0);
    run(&["acl", "explain", "--file", &rules, "--user", "dave", "c", "publish", "away/x"]).expect(3);
    let again = run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(1);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0);
}

#[test]
fn without_a_listener_mosquitto_serves_this_machine_alone() {
    let folder = Folder::new("local");
    let conf = folder.write("mosquitto.conf", "max_keepalive 600\n");
    run(&["import", "--dir", &folder.0.display().to_string(), &conf]).expect(0);
    let text = fs::read_to_string(folder.path("tautwire.toml")).expect("reads");
    assert!(text.contains("address = \"mqtt://127.0.0.1:1883\"\nauth.anonymous = true\n"), "{text}");
    run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
}

/// What is said before the first `listener` line is said of one more listener.
#[test]
fn options_before_the_first_listener_make_the_default_one() {
    let folder = Folder::new("default");
    let import = |conf: &str| {
        let conf = folder.write("mosquitto.conf", conf);
        let told = run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
        run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
        (told, fs::read_to_string(folder.path("tautwire.toml")).expect("reads"))
    };
    let (told, text) = import("allow_anonymous true\nmax_connections 7\nlistener 1885 127.0.0.1\n");
    assert!(told.contains("options before the first listener"), "{told}");
    assert!(text.contains("address = \"mqtt://[::]:1883\"\nconnections = 7\n"), "{text}");
    assert!(text.contains("address = \"mqtt://127.0.0.1:1885\"\n"), "{text}");
    // Of all listeners alike.
    let (told, text) = import("allow_anonymous true\nlog_type error\nlistener 1885 127.0.0.1\n");
    assert!(!told.contains("options before") && !text.contains("1883"), "{told}{text}");
}

#[test]
fn options_of_listeners_that_are_one_for_all_here_are_noted() {
    let folder = Folder::new("joined");
    let import = |conf: &str| {
        let conf = folder.write("mosquitto.conf", conf);
        let told = run(&["import", "--force", "--dir", &folder.0.display().to_string(), &conf]).expect(0).text();
        run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
        (told, fs::read_to_string(folder.path("tautwire.toml")).expect("reads"))
    };
    let (told, text) = import(
        "allow_anonymous true\nlistener 1885 127.0.0.1\nmax_qos 0\nlistener 1886 127.0.0.1\nlistener 8080 127.0.0.1\n\
         protocol websockets\nwebsockets_origin https://a.example\nwebsockets_origin https://b.example\n",
    );
    assert!(told.contains("max_qos: mqtt.max_qos is one for all listeners, and 2 is the highest"), "{told}");
    assert!(text.contains("max_qos = 2\n"), "{text}");
    assert!(text.contains("origins = [\"https://a.example\", \"https://b.example\"]"), "{text}");
    assert!(!told.contains("websockets_origin"), "{told}");
    let (told, text) = import("allow_anonymous true\nlistener 8080 127.0.0.1\nmax_qos 1\nprotocol websockets\n");
    assert!(told.contains("lets pages of all origins in"), "{told}");
    assert!(!told.contains("max_qos") && text.contains("max_qos = 1\n"), "{told}{text}");
    for (types, level) in
        [("log_type error\n", "error"), ("log_type error\nlog_type notice\n", "info"), ("log_type all\n", "debug")]
    {
        let (told, text) = import(&format!("{types}listener 1885 127.0.0.1\nallow_anonymous true\n"));
        assert!(text.contains(&format!("level = \"{level}\"")) && !told.contains("log_type"), "{told}{text}");
    }
    let (told, text) = import("allow_anonymous true\nlistener 1885\nsocket_domain ipv4\n");
    assert!(text.contains("mqtt://0.0.0.0:1885") && !told.contains("socket_domain"), "{told}{text}");
}

/// Options of mosquitto 2.1 that mean something here: each is taken without a word.
const MAPPED: &str = "\
listener 1885 127.0.0.1
acl_file acl
allow_anonymous true
cafile ca.pem
certfile server.pem
crlfile crl.pem
global_max_clients 10
global_max_connections 10
keyfile server.key
listener_allow_anonymous true
log_type information
max_connections 5
max_inflight_messages 0
max_keepalive 600
max_packet_size 1000
max_qos 1
max_queued_bytes 100000
max_queued_messages 0
max_topic_alias 10
maximum_qos 2
memory_limit 0
mount_point up/
password_file passwd
per_listener_settings false
persistence true
persistence_file x
persistence_location x
persistent_client_expiration 90s
protocol mqtt
require_certificate true
retain_available true
retained_persistence true
socket_domain ipv4
sys_interval 5
tls_version tlsv1.2
use_identity_as_username true
websockets_origin https://example.org
";

/// The others: each is named with a reason.
const NAMED: &str = "\
accept_protocol_versions 4,5
address a.example
addresses a.example
allow_duplicate_messages true
allow_zero_length_clientid true
auth_opt_x y
auth_plugin /usr/lib/go-auth.so
auth_plugin_deny_special_chars true
auto_id_prefix x
autosave_interval 5
autosave_on_changes true
bind_interface eth0
bridge_alpn mqtt
bridge_attempt_unsubscribe true
bridge_bind_address 127.0.0.1
bridge_cafile x
bridge_capath x
bridge_certfile x
bridge_ciphers x
bridge_ciphers_tls1.3 x
bridge_identity x
bridge_insecure true
bridge_keyfile x
bridge_max_packet_size 1
bridge_max_topic_alias 1
bridge_outgoing_retain true
bridge_protocol_version mqttv50
bridge_psk 00
bridge_receive_maximum 1
bridge_reload_type lazy
bridge_require_ocsp true
bridge_session_expiry_interval 1
bridge_tcp_keepalive 1 1 1
bridge_tcp_user_timeout 1
bridge_tls_use_os_certs true
bridge_tls_version tlsv1.3
capath x
check_retain_source true
ciphers x
ciphers_tls1.3 x
cleansession true
clientid x
clientid_prefixes x
connection_messages true
dhparamfile x
disable_client_cert_date_checks true
enable_control_api true
enable_proxy_protocol 2
global_plugin /usr/lib/mosquitto_dynamic_security.so
http_dir x
idle_timeout 1
keepalive_interval 1
listener_auto_id_prefix x
local_cleansession true
local_clientid x
local_password hunter2
local_username x
log_dest stderr
log_facility 5
log_timestamp true
log_timestamp_format x
max_inflight_bytes 1
max_topic_alias_broker 1
message_size_limit 1
notification_topic x
notifications true
notifications_local_only true
packet_buffer_size 1
password hunter2
pid_file x
plugin /usr/lib/mosquitto_sparkplug_aware.so
plugin_load other /usr/lib/other.so
plugin_opt_password hunter2
plugin_use other
proxy_protocol_v2_require_tls true
psk_file x
psk_hint hunter2
queue_qos0_messages true
remote_clientid x
remote_password hunter2
remote_username x
restart_timeout 5 30
retain_expiry_interval 1
retry_interval 1
round_robin true
set_tcp_nodelay true
start_type automatic
threshold 1
tls_engine x
tls_engine_kpass_sha1 00
tls_keyform pem
topic # both
try_private true
upgrade_outgoing_qos true
use_subject_as_username true
use_username_as_clientid true
user mosquitto
username x
websockets_headers_size 1
websockets_log_level 1
connection other
";

/// The options are those of mosquitto.conf(5) of 2.1, and those that it takes besides.
#[test]
fn each_option_of_mosquitto_has_a_counterpart_or_is_named() {
    let folder = Folder::new("options");
    folder.write("acl", "topic readwrite #\n");
    let conf = folder.write("mosquitto.conf", &format!("port 1884\nbind_address 127.0.0.1\n{MAPPED}{NAMED}"));
    let told = run(&["import", "--dir", &folder.path("new"), &conf]).expect(0).text();
    assert!(!told.contains("is not known"), "{told}");
    assert!(!told.contains("hunter2"), "a secret is shown: {told}");
    let first = 3 + MAPPED.lines().count();
    for (at, line) in NAMED.lines().enumerate() {
        let key = line.split(' ').next().expect("there is always one");
        assert!(told.contains(&format!(":{}: {key}", first + at)), "{line} is not named: {told}");
    }
    let notes = told.lines().filter(|line| line.contains("mosquitto.conf:")).count();
    assert_eq!(notes, NAMED.lines().count(), "{told}");
}

#[test]
fn plugins_that_read_files_are_what_the_files_are() {
    let folder = Folder::new("plugins");
    for name in ["users", "others"] {
        folder.write(name, USERS);
    }
    folder.write("acl", "user dave\ntopic readwrite home/#\n");
    folder.write("acl-2", "topic read public/#\n");
    let conf = folder.write(
        "mosquitto.conf",
        "global_plugin /usr/lib/x86_64-linux-gnu/mosquitto_password_file.so\nplugin_opt_password_file users\n\
         plugin_load rules /usr/lib/mosquitto_acl_file.so\nplugin_opt_acl_file acl\n\
         plugin_load public /usr/lib/mosquitto_acl_file.so\nplugin_opt_acl_file acl-2\n\
         plugin_load others /usr/lib/mosquitto_password_file.so\n\
         listener 1884 127.0.0.1\nplugin_use rules\n\
         listener 1885\nlistener_allow_anonymous true\nplugin_use public\nplugin_use others\nplugin_opt_password_file others\n\
         listener 8080 127.0.0.1\nprotocol http_api\n",
    );
    let told = run(&["import", "--dir", &folder.path("new/made"), &conf]).expect(0).text();
    assert_eq!(told.lines().filter(|line| line.contains("mosquitto.conf:")).count(), 1, "{told}");
    assert!(told.contains(":16: protocol http_api: this listener is left out"), "{told}");
    let file = folder.path("new/made/tautwire.toml");
    run(&["config", "check", "--config", &file]).expect(0);
    let text = fs::read_to_string(&file).expect("reads");
    let listeners: Vec<&str> = text.split("[[listener]]\n").skip(1).collect();
    let [first, second] = listeners.as_slice() else { panic!("{text}") };
    let expected = format!(
        "address = \"mqtt://127.0.0.1:1884\"\nauth.anonymous = false\nauth.password_file = \"{}\"\nacl.file = \"access.toml\"\n",
        folder.path("users")
    );
    // Nobody else is on the way to this machine itself.
    assert_eq!(first.trim(), expected.trim());
    assert!(second.contains("auth.anonymous = true\n") && second.contains(&folder.path("others")), "{second}");
    assert!(second.contains("auth.plain_passwords = true\n"), "{second}");
    assert!(second.contains("acl.file = \"access-2.toml\"\n"), "{second}");
    for rules in ["access.toml", "access-2.toml"] {
        run(&["acl", "check", "--file", &folder.path(&format!("new/made/{rules}"))]).expect(0);
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let gone = run(&["import", "no-such.conf"]).expect(1);
    assert!(gone.stderr.contains("no-such.conf cannot be read"), "{}", gone.stderr);
}

/// A part of a configuration would not mean the same.
#[test]
fn a_file_that_is_too_large_is_refused_and_not_cut_off() {
    let folder = Folder::new("large");
    let file = folder.write("mosquitto.conf", "allow_anonymous true\n");
    let opened = fs::OpenOptions::new().write(true).open(&file).expect("it is there");
    opened.set_len((16 << 20) + 1).expect("a file may have a hole");
    let refused = run(&["import", "--dir", &folder.0.display().to_string(), &file]).expect(1);
    assert!(refused.stderr.contains("is larger than 16777216 bytes, the most that is read"), "{}", refused.stderr);
}

/// What Mosquitto 2.0.11 has written: three sessions, and one retained message.
const STATE: &str = include_str!("../../../mosquitto/tests/golden/mosquitto-2.0.11.txt");

fn state_file(folder: &Folder) -> String {
    let digits = STATE.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let bytes: Vec<u8> = digits.map(|byte| u8::from_str_radix(byte, 16).expect("digits")).collect();
    fs::write(folder.0.join("mosquitto.db"), bytes).expect("writes");
    folder.path("mosquitto.db")
}

#[test]
fn sessions_and_messages_of_mosquitto_are_served_as_before() {
    let folder = Folder::new("state");
    let (state, data) = (state_file(&folder), folder.path("data"));
    let told = run(&["import", "mosquitto", "--data", &data, &state]).expect(0).text();
    for expected in [" 3 sessions\n", " 5 messages that wait\n", " 3 messages that were sent and not", " 1 retained"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains("without a counterpart"), "{told}");
    run(&["data", "check", "--data", &data]).expect(0);
    let broker = Broker::with(&[&format!("data.path={data}")]);
    let arguments = ["-i", "old", "-c", "a/#", "-q", "2", "-v", "-C", "3", "-W", "20"];
    let got = broker.subscribe_to_end(&arguments).expect(0).text();
    assert_eq!(got, "a/0 0\na/2 2\na/held held\n");
    let arguments = ["r", "-q", "1", "--retained-only", "-C", "1", "-W", "20"];
    assert_eq!(broker.subscribe_to_end(&arguments).expect(0).text(), "retained\n");
    // Once more, on what the broker has written since.
    drop(broker);
    run(&["data", "check", "--data", &data]).expect(0);
}

#[test]
fn a_configuration_names_the_state_that_is_taken_over_with_it() {
    let folder = Folder::new("both");
    state_file(&folder);
    let here = folder.0.display().to_string();
    let conf =
        folder.write("mosquitto.conf", &format!("persistence true\npersistence_location {here}/\nmax_keepalive 600\n"));
    let data = folder.path("data");
    let told = run(&["import", "mosquitto", "--dir", &here, "--data", &data, &conf]).expect(0).text();
    assert!(told.contains(" 3 sessions\n") && !told.contains("stay there"), "{told}");
    let text = fs::read_to_string(folder.path("tautwire.toml")).expect("reads");
    assert!(text.contains(&format!("[data]\npath = \"{data}\"")), "{text}");
    run(&["config", "check", "--config", &folder.path("tautwire.toml")]).expect(0);
}

#[test]
fn a_state_that_cannot_be_taken_over_leaves_nothing_behind() {
    let folder = Folder::new("refused");
    let (state, data) = (state_file(&folder), folder.path("data"));
    let refused = |arguments: &[&str], why: &str| {
        let said = run(&[&["import", "mosquitto"], arguments].concat()).expect(1).stderr;
        assert!(said.contains(why), "{why}: {said}");
    };
    refused(&[&state], "write with --data DIR");
    refused(&[], "write the name of a mosquitto.conf");
    let conf = folder.write("mosquitto.conf", "persistence false\n");
    refused(&["--data", &data, &conf], "no mosquitto.db is given, and none is named");
    let bytes = fs::read(&state).expect("reads");
    fs::write(&state, &bytes[..bytes.len() - 1]).expect("writes");
    refused(&["--data", &data, &state], "ends within the chunk at byte 704; ");
    fs::write(&state, b"SQLite format 3\0").expect("writes");
    refused(&["--data", &data, &state], "is a database of SQLite");
    let names: Vec<_> =
        fs::read_dir(&folder.0).expect("reads").map(|entry| entry.expect("reads").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    fs::write(&state, &bytes).expect("writes");
    fs::create_dir(&data).expect("makes");
    fs::write(folder.0.join("data/other"), "").expect("writes");
    refused(&["--data", &data, &state], "is not empty; name a new directory");
}
